"""What is said of the views of a script, without an engine: verdicts, suggestions, places, and what is refused."""

from __future__ import annotations

import pytest

from viewkeeper.advice.advice import Analysis
from viewkeeper.advice.script_analysis import analyze_script
from viewkeeper.analysis.safe_references import Nesting, Verdict
from viewkeeper.errors import SqlError

TABLES = """
CREATE TABLE t (id INT PRIMARY KEY, g INT, x INT, i INT, m MAP<STRING, INT>, a ARRAY<STRUCT<p: INT, q: STRING>>);
CREATE TABLE s (id INT PRIMARY KEY, k INT, j INT, g INT);
CREATE MATERIALIZED VIEW per_g AS SELECT g, count(*) AS n FROM t GROUP BY g;
"""


def analyzed(query: str) -> Analysis:
    return analyze_script(f"{TABLES} CREATE MATERIALIZED VIEW v AS {query}").views[-1]


def verdict(query: str, table: str) -> Verdict:
    return next(v for v in analyzed(query).findings.verdicts if v.reference.name == table)


def advice(query: str) -> list[str]:
    return [one.text for one in analyzed(query).advice]


# claims ------------------------------------------------------------------------------------------


def test_a_column_that_is_equal_after_a_cast_binds_nothing() -> None:
    found = analyze_script(
        "CREATE TABLE t (s STRING PRIMARY KEY, i INT, x DOUBLE, b BIGINT UNIQUE NOT NULL);"
        "CREATE VIEW v AS SELECT i FROM t WHERE s = i; CREATE VIEW w AS SELECT x FROM t WHERE b = x;"
        "CREATE VIEW u AS SELECT i FROM t WHERE b = i"
    )
    assert [analysis.keys for analysis in found.views] == [[], [], [("i",)]]


def test_a_number_does_not_bind_its_text() -> None:
    query = "SELECT DISTINCT y, CAST(y AS STRING) AS z FROM (SELECT CAST(x AS DOUBLE) * i AS y FROM t)"
    assert analyzed(query).keys == [("y", "z")]
    assert analyzed(query.replace("CAST(x AS DOUBLE)", "x")).keys == [("y",)]


def test_the_group_of_a_view_may_be_null() -> None:
    assert analyzed("SELECT DISTINCT p.g, p.n FROM s LEFT JOIN per_g p ON p.n = s.k").keys == [("g", "n")]
    assert analyzed("SELECT g, n FROM per_g").keys == [("g",)]


@pytest.mark.parametrize("operator", ["NOT IN", "<> ALL"])
def test_negations_that_null_makes_unknown(operator: str) -> None:
    found = verdict(f"SELECT g FROM t WHERE x {operator} (SELECT j FROM s)", "s")
    assert (found.nesting, found.looks_outside) == (Nesting.NEGATIVE, ("x",))
    assert not found.is_safe_for_insertions


def test_what_is_taken_away_is_negative() -> None:
    query = "SELECT id, g FROM t EXCEPT SELECT id, g FROM s"
    assert [v.nesting for v in analyzed(query).findings.verdicts] == [Nesting.TOP, Nesting.NEGATIVE]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT t.id, l.m FROM t, LATERAL (SELECT max(j) AS m FROM s WHERE s.j = t.g) l",
        "SELECT id, g FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k < t.i AND EXISTS "
        "(SELECT 1 FROM per_g p WHERE p.g = t.g AND p.n = s.j))",
    ],
)
def test_copies_that_subqueries_are_compared_with_do_not_count(query: str) -> None:
    found = verdict(query, "t")
    assert (found.nesting, found.is_safe) == (Nesting.TOP, True)


def test_a_query_in_a_with_counts_as_often_as_it_is_named() -> None:
    query = "WITH c AS (SELECT id, g FROM t) SELECT a.id, b.g FROM c a JOIN c b ON a.g = b.g"
    assert not verdict(query, "t").is_safe


def test_what_keys_make_unnecessary_is_no_work() -> None:
    for query in ("SELECT id, max(x) AS m FROM t GROUP BY id", "SELECT DISTINCT id, g FROM t"):
        analysis = analyzed(query)
        assert {analysis.of(verdict(query, "t"), "delete").scale.name} == {"LINEAR"}


def test_an_auxiliary_relation_may_be_read_in_full() -> None:
    analysis = analyzed(
        "SELECT p.g, q.j FROM (SELECT g, count(*) AS n FROM t GROUP BY g) p "
        "JOIN (SELECT j, count(*) AS m FROM s GROUP BY j) q ON p.n < q.m"
    )
    (first, _) = analysis.findings.verdicts
    effort = analysis.of(first, "insert")
    assert (effort.scale.name, [str(one) for one in effort.readings]) == ("WHOLE", ["all of an auxiliary relation"])


def test_the_value_of_an_aggregate_is_one_row() -> None:
    query = "SELECT id, g FROM t WHERE x > (SELECT avg(j) FROM s)"
    effort = analyzed(query).of(verdict(query, "t"), "insert")
    assert (effort.scale.name, effort.readings) == ("LINEAR", ())


@pytest.mark.parametrize(
    ("order", "scale", "reads"),
    [
        ("ORDER BY x LIMIT 3", "GROUPS", []),
        ("ORDER BY x LIMIT 3 OFFSET 2", "GROUPS", []),
        ("ORDER BY x OFFSET 2", "WHOLE", ["all of t"]),
    ],
)
def test_only_a_limit_has_a_buffer(order: str, scale: str, reads: list[str]) -> None:
    query = f"SELECT id, x FROM t {order}"
    effort = analyzed(query).of(verdict(query, "t"), "delete")
    assert (effort.scale.name, [str(one) for one in effort.readings]) == (scale, reads)
    assert bool(effort.remarks) == (scale == "GROUPS")


# suggestions -------------------------------------------------------------------------------------


def test_suggestions_that_are_no_views_are_not_made() -> None:
    assert "write SELECT DISTINCT" not in advice("SELECT g FROM t ORDER BY id LIMIT 2")
    assert advice("SELECT m FROM t") == ["add t.id to the SELECT list"]


def test_a_union_is_split_with_its_with_but_not_under_a_limit() -> None:
    union = "WITH c AS (SELECT id FROM t) SELECT id FROM c UNION SELECT id FROM s"
    (found,) = advice(union)
    assert found.startswith("split the UNION")
    assert advice(f"{union} ORDER BY id LIMIT 3") == []


def test_an_added_column_has_a_name_of_its_own() -> None:
    assert "add t.id AS t_id to the SELECT list" in advice("SELECT s.id FROM s JOIN t ON t.g = s.g")


def test_no_key_can_be_declared_for_a_view() -> None:
    assert not any("declare" in text for text in advice("SELECT n FROM per_g"))


# reading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [40, 200])
def test_many_conditions(count: int) -> None:
    assert analyzed("SELECT id FROM t WHERE " + " AND ".join(f"g <> {i}" for i in range(count))).keys == [("id",)]


def test_a_query_that_is_nested_too_deep() -> None:
    query = "SELECT id FROM t"
    for number in range(1_500):
        query = f"SELECT id FROM ({query}) q{number}"
    with pytest.raises(SqlError, match="nested too deep"):
        analyzed(query)


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT explode(m) FROM t", ["key", "value"]),
        ("SELECT posexplode(m) FROM t", ["pos", "key", "value"]),
        ("SELECT inline(a) FROM t", ["p", "q"]),
        ("SELECT explode(a) FROM t", ["col"]),
        ("SELECT k, v FROM t LATERAL VIEW explode(m) z AS k, v", ["k", "v"]),
        ("SELECT stack(2, 1, 2, 3) AS (one, two) FROM t", ["one", "two"]),
        ("SELECT json_tuple('{}', 'a', 'b') FROM t", ["c0", "c1"]),
        ("SELECT c, v FROM s UNPIVOT (v FOR c IN (id, g))", ["c", "v"]),
    ],
)
def test_functions_with_several_columns(query: str, columns: list[str]) -> None:
    assert list(analyzed(query).columns) == columns


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT g, g FROM t", "two columns of v are named 'g'"),
        ("SELECT * FROM t JOIN s USING (g)", "two columns of v are named 'id'"),
        ("SELECT NULL AS n FROM t", "a column that is always NULL has no type"),
    ],
)
def test_what_creation_refuses_is_refused(query: str, message: str) -> None:
    with pytest.raises(SqlError, match=message) as caught:
        analyzed(query)
    assert caught.value.place is not None


def test_a_view_that_replaces_another() -> None:
    text = "CREATE VIEW v AS SELECT g FROM t; CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT id AS k FROM t;"
    assert analyze_script(f"{TABLES} {text} CREATE VIEW w AS SELECT k FROM v").views[-1].columns == ("k",)
    same = "CREATE VIEW IF NOT EXISTS v AS SELECT x FROM t; CREATE VIEW w AS SELECT k FROM v"
    assert analyze_script(f"{TABLES} {text} {same}").views[-1].columns == ("k",)


@pytest.mark.parametrize("text", ["CREATE TABLE t (a INT)", "CREATE VIEW s AS SELECT g FROM t"])
def test_two_relations_of_one_name(text: str) -> None:
    with pytest.raises(SqlError, match="there are two relations named"):
        analyze_script(f"{TABLES} {text}")


def test_each_place_is_in_its_own_statement() -> None:
    text = "-- SELECT g FROM t\nCREATE VIEW v AS SELECT g FROM t;\nCREATE VIEW w AS SELECT g FROM t"
    found = analyze_script(f"CREATE TABLE t (g INT);\n{text}")
    assert [v.reference.place.line for a in found.views for v in a.findings.verdicts if v.reference.place] == [3, 4]
