"""A law that breaks its contract is an InternalError, whatever Python is told about assertions."""

from __future__ import annotations

import pytest

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Numbers
from viewkeeper.algebra.types import Type
from viewkeeper.delta import compile as laws
from viewkeeper.errors import InternalError


def test_a_law_that_breaks_its_contract_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = Numbers()
    a, b = (numbers.attribute(name, Type("int")) for name in "ab")
    scan = n.Scan("t", "t", (a, b), n.NEW, ("a", "b"))
    query = n.Distinct(scan)
    for wrong, message in (
        (scan, "gives no change"),
        (n.Scan("t", "t", (a,), n.CHANGE, ("a",)), "changes the columns"),
    ):
        monkeypatch.setitem(laws.LAWS, n.Distinct, lambda *_, wrong=wrong: wrong)
        with pytest.raises(InternalError, match=f"the law of Distinct {message}"):
            laws.differentiate(query, {"t"})
