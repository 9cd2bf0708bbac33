"""SELECT statements: the same answers as views on every engine, in the order that is asked for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator

import pytest

import viewkeeper as vk
from tests.oracle import Oracle, bag, transpiled
from viewkeeper.algebra.nodes import Aggregate
from viewkeeper.errors import NotFound
from viewkeeper.query.select import TablesAt, translated
from viewkeeper.sql.query_text import QueryText

TABLES = """
CREATE TABLE t (a INT, b INT, s STRING, f DOUBLE);
CREATE TABLE u (a INT, b INT, c INT);
"""
ROWS = """
INSERT INTO t VALUES (1, 10, 'x', 1.5D), (1, 10, 'x', 1.5D), (1, 20, 'y', NULL), (2, NULL, 'x', 2.5D),
    (2, 5, NULL, -1.0D), (3, 7, 'z', 0.25D), (NULL, 3, 'x', 4.0D), (NULL, NULL, NULL, NULL), (4, 0, 'w', 8.5D);
INSERT INTO u VALUES (1, 10, 100), (1, NULL, 200), (2, 5, NULL), (3, 8, 30), (NULL, 3, 40), (5, 50, 50), (1, 10, 100);
"""


def filled(db: vk.Database) -> tuple[vk.Database, Oracle]:
    """A database and DuckDB with the same tables."""
    oracle = Oracle()
    for text in TABLES.strip().rstrip(";").split(";\n"):
        db.sql(text)
        oracle.create_table(text)
    for text in ROWS.strip().rstrip(";").split(";\n"):
        db.sql(text)
        oracle.run(text.replace("D,", ",").replace("D)", ")"))
    return db, oracle


@pytest.fixture
def both(connect: Callable[..., vk.Database]) -> Iterator[tuple[vk.Database, Oracle]]:
    """A database and DuckDB with the same tables, for a test that changes them."""
    db, oracle = filled(connect())
    yield db, oracle
    oracle.close()


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], tuple[vk.Database, Oracle]]]:
    """Gives one database for each engine."""
    known: dict[str, tuple[vk.Database, Oracle]] = {}

    def open_once(engine: str) -> tuple[vk.Database, Oracle]:
        if engine not in known:
            known[engine] = filled(vk.connect(tmp_path_factory.mktemp("select") / engine, engine=engine))
        return known[engine]

    yield open_once
    for db, oracle in known.values():
        db.close()
        oracle.close()


@pytest.fixture
def shared(opened: Callable[[str], tuple[vk.Database, Oracle]], engine: str) -> tuple[vk.Database, Oracle]:
    """A database and DuckDB with the same tables, for all tests that only read them."""
    return opened(engine)


SAME = [
    "SELECT a, b FROM t WHERE (a, b) NOT IN (SELECT a, b FROM u WHERE a = 3)",
    "SELECT a, b FROM t WHERE (a, b) IN (SELECT a, b FROM u)",
    "SELECT a FROM t WHERE a NOT IN (SELECT a FROM u)",
    "SELECT a, b FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1",
    "SELECT s, count(*) AS n, sum(b) AS x FROM t GROUP BY ALL",
    "SELECT a, (SELECT max(c) FROM u WHERE u.a = t.a) AS m FROM t",
    "SELECT a, b FROM t WHERE b > (SELECT avg(b) FROM u WHERE u.a = t.a)",
    "SELECT a, sum(b) AS x FROM t GROUP BY a HAVING sum(b) > (SELECT min(c) FROM u WHERE u.a <= t.a) - 95",
    "SELECT a FROM t WHERE EXISTS (SELECT count(*) FROM u WHERE u.a = t.a)",
    "SELECT a, b FROM t WHERE b NOT IN (SELECT c FROM u WHERE u.c > t.a)",
    "SELECT a FROM t EXCEPT ALL SELECT a FROM u",
    "SELECT a FROM t INTERSECT ALL SELECT a FROM u",
    "SELECT a, b FROM t EXCEPT SELECT a, b FROM u",
    "SELECT a AS k, k + 1 AS k1 FROM t",
    "WITH w AS (SELECT a, count(*) AS n FROM t GROUP BY a) SELECT w.n, u.c FROM w LEFT JOIN u ON w.a = u.a",
    "SELECT s, sum(f) AS x, avg(f) AS y, sum(DISTINCT f) AS z FROM t GROUP BY s",
    "SELECT x.a, y.b FROM t AS x FULL JOIN u AS y ON x.a = y.a AND x.b < y.c",
]


@pytest.mark.parametrize("text", SAME)
def test_answers_are_those_of_an_independent_database(shared: tuple[vk.Database, Oracle], text: str) -> None:
    db, oracle = shared
    expected = transpiled(text) if "k + 1" not in text else "SELECT a AS k, a + 1 AS k1 FROM t"
    assert bag(db.sql(text).rows()) == oracle.query(expected)


def test_multi_column_not_in_with_nulls(both: tuple[vk.Database, Oracle]) -> None:
    """A row is out if any row of the subquery may be equal to it: worked out by hand, DuckDB compares whole rows."""
    db, _ = both
    text = "SELECT a, b FROM t WHERE (a, b) NOT IN (SELECT a, b FROM u)"
    assert bag(db.sql(text).rows()) == bag([(3, 7), (4, 0)])
    db.sql("INSERT INTO u VALUES (NULL, NULL, 1)")
    assert db.sql(text).rows() == []


def test_joins_by_equality_and_by_null_safe_equality_in_one_query(both: tuple[vk.Database, Oracle]) -> None:
    db, oracle = both
    text = "SELECT t.a, u.c, v.b FROM t JOIN u ON t.a {} u.a JOIN u AS v ON t.b = v.b"
    assert bag(db.sql(text.format("<=>")).rows()) == oracle.query(text.format("IS NOT DISTINCT FROM"))


def ordered(db: vk.Database, text: str) -> list[tuple[object, ...]]:
    """The rows, checked to come in the same order whichever way they are asked for."""
    result = db.sql(text)
    rows = result.rows()
    assert [tuple(row.values()) for row in result.arrow().to_pylist()] == rows
    assert list(result.pandas().iloc[:, 0].astype(object).where(lambda x: x.notna(), None)) == [r[0] for r in rows]
    assert [tuple(row) for row in db.sql(text).spark().collect()] == rows
    return rows


def test_floats_are_summed_by_the_engine(both: tuple[vk.Database, Oracle]) -> None:
    """A view adds them in the order of their values; that would gather a large table in one array."""
    db, _ = both
    store = db._store
    text = "SELECT sum(f), avg(f), sum(DISTINCT f) FROM t"
    found = translated(store, QueryText.of(text), TablesAt(store, store.refresh(), db.epoch))
    assert not isinstance(found, str)
    calls = [str(call.text) for node in found.query.node.walk() if isinstance(node, Aggregate) for call in node.calls]
    assert calls == ["sum(f)", "avg(f)", "sum(DISTINCT f)"]


ORDERED = [
    "SELECT t.a, t.b FROM t JOIN u ON t.a = u.a ORDER BY t.b DESC NULLS LAST, t.a",
    "SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY n DESC, s",
    "SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY 2 DESC, 1 DESC NULLS FIRST",
    "SELECT s, sum(b) AS x FROM t GROUP BY s ORDER BY -sum(b) NULLS LAST, s",
    "SELECT a FROM t WHERE a IN (SELECT a FROM u) ORDER BY b + a DESC NULLS FIRST, a",
    "SELECT a FROM t UNION SELECT a FROM u ORDER BY a DESC NULLS LAST",
    "SELECT a FROM t UNION SELECT a FROM u ORDER BY abs(a - 3) NULLS FIRST, a LIMIT 4",
    "SELECT a, b FROM t UNION ALL SELECT a, c FROM u ORDER BY 2 NULLS FIRST, 1 NULLS FIRST LIMIT 5 OFFSET 2",
    "(SELECT DISTINCT a FROM t) ORDER BY a DESC NULLS LAST LIMIT 2",
    "SELECT DISTINCT a, s FROM t ORDER BY s NULLS LAST, a NULLS FIRST",
    "WITH w AS (SELECT a, max(b) AS m FROM t GROUP BY a) SELECT m FROM w ORDER BY a NULLS LAST LIMIT 3",
    "SELECT a, b, rank() OVER (ORDER BY b NULLS FIRST) AS r FROM t ORDER BY r, a NULLS FIRST",
    "SELECT a, b FROM t ORDER BY b NULLS FIRST, a NULLS FIRST LIMIT 4",
]


@pytest.mark.parametrize("text", ORDERED)
def test_order_by_orders_the_result(shared: tuple[vk.Database, Oracle], text: str) -> None:
    db, oracle = shared
    expected = [tuple(row) for row in oracle.connection.execute(transpiled(text)).fetchall()]
    assert ordered(db, text) == expected


def test_an_order_inside_from_is_handed_on(shared: tuple[vk.Database, Oracle]) -> None:
    db, _ = shared
    inside = "SELECT a, count(*) AS n FROM t WHERE a > 0 GROUP BY a ORDER BY a DESC"
    assert ordered(db, f"SELECT * FROM ({inside})") == [(4, 1), (3, 1), (2, 2), (1, 3)]
    assert ordered(db, f"SELECT n, a FROM ({inside}) LIMIT 2") == [(1, 4), (1, 3)]
    assert ordered(db, f"({inside}) LIMIT 1") == [(4, 1)]
    assert ordered(db, f"(({inside}))")[0] == (4, 1)
    assert ordered(db, f"WITH w AS ({inside}) SELECT a FROM w WHERE n = 1") == [(4,), (3,)]
    assert db.sql(f"SELECT collect_list(a) FROM ({inside})").rows() == [([4, 3, 2, 1],)]
    assert ordered(db, "SELECT * FROM (SELECT a FROM u UNION SELECT 9 ORDER BY abs(a - 4) NULLS LAST, a) LIMIT 3") == [
        (3,),
        (5,),
        (2,),
    ]


def test_order_by_all_and_by_what_distinct_computes(shared: tuple[vk.Database, Oracle]) -> None:
    db, _ = shared
    assert ordered(db, "SELECT a FROM u ORDER BY ALL") == [(None,), (1,), (1,), (1,), (2,), (3,), (5,)]
    assert ordered(db, "SELECT DISTINCT a FROM u WHERE a > 0 ORDER BY -a") == [(5,), (3,), (2,), (1,)]


def test_names_of_columns(both: tuple[vk.Database, Oracle], engine: str) -> None:
    db, _ = both

    def names(text: str) -> list[str]:
        return db.sql(text).columns

    assert names("SELECT count(*), sum(b), avg(f), min(t.a) FROM t") == ["count(1)", "sum(b)", "avg(f)", "min(a)"]
    assert names("SELECT t.a + u.b, upper(s), A FROM t JOIN u USING (a)") == ["(a + b)", "upper(s)", "A"]
    assert names("SELECT count(*), count(*) FROM t") == ["count(1)", "count(1)"]
    assert names("SELECT * FROM t JOIN u ON t.a = u.a") == ["a", "b", "s", "f", "a", "b", "c"]
    assert names("SELECT * FROM (SELECT a + 1, count(DISTINCT b) FROM t GROUP BY a)") == [
        "(a + 1)",
        "count(DISTINCT b)",
    ]
    assert names("SELECT a + 1 FROM t UNION SELECT c FROM u ORDER BY 1") == ["(a + 1)"]
    assert names("SELECT a, max(b) + 1 FROM t GROUP BY ALL") == ["a", "(max(b) + 1)"]
    subquery = names("SELECT a, (SELECT max(c) FROM u WHERE u.a = t.a) FROM t")
    assert subquery == ["a", "scalarsubquery(a)" if engine == "spark" else "subquery"]
    window = names("SELECT sum(b) OVER w FROM t WINDOW w AS (PARTITION BY a)")
    frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    assert window == [f"sum(b) OVER (PARTITION BY a {frame})" if engine == "spark" else "sum(b)"]
    assert db.sql("SELECT t.a, u.a FROM t JOIN u ON t.a = u.a WHERE t.a = 3").rows() == [(3, 3)]


def test_functions_of_the_clock_and_of_chance(both: tuple[vk.Database, Oracle]) -> None:
    db, _ = both
    today = db.sql("SELECT current_date(), count(*) FROM t GROUP BY ALL").rows()
    assert [n for _, n in today] == [9]
    assert abs((today[0][0] - dt.datetime.now(dt.UTC).date()).days) <= 1
    assert db.sql("SELECT current_date = current_date() AS same FROM t JOIN u ON t.a = u.a LIMIT 1").rows() == [(True,)]
    assert db.sql("SELECT count(*) FROM t WHERE now() > TIMESTAMP'2020-01-01 00:00:00'").rows() == [(9,)]
    times = db.sql("SELECT DISTINCT current_timestamp() FROM t JOIN u ON t.a = u.a").rows()
    assert len(times) == 1
    drawn = db.sql("SELECT uuid() AS id, rand() AS r FROM t JOIN u ON t.a = u.a").rows()
    assert len({row[0] for row in drawn}) == len(drawn) == 12
    assert all(0 <= r < 1 for _, r in drawn)


def test_a_column_may_be_called_like_a_function(db: vk.Database) -> None:
    db.sql("CREATE TABLE d (current_date INT, x INT); INSERT INTO d VALUES (7, 1)")
    assert db.sql("SELECT current_date, count(*) AS n FROM d GROUP BY ALL").rows() == [(7, 1)]
    assert db.sql("SELECT q.current_user FROM (SELECT max(x) AS current_user FROM d) AS q").rows() == [(1,)]


def test_what_only_an_engine_can_do_still_runs(both: tuple[vk.Database, Oracle], engine: str) -> None:
    db, _ = both
    assert db.sql("SELECT count(*) AS n, NULL AS nothing FROM t").rows() == [(9, None)]
    assert db.sql("SELECT map('k', max(b)) AS m FROM t").rows() == [({"k": 20},)]
    assert db.sql("SELECT make_dt_interval(int(max(a))) AS d FROM t").rows() == [(dt.timedelta(days=4),)]
    assert db.sql("SELECT a, explode(array(2, 1)) AS x FROM t WHERE a = 3 ORDER BY x").rows() == [(3, 1), (3, 2)]
    assert db.sql("SELECT count(*) FROM (SELECT a FROM t SORT BY a)").rows() == [(9,)]
    text = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT sum(n) AS x FROM r"
    assert db.sql(text).rows() == [(6,)]


def test_a_transaction_sees_its_changes(both: tuple[vk.Database, Oracle]) -> None:
    db, _ = both
    db.sql("CREATE VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT a, sum(b) AS x FROM t GROUP BY a")
    query = "SELECT v.a, v.n, m.x FROM v JOIN m ON v.a <=> m.a WHERE v.a NOT IN (SELECT 4) ORDER BY a DESC"
    before = [(3, 1, 7), (2, 2, 5), (1, 3, 40)]
    assert db.sql(query).rows() == before
    with db.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (3, 1, 'n', 0D); DELETE FROM t WHERE a = 2")
        assert tx.sql(query).rows() == [(3, 2, 8), (1, 3, 40)]
        assert tx.sql("SELECT a FROM u EXCEPT ALL SELECT a FROM t ORDER BY a").rows() == [(2,), (5,)]
        assert db.sql(query).rows() == before
    assert db.sql(query).rows() == [(3, 2, 8), (1, 3, 40)]


def test_a_query_in_a_transaction_is_checked_for_conflicts(both: tuple[vk.Database, Oracle]) -> None:
    db, _ = both
    tx = db.transaction()
    tx.sql("SELECT count(*) FROM t JOIN u ON t.a = u.a")
    tx.sql("INSERT INTO t VALUES (8, 8, 'e', 0D)")
    db.sql("INSERT INTO u VALUES (8, 8, 8)")
    with pytest.raises(vk.errors.Conflict):
        tx.commit()


def test_as_of_epoch(both: tuple[vk.Database, Oracle]) -> None:
    db, _ = both
    db.sql("CREATE VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a")
    epoch = db.epoch
    db.sql("DELETE FROM t WHERE a = 1; CREATE OR REPLACE VIEW v AS SELECT a, 0L AS n FROM t")
    text = "SELECT v.a, n FROM v JOIN u ON v.a = u.a WHERE n > 1 GROUP BY ALL ORDER BY a"
    assert db.sql(f"{text} AS OF EPOCH {epoch}").rows() == [(1, 3), (2, 2)]
    assert db.sql(text).rows() == []
    with pytest.raises(NotFound, match=f"there was no table named 'v' at epoch {epoch - 1}"):
        db.sql(f"{text} AS OF EPOCH {epoch - 1}")


def test_changing_statements_take_the_same_way(both: tuple[vk.Database, Oracle]) -> None:
    db, oracle = both
    db.sql("CREATE TABLE w AS SELECT a, max(b) AS m FROM t GROUP BY ALL")
    db.sql("INSERT INTO w SELECT a, b FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b DESC) = 2")
    oracle.connection.execute("CREATE TABLE w AS SELECT a, max(b) AS m FROM t GROUP BY ALL")
    best = "row_number() OVER (PARTITION BY a ORDER BY b DESC NULLS LAST) = 2"
    oracle.connection.execute(f"INSERT INTO w SELECT a, b FROM t QUALIFY {best}")
    assert bag(db.table("w").read().rows()) == oracle.bag("w")
    for text in (
        "UPDATE w SET m = (SELECT sum(c) FROM u WHERE u.a = w.a) WHERE a NOT IN (SELECT a FROM u WHERE c > 150)",
        "DELETE FROM w WHERE EXISTS (SELECT count(*) FROM u WHERE u.a = w.a AND c = 50) AND a = 4",
    ):
        db.sql(text)
        oracle.run(text)
        assert bag(db.table("w").read().rows()) == oracle.bag("w")
    db.sql("DELETE FROM w WHERE (a, m) NOT IN (SELECT a, b FROM u)")
    assert bag(db.table("w").read().rows()) == bag([(1, 20), (1, 10), (2, None), (2, None), (None, 3), (None, None)])
    db.sql("CREATE TABLE k (id INT PRIMARY KEY, n BIGINT); INSERT INTO k VALUES (1, 0), (9, 0)")
    source = "SELECT a AS id, count(*) AS n FROM t WHERE a IS NOT NULL GROUP BY ALL"
    db.sql(
        f"MERGE INTO k USING ({source}) AS s ON k.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT *"
    )
    assert bag(db.table("k").read().rows()) == bag([(1, 3), (2, 2), (3, 1), (4, 1), (9, 0)])


def told(action: Callable[[], object]) -> str:
    with pytest.raises(vk.errors.ViewkeeperError) as caught:
        action()
    return str(caught.value)


def test_errors_are_the_users(both: tuple[vk.Database, Oracle]) -> None:
    db, _ = both
    assert told(lambda: db.sql("SELECT t.a FROM t JOIN u ON t.a = u.a WHERE u.zz = 1")) == (
        "there is no column 'zz' in u\nat line 1, column 45:\n"
        "  SELECT t.a FROM t JOIN u ON t.a = u.a WHERE u.zz = 1\n"
        "                                              ^^^^\n"
        "hint: there are a, b, c"
    )
    assert "no table named 'nowhere'" in told(lambda: db.sql("SELECT 1 FROM t JOIN nowhere ON true"))
    assert "'a' is ambiguous" in told(lambda: db.sql("SELECT a FROM t JOIN u ON t.a = u.a"))
    assert "'b' is neither in GROUP BY nor in an aggregate" in told(lambda: db.sql("SELECT b FROM t GROUP BY a"))
    assert told(lambda: db.sql("SELECT count(* FROM t")).startswith("bad SQL: ")
    wrong = told(lambda: db.sql("DELETE FROM t WHERE bb IN (SELECT b FROM u)"))
    assert wrong.startswith("there is no column 'bb'\nat line 1, column 21:")
    assert "_weight" not in told(lambda: db.sql("DELETE FROM t WHERE qqqq IN (SELECT b FROM u)"))
    missing = told(lambda: db.sql("INSERT INTO u SELECT a, b, zz FROM t JOIN (SELECT 1) ON true"))
    assert missing.startswith("there is no column 'zz'\nat line 1, column 28:")


def test_explain_says_which_way_a_query_goes(both: tuple[vk.Database, Oracle]) -> None:
    db, _ = both

    def way(text: str) -> str:
        return str(db.sql(f"EXPLAIN {text}").rows()[-1][0])

    plain = "runs as it is written: one table or none, with nothing but columns, WHERE, ORDER BY and LIMIT"
    algebra = "runs through the algebra of views"
    assert way("SELECT * FROM t WHERE a IS NOT NULL ORDER BY b LIMIT 3") == plain
    assert way("SELECT 1") == plain
    operators = plain if db._store.engine.kind == "spark" else algebra  # Sail needs its casts written
    assert way("SELECT a + 1 AS x FROM t AS q WHERE q.b IN (1, 2)") == operators
    assert way("SELECT a FROM t WHERE (a, b) = (1, 2)") == algebra
    for text in (
        "SELECT DISTINCT a FROM t",
        "SELECT count(*) FROM t",
        "SELECT a AS x, x + 1 AS y FROM t",
        "SELECT a FROM t ORDER BY ALL",
        "SELECT a FROM t WHERE a IN (SELECT a FROM u)",
        "SELECT * FROM t JOIN u USING (a)",
        "SELECT a FROM t UNION ALL SELECT a FROM u",
        "SELECT count(*), current_date FROM t GROUP BY ALL",
        "SELECT * EXCEPT (b) FROM t",
        "SELECT a FROM t FETCH FIRST 2 ROWS ONLY",
        "FROM t SELECT a",
    ):
        assert way(text) == algebra
    assert way("SELECT rand() FROM t JOIN u USING (a)").startswith("runs as it is written: rand() cannot be maintained")
    assert way("SELECT count(*), NULL FROM t") == "runs as it is written: a column that is always NULL has no type"
