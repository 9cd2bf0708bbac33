"""docs/rules.md tells the truth: its statements and its Python run, and what it quotes is what they print."""

from __future__ import annotations

import contextlib
import io
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import viewkeeper as vk
from viewkeeper.algebra.text_tables import table_lines
from viewkeeper.rules.webhooks import signature

PATH = Path(__file__).resolve().parents[2] / "docs" / "rules.md"


def test_the_page(tmp_path: Path) -> None:
    for _, quoted, printed in played(PATH.read_text(), tmp_path):
        assert quoted == printed


def played(page: str, directory: Path) -> Iterator[tuple[tuple[int, int], str, str]]:
    """Runs the blocks of a page in their order; for each quotation its span, its text, and what was printed."""
    names: dict[str, Any] = {}
    printed = ""
    with vk.connect(directory / "shop", engine="sail") as names["db"]:
        for block in re.finditer(r"```(sql|python|text)\n(.*?)```", page, re.DOTALL):
            kind, text = block.groups()
            if kind == "text":
                yield block.span(2), text.rstrip("\n"), printed
            else:
                printed = run_sql(names["db"], text) if kind == "sql" else run_python(names, text)


def run_sql(db: vk.Database, script: str) -> str:
    """What the command line prints for the last statement of a script: rows, an error, or nothing."""
    try:
        result = db.sql(script)
    except vk.errors.ViewkeeperError as problem:
        lines = [line for line in str(problem).splitlines() if not line.startswith("in statement ")]
        return "\n".join(["error: " + lines[0], *lines[1:]])
    return "\n".join(table_lines(result.columns, result.rows())) if result.has_rows else ""


def run_python(names: dict[str, Any], code: str) -> str:
    """What Python prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)
    return printed.getvalue().rstrip("\n")


def test_the_check_of_signatures_takes_what_is_sent_and_nothing_else() -> None:
    names: dict[str, Any] = {}
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", PATH.read_text(), re.DOTALL) if "hmac" in block]
    run_python(names, code)
    is_genuine, body, timestamp = names["is_genuine"], b'{"rule": "alert"}', str(int(time.time()))
    headers = {"Viewkeeper-Timestamp": timestamp, "Viewkeeper-Signature": signature("secret", timestamp, body)}
    assert is_genuine("secret", headers, body)
    assert not is_genuine("another", headers, body)
    assert not is_genuine("secret", headers, body + b" ")
    late = {"Viewkeeper-Timestamp": "1", "Viewkeeper-Signature": signature("secret", "1", body)}
    assert not is_genuine("secret", late, body)
