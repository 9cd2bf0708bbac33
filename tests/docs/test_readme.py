"""The README tells the truth: its example works when pasted, and its commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"


TABLES, VIEWS, RECURSION, RULES, SUBSCRIPTIONS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def pasted(code: str, directory: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_example_of_views_works_when_pasted(tmp_path: Path) -> None:
    lines = pasted(VIEWS, tmp_path)
    assert lines[0] == "dict_keys(['sales', 'totals'])"
    assert "('EU', 2, Decimal('13.50')): 1" in lines[1]
    assert "changed" in lines[1]
    assert "('US', 1, Decimal('7.00'))" in lines[2]
    assert lines[3].startswith("totals: materialized view")
    again = pasted(VIEWS, tmp_path)
    assert again[0] == "dict_keys([])"


def test_the_example_of_recursion_works_when_pasted(tmp_path: Path) -> None:
    for _ in range(2):
        lines = pasted(RECURSION, tmp_path)
        gone = [("a", "a"), ("b", "a"), ("b", "b"), ("c", "a"), ("c", "b"), ("c", "c")]
        assert lines[0] == str([(row, -1) for row in gone])
        assert "removed" in lines[1]


def test_the_example_of_rules_works_when_pasted(tmp_path: Path) -> None:
    for _ in range(2):
        lines = pasted(RULES, tmp_path)
        assert lines[0] == "('reorder',) {('hat', 100): 1}"
        assert lines[1] == "the assertion not_negative is violated"


def test_the_example_of_subscriptions_works_when_pasted(tmp_path: Path) -> None:
    for _ in range(2):
        assert pasted(SUBSCRIPTIONS, tmp_path) == ["{('north', 95): 1}"]


def test_the_page_of_subscriptions_works_when_pasted(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (README.parent / "docs" / "feeds.md").read_text(), re.DOTALL)
    for _ in range(2):
        lines = pasted(code, tmp_path)
        assert lines == [
            "True {('EU', 10): 1, ('US', 5): 1}", "{('EU', 10): -1, ('EU', 20): 1}", "True",
        ]  # fmt: skip


def test_the_example_works_when_pasted(tmp_path: Path) -> None:
    for _ in range(2):  # also when it is pasted again over the same directory
        lines = pasted(TABLES, tmp_path)
        assert "(1, 'EU', Decimal('13.50')): 1" in lines[0]
        assert "(2, 'US', Decimal('7.00')): 1" in lines[0]
        assert lines[1:3] == ["[('EU', Decimal('14.50'))]", "[(2,)]"]
        assert lines[-2].startswith("PRIMARY KEY (id) of orders is broken: there would be two rows with id = 3")


def test_the_commands_exist() -> None:
    tool = Path(sys.executable).parent / "viewkeeper"
    told = subprocess.run([str(tool), "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    for verb in (
        "sql",
        "load",
        "ls",
        "show",
        "explain",
        "verify",
        "history",
        "compact",
        "vacuum",
        "doctor",
        "version",
        "demo",
    ):
        assert re.search(rf"^\s+{verb}\s", told, re.MULTILINE), verb
