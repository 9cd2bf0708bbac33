"""Every golden file, as written and in other portions. VKT_COMPLETE=1 writes the expected changes anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from runner import complete, completed, golden_files, run_as_written, run_in_other_ways

import viewkeeper as vk
from vkt import read_script, write_script

FILES = list(golden_files())
NAMES = [path.stem for path in FILES]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark")


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_expected_changes_are_those_of_duckdb(path: Path) -> None:
    if os.environ.get("VKT_COMPLETE"):
        complete(path)
    script = read_script(path)
    assert write_script(completed(script)) == write_script(script)


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_as_written(connect: Callable[..., vk.Database], path: Path) -> None:
    run_as_written(connect, read_script(path))


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_in_other_portions(connect: Callable[..., vk.Database], path: Path) -> None:
    run_in_other_ways(connect, read_script(path))
