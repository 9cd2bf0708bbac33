"""The page on tuning lists every threshold, with its default and what it decides."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from dataclasses import fields
from pathlib import Path

import pytest

import viewkeeper as vk

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tuning.md"


def described() -> dict[str, str]:
    """The docstring below each field."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(vk.Tuning)).body if isinstance(node, ast.ClassDef))
    found = {}
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(field.target, ast.Name):
            found[field.target.id] = ast.literal_eval(text.value)
    return found


def test_the_table_is_that_of_the_class() -> None:
    about = described()
    wanted = [
        f"| `{field.name}` | {field.default:,} | {about[field.name].removesuffix('.')} |" for field in fields(vk.Tuning)
    ]
    assert re.findall(r"^\| `.*$", PAGE.read_text(), re.MULTILINE) == wanted


def test_what_is_no_threshold_is_refused() -> None:
    with pytest.raises(vk.errors.SqlError) as caught:
        vk.Tuning(small_rows=0)
    assert str(caught.value) == (
        "small_rows = 0 is not a whole number from 1 on\n"
        "hint: leave it out, or use for instance Tuning(small_rows=100000)"
    )
    with pytest.raises(vk.errors.SqlError, match=r"full_margin = -1 is not a number from 0 on"):
        vk.Tuning(full_margin=-1)
    with pytest.raises(vk.errors.SqlError, match=r"view_threads = 2.5 is not a whole number from 1 on"):
        vk.Tuning(view_threads=2.5)  # type: ignore[arg-type]
