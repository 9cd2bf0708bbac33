"""Parameters become literals, and positions stay those of the text as written."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any

import numpy as np
import pandas as pd
import pytest

from viewkeeper.errors import Place, SqlError, TypeMismatch
from viewkeeper.sql.parameters import with_values


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (7, "7"),
        (-7, "(-7)"),
        (1 << 40, "1099511627776"),
        (1.5, "1.5D"),
        (1e300, "1e+300"),
        (-0.0, "(-0.0D)"),
        (float("nan"), "CAST('nan' AS DOUBLE)"),
        (decimal.Decimal("1.50"), "1.50"),
        (decimal.Decimal("1E+3"), "1000BD"),
        ("it's \\ \n", r"'it\'s \\ \n'"),
        (b"\x00\xff", "X'00ff'"),
        (dt.date(2024, 1, 2), "DATE'2024-01-02'"),
        (dt.datetime(2024, 1, 2, 3, tzinfo=dt.UTC), "TIMESTAMP'2024-01-02 03:00:00+00:00'"),
        (uuid.UUID(int=1), "'00000000-0000-0000-0000-000000000001'"),
        ([1, "a"], "array(1, 'a')"),
        ({"a": 1}, "map('a', 1)"),
        (np.int64(3), "3"),
        (pd.Timestamp("2024-01-02"), "TIMESTAMP'2024-01-02 00:00:00'"),
        (pd.NaT, "NULL"),
    ],
)
def test_values_are_written_as_literals(value: Any, literal: str) -> None:
    assert with_values("SELECT ?", [value]).text == f"SELECT {literal}"


def test_only_parameters_are_replaced() -> None:
    text = "SELECT ':a', STRUCT<a:INT>, x::int, `:a`, :a -- :a\n/* :a */, :b"
    bound = with_values(text, {"a": 1, "b": "x"})
    assert bound.text == "SELECT ':a', STRUCT<a:INT>, x::int, `:a`, 1 -- :a\n/* :a */, 'x'"


def test_places_are_those_of_the_text_as_written() -> None:
    bound = with_values("SELECT :longname, nme FROM t\nWHERE :b = x", {"longname": 1, "b": "a long text"})

    def written(piece: str) -> str:
        place = bound.as_written(Place.at(bound.text, bound.text.index(piece), len(piece)))
        assert place is not None
        assert place.text == bound.written
        return place.marked

    assert written("nme") == "nme"
    assert written("x") == ":b"  # inside the literal
    assert written("a long text") == ":b"
    assert written("= x") == "= x"
    assert written("WHERE") == "WHERE"


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        ("SELECT ?, ?", [1], "the text has 2 parameters (?), and 1 values are given"),
        ("SELECT ?", [1, 2], "the text has 1 parameters (?), and 2 values are given"),
        ("SELECT :a", {"a": 1, "b": 2}, "there is no parameter :b in the text"),
    ],
)
def test_values_and_parameters_agree(text: str, values: Any, message: str) -> None:
    with pytest.raises(SqlError) as refused:
        with_values(text, values)
    assert refused.value.message == message


@pytest.mark.parametrize("values", ["text", 7, [object()], [decimal.Decimal("NaN")], [dt.time(1)]])
def test_what_cannot_be_a_parameter_is_refused(values: Any) -> None:
    with pytest.raises(TypeMismatch):
        with_values("SELECT ?", values)
