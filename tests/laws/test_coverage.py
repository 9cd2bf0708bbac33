"""Every operator has a law, a lowering, a page of documentation and golden files; every law has a test of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from viewkeeper.algebra import nodes as n
from viewkeeper.delta.compile import LAWS
from viewkeeper.engine.lowering import _OPERATORS

ROOT = Path(__file__).resolve().parents[2]
SHARED = {"__init__", "compile", "laws"}
"""What the laws have in common: the dispatcher, whose contract test_contract.py checks, and what a law may ask for."""
LAW_FILES = sorted(path.stem for path in (ROOT / "src/viewkeeper/delta").glob("*.py") if path.stem not in SHARED)
OF_CHANGES = {n.Negate, n.Net, n.Support, n.Unbalanced, n.Once, n.Restrict, n.Both, n.Signed, n.Rederived}
"""What the laws themselves are made of: never part of a query."""


@pytest.mark.parametrize("kind", n.KINDS, ids=lambda kind: str(kind.__name__))
def test_every_operator_is_lowered(kind: type[n.Node]) -> None:
    assert kind in _OPERATORS


@pytest.mark.parametrize(
    "kind", [kind for kind in n.KINDS if kind not in OF_CHANGES], ids=lambda kind: str(kind.__name__)
)
def test_every_query_operator_has_a_law_a_page_and_golden_files(kind: type[n.Node]) -> None:
    assert kind in LAWS
    page = ROOT / "docs" / "operators" / f"{kind.__name__.lower()}.md"
    text = page.read_text()
    assert "Class:" in text
    files = re.findall(r"`(tests/golden/\w+\.vkt)`", text)
    assert files
    for file in files:
        assert (ROOT / file).exists(), file


@pytest.mark.parametrize("name", LAW_FILES)
def test_every_law_has_a_test_of_its_own(name: str) -> None:
    """It begins with the formula of the law, and checks it on random bags."""
    law, test = (ROOT / place for place in (f"src/viewkeeper/delta/{name}.py", f"tests/laws/test_{name}.py"))
    text = test.read_text()
    formula = re.search(r"δ\([^)]*\)", law.read_text())
    assert formula is not None
    assert formula[0] in text.partition("from __future__")[0]
    assert re.search(r"^def test_law", text, re.MULTILINE)


@pytest.mark.parametrize("kind", LAWS, ids=lambda kind: str(kind.__name__))
def test_every_law_is_checked_on_random_bags(kind: type[n.Node]) -> None:
    """The test of the law's file names the operator; tables and constants stand in all of them."""
    test = ROOT / "tests" / "laws" / f"test_{LAWS[kind].__module__.rpartition('.')[2]}.py"
    assert f"n.{kind.__name__}" in test.read_text() or kind is n.Scan
