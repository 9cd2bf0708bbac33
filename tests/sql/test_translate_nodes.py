"""The algebra that queries become: which operators, which columns, which names."""

from __future__ import annotations

import pytest

from tests.sql.translate_oracle import Oracle, Tables
from tests.sql.translate_queries import tables
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import integer, plain
from viewkeeper.algebra.serial import from_json, to_json
from viewkeeper.engine.engine import open_engine
from viewkeeper.sql.check import check
from viewkeeper.sql.query import Virtual


@pytest.fixture(scope="module")
def given() -> Tables:
    return tables()


@pytest.fixture(scope="module")
def sail(given: Tables) -> Oracle:
    return Oracle(open_engine("sail", None, {}, {}), given)


def kinds(oracle: Oracle, text: str) -> list[str]:
    return [type(node).__name__ for node in oracle.translated(text).node.walk()]


def only(oracle: Oracle, text: str, kind: type[n.Node]) -> n.Node:
    found = [node for node in oracle.translated(text).node.walk() if isinstance(node, kind)]
    assert len(found) == 1
    return found[0]


def test_a_scan_lists_only_what_is_needed(sail: Oracle) -> None:
    scan = only(sail, "SELECT a FROM t WHERE b > 1", n.Scan)
    assert [a.name for a in scan.outputs] == ["a", "b"]


def test_count_needs_one_column(sail: Oracle) -> None:
    assert len(only(sail, "SELECT count(*) FROM t", n.Scan).outputs) == 1


def test_distinct_keeps_its_columns(sail: Oracle) -> None:
    scan = only(sail, "SELECT x FROM (SELECT DISTINCT a AS x, b AS y FROM t) q", n.Scan)
    assert [a.name for a in scan.outputs] == ["a", "b"]


def test_joins_become_one(sail: Oracle) -> None:
    node = only(sail, "SELECT t.a FROM t JOIN u ON t.a = u.a, k WHERE k.id = u.a AND t.b > 1 AND k.v < u.c", n.Join)
    assert isinstance(node, n.Join)
    assert len(node.inputs) == 3
    assert [str(e) for e in node.equalities] == ["a = a", "id = a"]
    assert [str(c) for c in node.conditions] == ["v < c"]


def test_an_equation_of_computed_values_becomes_an_equality(sail: Oracle) -> None:
    node = only(sail, "SELECT t.a FROM t, u WHERE t.a + 1 = u.a * 2", n.Join)
    assert isinstance(node, n.Join)
    assert [str(e) for e in node.equalities] == ["a + 1 = a * 2"]


def test_a_compared_scalar_subquery_is_an_inner_join(sail: Oracle) -> None:
    assert "Outer" not in kinds(sail, "SELECT a FROM t WHERE b > (SELECT max(c) / 20 FROM u WHERE u.a = t.a)")
    assert "Outer" in kinds(sail, "SELECT a FROM t WHERE b > (SELECT count(*) FROM u WHERE u.a = t.a)")
    assert "Outer" in kinds(sail, "SELECT a FROM t WHERE b > (SELECT coalesce(max(c), 0) FROM u WHERE u.a = t.a)")


def test_a_condition_on_one_table_is_tested_there(sail: Oracle) -> None:
    node = only(sail, "SELECT t.a FROM t, u WHERE t.a = u.a AND u.c IN (SELECT v FROM k)", n.Join)
    assert [type(part).__name__ for part in node.inputs] == ["Scan", "Exists"]


def test_not_in_without_nulls_is_an_anti_join(sail: Oracle) -> None:
    assert kinds(sail, "SELECT id FROM k WHERE id NOT IN (SELECT v FROM k)").count("Exists") == 1
    assert "Outer" not in kinds(sail, "SELECT id FROM k WHERE id NOT IN (SELECT v FROM k)")
    assert "Outer" in kinds(sail, "SELECT a FROM t WHERE a NOT IN (SELECT a FROM u)")


def test_order_without_limit_is_dropped(sail: Oracle) -> None:
    assert "Top" not in kinds(sail, "SELECT a FROM (SELECT a, b FROM t ORDER BY b) q ORDER BY a")


def test_kept_aggregates_have_no_text(sail: Oracle) -> None:
    text = "SELECT count(*), sum(b), avg(b), min(s), max(b) FILTER (WHERE a > 1), bool_or(b > 1), avg(d) FROM t, m"
    node = only(sail, text, n.Aggregate)
    assert isinstance(node, n.Aggregate)
    assert all(call.text is None for call in node.calls)
    assert {call.function for call in node.calls} == {"count", "sum", "min", "max"}
    assert all(call.output.type.precision == 38 for call in node.calls if call.function == "sum")


def test_ties_are_broken_where_a_row_is_picked(sail: Oracle) -> None:
    def broken(text: str) -> bool:
        node = only(sail, f"SELECT {text} FROM t", n.Window)
        assert isinstance(node, n.Window)
        return node.calls[0].tie_break

    assert broken("row_number() OVER (ORDER BY a)")
    assert broken("lag(b) OVER (ORDER BY a)")
    assert broken("sum(b) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)")
    assert not broken("rank() OVER (ORDER BY a)")
    assert not broken("sum(b) OVER (ORDER BY a)")


def test_names_are_those_of_the_user(sail: Oracle) -> None:
    query = sail.translated("SELECT a, t.B, a + 1, count(*), sum(b) AS total FROM t GROUP BY a, b")
    assert query.names == ("a", "B", "(a + 1)", "count(1)", "total")


def test_a_view_stands_for_its_query(sail: Oracle, given: Tables) -> None:
    given.stored["big"] = Virtual("big", sail.translated("SELECT a, sum(b) AS v FROM t GROUP BY a"))
    text = "SELECT x.a, y.v FROM big x JOIN big y ON x.a = y.a WHERE x.v > 5"
    check(sail.translated(text).node)
    expected = "WITH big AS (SELECT a, sum(b) AS v FROM t GROUP BY a) " + text
    assert sail.rows(text) == sail.expected(expected)


def test_algebra_survives_the_ledger(sail: Oracle) -> None:
    node = sail.translated("SELECT a, (SELECT count(*) FROM u WHERE u.a < t.a) AS x FROM t").node
    assert from_json(to_json(node)) == node


def test_equal_questions_are_asked_once(sail: Oracle) -> None:
    attribute = sail.translated("SELECT a FROM t").node.outputs[0]
    question = [plain("+", attribute, integer(1))]
    first = sail.typer.columns(question)
    assert [kind for _, kind in first] == ["int"]
    assert sail.typer.columns(question) is first
