"""Results and changes as Python, Arrow, pandas, polars, text and HTML."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pyarrow as pa

from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.types import parse_type
from viewkeeper.query.result import Result
from viewkeeper.transaction.change import Change

ROWS = pa.table({"region": ["EU", None, "<b>"], "total": pa.array([1, -2, 3], pa.int64())})
SCHEMA = Schema((Column("region", parse_type("string")), Column("total", parse_type("bigint"))))


def change(rows: list[tuple[str | None, int, int]], stored: int = 0) -> Change:
    regions, totals, weights = zip(*rows, strict=True)
    table = pa.table({"region": pa.array(regions, pa.string()), "total": pa.array(totals, pa.int64()),
                      "_weight": pa.array(weights, pa.int64())})  # fmt: skip
    return Change(SCHEMA, lambda: table, stored=stored)


def test_a_result_is_a_sequence_of_rows() -> None:
    result = Result(table=ROWS)
    assert list(result) == [("EU", 1), (None, -2), ("<b>", 3)]
    assert len(result) == 3
    assert result
    assert list(Result()) == []
    assert Result()


def test_a_result_goes_into_other_libraries() -> None:
    result = Result(table=ROWS)
    assert pa.table(result).equals(ROWS)
    assert result.polars().equals(pl.from_arrow(ROWS))
    assert pl.DataFrame(result)["total"].to_list() == [1, -2, 3]
    assert result.pandas()["total"].tolist() == [1, -2, 3]


def test_a_result_is_shown_as_text_and_html() -> None:
    result = Result(table=ROWS)
    assert str(result).splitlines() == ["region | total", "-------+------", "EU     |     1", "NULL   |    -2",
                                        "<b>    |     3"]  # fmt: skip
    shown = result._repr_html_()
    assert shown is not None
    assert "<th>region</th>" in shown
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    many = Result(table=pa.table({"n": list(range(30))}))
    assert str(many).splitlines()[-2:] == ["19", "..."]
    assert "the first 20 rows" in (many._repr_html_() or "")
    assert Result()._repr_html_() is None
    assert str(Result()) == "Result()"


def test_a_change_shows_its_rows_with_their_signs() -> None:
    net = change([("EU", 2, 1), ("EU", 1, -1), (None, 0, 2)])
    assert repr(net).splitlines() == ["Change(+3, −1)", "  − EU | 1", "  + EU | 2", "  + NULL | 0 (2 times)"]
    shown = net._repr_html_()
    assert shown is not None
    assert shown.count("<tr") == 4
    assert "<td>−</td>" in shown
    assert "<td>+ (2 times)</td>" in shown


def test_a_large_change_is_counted_and_not_read() -> None:
    def fetch() -> pa.Table:
        raise AssertionError("its rows are read")

    large = Change(SCHEMA, fetch, stored=1_000_000)
    assert repr(large) == "Change(about 1,000,000 rows, which are read when they are asked for)"
    assert large._repr_html_() is None
    assert "... and 10 more" in repr(change([("EU", number, 1) for number in range(30)], stored=30))


def test_values_of_a_result_are_plain_python() -> None:
    table = pa.table(
        {
            "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "t": pa.array([dt.datetime(2024, 1, 2, tzinfo=dt.UTC)], pa.timestamp("us", "Europe/Berlin")),
        }
    )
    assert Result(table=table).rows() == [({"k": 1}, dt.datetime(2024, 1, 2, tzinfo=dt.UTC))]
