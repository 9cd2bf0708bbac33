"""What a query may not say is refused by name, with its position and something to type instead."""

from __future__ import annotations

import pytest

from tests.sql.translate_oracle import Oracle
from tests.sql.translate_queries import tables
from viewkeeper.engine.engine import open_engine
from viewkeeper.errors import NotFound, NotMaintainable, SqlError, ViewkeeperError

REFUSED: list[tuple[str, type[ViewkeeperError], str, int | None]] = [
    ("SELECT z FROM t", NotFound, "there is no column 'z'", 8),
    ("SELECT t.z FROM t", NotFound, "there is no column 'z' in t", 8),
    ("SELECT a FROM t ORDER BY zzz", NotFound, "there is no column 'zzz'", 26),
    ("SELECT a FROM nothere", NotFound, "there is no table 'nothere'", 15),
    ("SELECT st.zz FROM m", SqlError, "there is no field 'zz'", 8),
    ("SELECT a FROM t, u", SqlError, "'a' is ambiguous: it can be t.a, u.a", 8),
    ("SELECT a, b FROM t GROUP BY a", SqlError, "'b' is neither in GROUP BY nor in an aggregate", 11),
    ("SELECT sum(sum(b)) FROM t", SqlError, "an aggregate cannot stand inside an aggregate", 8),
    ("SELECT a FROM t WHERE sum(b) > 1", SqlError, "an aggregate cannot stand in WHERE", 23),
    ("SELECT a FROM t WHERE rank() OVER (ORDER BY a) = 1", SqlError, "a window function cannot stand in WHERE", 23),
    ("SELECT row_number() FROM t", SqlError, "row_number needs OVER", 8),
    ("SELECT rand() AS r FROM t", NotMaintainable, "rand() cannot be maintained", 8),
    ("SELECT current_date AS d FROM t", NotMaintainable, "current_date() cannot be maintained", 8),
    ("SELECT DATE'today' AS d FROM t", NotMaintainable, "'today' as a date", 12),
    ("SELECT a FROM t TABLESAMPLE (10 PERCENT)", NotMaintainable, "TABLESAMPLE cannot be maintained", 15),
    (
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT max(n) + 1 FROM r WHERE n < 5) SELECT * FROM r",
        NotMaintainable,
        "'r' cannot be read through GROUP BY and aggregates inside its own definition",
        None,
    ),
    ("SELECT NULL AS x FROM t", SqlError, "a column that is always NULL has no type", None),
    ("SELECT INTERVAL 1 DAY AS i FROM t", NotMaintainable, "the type INTERVAL is not supported", None),
    ("SELECT a FROM t UNION ALL SELECT a, b FROM t", SqlError, "have 1 and 2 columns", 34),
    ("SELECT a FROM t ORDER BY a LIMIT b", NotMaintainable, "LIMIT and OFFSET are constant", 34),
    ("SELECT a FROM t LIMIT -1", SqlError, "not negative", None),
    ("SELECT (SELECT a, b FROM t) FROM t", SqlError, "a subquery that is a value has one column", None),
    ("SELECT a FROM t WHERE (a, b) IN (SELECT a FROM u)", SqlError, "2 values and the subquery 1 columns", None),
    ("SELECT map(a, b) AS m FROM t GROUP BY map(a, b)", NotMaintainable, "cannot be grouped by a MAP", None),
    ("SELECT DISTINCT map(a, b) AS m FROM t", NotMaintainable, "DISTINCT of the MAP column 'm'", 17),
    ("SELECT map(a, b) AS m FROM t UNION SELECT map(a, c) FROM u", NotMaintainable, "is a MAP", None),
    ("SELECT min(map(a, b)) AS m FROM t", NotMaintainable, "min of a MAP", 8),
    ("SELECT explode(array(a)), explode(array(b)) FROM t", NotMaintainable, "only one table function", 27),
    ("SELECT 1 + explode(array(a)) FROM t", NotMaintainable, "cannot stand inside an expression", 12),
    ("SELECT a FROM db.t", SqlError, "there are no schemas or catalogs", 15),
    ("SELECT a FROM t GROUP BY 5", SqlError, "GROUP BY 5: there are 1 columns", 26),
    ("SELECT * EXCEPT (zz) FROM t", SqlError, "there is no column 'zz' to leave out", 18),
    ("SELECT a FROM t JOIN u USING (zz)", SqlError, "'zz' of USING is not on both sides", 31),
    ("SELECT nosuch(a) FROM t", SqlError, "the engine cannot run this", 8),
    ("SELECT sum(b) OVER nope FROM t", SqlError, "there is no window 'nope'", 20),
    ("SELECT sum(b) OVER w FROM t WINDOW w AS w", SqlError, "the window 'w' is defined by itself", 36),
    ("SELECT sum(b) OVER w FROM t WINDOW w AS (ORDER BY a), w AS (ORDER BY b)", SqlError, "'w' is defined twice", 55),
    (
        "SELECT sum(b) OVER (w ORDER BY a) FROM t WINDOW w AS (ORDER BY b)",
        SqlError,
        "a window defined by 'w' cannot have ORDER BY of its own",
        8,
    ),
    (
        "SELECT sum(b) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND 10 PRECEDING) FROM t",
        SqlError,
        "a frame between 1 PRECEDING and 10 PRECEDING ends before it begins",
        None,
    ),
    (
        "SELECT lag(b) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
        SqlError,
        "lag takes no frame",
        8,
    ),
    ("SELECT max(b) WITHIN GROUP (ORDER BY a) FROM t", SqlError, "max takes no WITHIN GROUP", 8),
    (
        "SELECT nth_value(b, 2) OVER (ORDER BY a RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
        NotMaintainable,
        "nth_value over an order with ties has no definite answer",
        8,
    ),
    ("SELECT * FROM ((SELECT a FROM t) x JOIN k ON a = id WHERE a = 1) j", SqlError, "WHERE cannot stand here", 59),
    ("SELECT * FROM ((SELECT a FROM t) x JOIN k ON a = id LIMIT 1) j", SqlError, "LIMIT cannot stand here", 59),
    ("SELECT t.a FROM t LEFT JOIN u JOIN k ON u.a = id ON t.a = u.a", SqlError, "a join cannot stand here", 36),
    ("SELECT t.a FROM t RIGHT SEMI JOIN u ON t.a = u.a", SqlError, "there is no RIGHT SEMI JOIN", None),
    (
        "SELECT t.a FROM t RIGHT JOIN LATERAL (SELECT u.a FROM u WHERE u.a = t.a) l",
        SqlError,
        "RIGHT JOIN LATERAL is not possible: its right side is computed for each row of the left",
        None,
    ),
    (
        "SELECT t.a FROM t FULL JOIN LATERAL (SELECT u.a FROM u WHERE u.a = t.a) l ON true",
        SqlError,
        "FULL JOIN LATERAL is not possible",
        None,
    ),
    (
        "SELECT t.a FROM t JOIN LATERAL (SELECT 1 AS a) l USING (a)",
        SqlError,
        "cannot be joined by USING or NATURAL",
        None,
    ),
    (
        "SELECT t.a FROM t LEFT JOIN LATERAL (SELECT 1 AS o) l ON o IN (SELECT a FROM u)",
        NotMaintainable,
        "a subquery in ON of a LEFT JOIN LATERAL is not supported",
        None,
    ),
    ("SELECT a FROM t GROUP BY DISTINCT a", SqlError, "DISTINCT cannot stand in GROUP BY", 35),
    ("SELECT a FROM t GROUP BY a WITH ROLLUP, b", SqlError, "a key cannot follow WITH ROLLUP or WITH CUBE", None),
    ("SELECT a FROM t GROUP BY a GROUPING SETS ((a)), u", SqlError, "a table cannot follow GROUP BY", None),
    ("SELECT t.a FROM t WHERE t.a > 0, u", SqlError, "a table cannot follow WHERE", None),
    ("SELECT t.a FROM t HAVING t.a > 0 LEFT JOIN u ON true", SqlError, "a table cannot follow HAVING", None),
    (
        "SELECT a FROM (SELECT a FROM t LIMIT 2 LATERAL VIEW explode(b) AS c)",
        SqlError,
        "a table cannot follow LIMIT",
        None,
    ),
    ("SELECT a FROM t GROUP BY a WHERE b > 1", SqlError, "WHERE cannot follow GROUP BY", None),
    ("SELECT a FROM t LIMIT 2 ORDER BY a", SqlError, "ORDER BY cannot follow LIMIT", None),
    ("SELECT a, FROM t", SqlError, "something is missing beside this comma", None),
    ("SELECT a FROM t ORDER BY a FETCH FIRST 5 ROWS WITH TIES", SqlError, "WITH TIES cannot stand here", None),
    ("SELECT DISTINCT a FROM t ORDER BY b LIMIT 1", SqlError, "ORDER BY of SELECT DISTINCT", 35),
    ("SELECT a FROM t SORT BY a", NotMaintainable, "SORT BY means nothing in a view", 25),
    (
        "SELECT t.a FROM t LEFT JOIN u ON EXISTS (SELECT 1 FROM k WHERE k.id = t.a AND k.v = u.a)",
        NotMaintainable,
        "about both sides",
        None,
    ),
    ("SELECT a FROM t AS x(p, q)", SqlError, "'x' has 4 columns and 2 names are given", None),
    ("SELECT collect_list(a) OVER (ORDER BY b) FROM t", NotMaintainable, "has no definite answer", 8),
    ("SELECT a FROM t UNION ALL SELECT true", SqlError, "is INT in one query and BOOLEAN in another", None),
    ("SELECT (((((a FROM t", SqlError, "bad SQL", None),
]


@pytest.fixture(scope="module")
def sail() -> Oracle:
    return Oracle(open_engine("sail", None, {}, {}), tables())


@pytest.mark.parametrize(("text", "kind", "message", "column"), REFUSED, ids=[row[0] for row in REFUSED])
def test_refused(sail: Oracle, text: str, kind: type[ViewkeeperError], message: str, column: int | None) -> None:
    with pytest.raises(kind) as caught:
        sail.translated(text)
    assert message in caught.value.message
    assert type(caught.value) is kind
    if column is not None:
        assert caught.value.place is not None
        assert (caught.value.place.line, caught.value.place.column) == (1, column)


def test_the_nearest_name_is_suggested(sail: Oracle) -> None:
    with pytest.raises(NotFound) as caught:
        sail.translated("SELECT bb FROM t")
    assert caught.value.hint == "did you mean b?"


def test_a_query_that_is_nested_too_deeply_is_refused(sail: Oracle) -> None:
    text = "SELECT a FROM t"
    for _ in range(70):
        text = f"SELECT DISTINCT a + 1 AS a FROM ({text}) q"
    with pytest.raises(NotMaintainable, match="nested too deeply"):
        sail.translated(text)


def test_a_scalar_subquery_of_two_rows_raises(sail: Oracle) -> None:
    with pytest.raises(ViewkeeperError, match="more than one row"):
        sail.rows("SELECT a, (SELECT c FROM u WHERE u.a = t.a) AS x FROM t")
