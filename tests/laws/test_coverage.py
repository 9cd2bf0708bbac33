"""Every operator has a law, a lowering, a page of documentation and golden files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from viewkeeper.algebra import nodes as n
from viewkeeper.delta.compile import LAWS
from viewkeeper.engine.lowering import _OPERATORS

ROOT = Path(__file__).resolve().parents[2]
OF_CHANGES = {n.Negate, n.Net, n.Support, n.Once, n.Restrict, n.Both, n.Signed, n.Rederived}
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
