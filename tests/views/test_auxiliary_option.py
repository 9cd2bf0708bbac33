"""WITH (auxiliary = ...): auxiliary relations decide how the changes of a view are derived, never what they are."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator

import pytest

import viewkeeper as vk
from tests.marks import long, spark_long
from tests.oracle import Bag, Oracle, bag, transpiled, weights
from viewkeeper.statements.define_views import would_save

TABLES = "CREATE TABLE t (id INT PRIMARY KEY, g STRING, x INT, d DOUBLE);CREATE TABLE s (g STRING, y INT)"

QUERIES = {
    "plain": "SELECT id, x FROM t WHERE x > 3",
    "grouped": "SELECT g, count(*) AS n, sum(x) AS total, min(x) AS low, max(x) AS high FROM t GROUP BY g",
    "whole": "SELECT count(*) AS n, sum(x) AS total FROM t",
    "floats": "SELECT g, sum(d) AS total, avg(d) AS mean FROM t GROUP BY g",
    "distinct": "SELECT DISTINCT g, x FROM t",
    "twice": "SELECT n, count(*) AS groups FROM (SELECT g, count(*) AS n FROM t GROUP BY g) AS q GROUP BY n",
    "joined": "SELECT a.g, a.n, s.y FROM (SELECT g, count(x) AS n FROM t GROUP BY g) AS a JOIN s ON a.g = s.g",
    "absent": "SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.g = t.g)",
    "top": "SELECT id, x FROM t ORDER BY x DESC, id LIMIT 3",
    "having": "SELECT g FROM t GROUP BY g HAVING sum(x) > 5",
}


def statements(seed: int, count: int) -> Iterator[str]:
    """Random changes, with NULLs, duplicates and moves from one group to another."""
    rng = random.Random(seed)
    group = ("'a'", "'b'", "'c'", "NULL")
    for number in range(count):
        x, d = rng.choice(("NULL", "1", "2", "7")), rng.choice(("0.5", "NULL", "3"))
        row = f"({number}, {rng.choice(group)}, {x}, {d})"
        yield rng.choice(
            (
                f"INSERT INTO t VALUES {row}",
                f"INSERT INTO t VALUES {row}",
                f"INSERT INTO s VALUES ({rng.choice(group)}, {rng.randint(1, 2)})",
                f"UPDATE t SET g = {rng.choice(group)} WHERE id % 3 = {rng.randint(0, 2)}",
                f"UPDATE t SET x = {rng.randint(0, 9)} WHERE id % 4 = {rng.randint(0, 3)}",
                f"DELETE FROM t WHERE id = {rng.randint(0, number)}",
                f"DELETE FROM s WHERE y = {rng.randint(1, 2)}",
            )
        )


def hidden(db: vk.Database) -> list[str]:
    return [listed["name"] for listed in db.ls(hidden=True) if listed["kind"].startswith("auxiliary")]


def check(db: vk.Database, oracle: Oracle, names: list[str]) -> None:
    for name in names:
        wanted = oracle.query(transpiled(QUERIES[name.partition("_")[2]]))
        assert bag(db.sql(f"SELECT * FROM {name}").rows()) == wanted, name


@pytest.mark.parametrize("kind", ["virtual", *spark_long("materialized"), *long("virtual, more")])
def test_random_changes(db: vk.Database, engine: str, kind: str) -> None:
    """A view with and one without auxiliary relations, row by row and change by change, against DuckDB."""
    db.sql(TABLES)
    oracle = Oracle()
    for text in TABLES.split(";"):
        oracle.create_table(text)
    word = "MATERIALIZED VIEW" if kind == "materialized" else "VIEW"
    names = []
    few = ("grouped", "absent") if kind == "virtual" else ("grouped", "joined", "absent", "top")
    chosen = QUERIES if engine == "sail" else {name: QUERIES[name] for name in few}
    for name, query in chosen.items():
        for aux in ("true", "false"):
            names.append(f"{aux}_{name}")
            db.sql(f"CREATE {word} {aux}_{name} WITH (auxiliary = {aux}) AS {query}")
    made = db.epoch
    before = {name: bag(db.view(name).read().rows()) for name in names}
    history: list[dict[str, Bag]] = []
    for statement in statements(7, 6 if engine == "sail" else 2):
        oracle.run(statement)
        db.sql(statement)
        check(db, oracle, names)
        history.append({name: bag(db.view(name).read().rows()) for name in names})
    for name in names:
        state = Counter(before[name])
        epochs = []
        for epoch, change in db.view(name).changes(since=made):
            for row, weight in weights(change.weights()).items():
                state[row] += weight
            assert min(state.values(), default=0) >= 0, name
            state = +state
            assert state == bag(db.view(name).read(as_of=epoch).rows()), (name, epoch)
            epochs.append(epoch)
        assert state == history[-1][name], name
        assert epochs == sorted(epochs)
    assert db.verify().equal


@pytest.mark.spark_long
def test_what_is_kept(db: vk.Database) -> None:
    db.sql(TABLES)
    query = "SELECT g, sum(x) AS total FROM t GROUP BY g"
    db.sql(f"CREATE VIEW plain AS {query}; CREATE VIEW off WITH (auxiliary = false) AS {query}")
    assert hidden(db) == []
    db.sql(f"CREATE VIEW v WITH (auxiliary = true) AS {query}")
    assert len(hidden(db)) == 1
    assert db.view("v").definition.hidden == tuple(r.id for r in db._store.state.alive() if r.kind == "auxiliary")
    assert db.view("v").options == {"auxiliary": True}
    db.sql(f"CREATE MATERIALIZED VIEW m AS {query}")
    assert len(hidden(db)) == 1, "an equal group-by is kept once"
    db.sql(f"CREATE MATERIALIZED VIEW lean WITH (auxiliary = false) AS {query}")
    assert (len(hidden(db)), db.view("lean").definition.hidden) == (1, ())
    db.sql("INSERT INTO t VALUES (1, 'a', 2, 0), (2, 'a', 3, 0), (3, NULL, NULL, 0)")
    for name in ("plain", "off", "v", "m", "lean"):
        assert bag(db.sql(f"SELECT * FROM {name}").rows()) == bag([("a", 5), (None, None)])
    assert bag(db.sql("SELECT count(*) FROM v WHERE total > 1").rows()) == bag([(1,)])
    db.sql("DROP VIEW m; DROP VIEW v")
    assert hidden(db) == []


def test_a_change_reads_what_is_kept_and_not_the_table(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE VIEW v WITH (auxiliary = true) AS SELECT g, sum(x) AS total FROM t GROUP BY g")
    told = json.loads(db.explain("v", format="json"))
    (part,) = told["auxiliary"]
    assert (part["name"], part["contents"]) == ("auxiliary 1", "sum(x), count(x) per g")
    assert list(told["changes"]) == [part["name"]]


@pytest.mark.spark_long
def test_views_over_such_a_view(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE VIEW v WITH (auxiliary = true) AS SELECT g, count(*) AS n FROM t GROUP BY g")
    db.sql("CREATE VIEW w AS SELECT n, count(*) AS groups FROM v GROUP BY n")
    db.sql("CREATE VIEW wa WITH (auxiliary = true) AS SELECT n, count(*) AS groups FROM v GROUP BY n")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT max(n) AS most FROM v")
    db.sql("INSERT INTO t VALUES (1, 'a', 2, 0), (2, 'a', 3, 0), (3, 'b', NULL, 0)")
    db.sql("UPDATE t SET g = 'b' WHERE id = 2")
    assert bag(db.sql("SELECT * FROM w").rows()) == bag(db.sql("SELECT * FROM wa").rows()) == bag([(1, 1), (2, 1)])
    assert db.sql("SELECT * FROM m").rows() == [(2,)]
    with db.transaction() as tx:
        tx.sql("DELETE FROM t WHERE g = 'b'")
        found = tx.preview()
        assert found["v"].weights() == {("b", 2): -1}
        assert found["w"].weights() == found["wa"].weights() == {(2, 1): -1}
        assert bag(tx.sql("SELECT * FROM v").rows()) == bag([("a", 1)])
        assert bag(tx.sql("SELECT * FROM wa").rows()) == bag([(1, 1)])
        tx.rollback()
    with pytest.raises(vk.errors.SqlError, match="v cannot be dropped: m, w, wa read it"):
        db.sql("DROP VIEW v")
    db.sql("DROP VIEW v CASCADE")
    assert hidden(db) == []
    assert db.ls()[0]["name"] == "s"


@pytest.mark.spark_long
def test_replacing(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("INSERT INTO t VALUES (1, 'a', 2, 0), (2, 'a', 3, 0)")
    db.sql("CREATE VIEW v WITH (auxiliary = true) AS SELECT g, sum(x) AS total FROM t GROUP BY g")
    first = hidden(db)
    made = db.epoch
    db.sql("INSERT INTO t VALUES (3, 'b', 9, 0)")
    db.sql("CREATE OR REPLACE VIEW v WITH (auxiliary = true) AS SELECT g, count(*) AS total FROM t GROUP BY g")
    assert len(hidden(db)) == 1
    assert hidden(db) != first
    assert bag(db.sql("SELECT * FROM v").rows()) == bag([("a", 2), ("b", 1)])
    assert bag(db.view("v").read(as_of=db.epoch - 1).rows()) == bag([("a", 5), ("b", 9)])
    db.sql("CREATE OR REPLACE VIEW v AS SELECT g, count(*) AS total FROM t GROUP BY g")
    assert (hidden(db), db.view("v").definition.hidden, db.view("v").options) == ([], (), {})
    db.sql("INSERT INTO t VALUES (4, 'b', 9, 0)")
    db.sql("ALTER VIEW v WITH (auxiliary = true) AS SELECT g, count(*) AS total FROM t GROUP BY g")
    assert len(hidden(db)) == 1
    db.sql("DELETE FROM t WHERE id = 4")
    db.sql("ALTER VIEW v AS SELECT g, count(x) + 1 AS total FROM t GROUP BY g")
    assert (len(hidden(db)), db.view("v").options) == (1, {"auxiliary": True})
    changes = [(epoch - made, change.weights()) for epoch, change in db.view("v").changes(since=made)]
    assert changes == [
        (1, {("b", 9): 1}),
        (2, {("a", 5): -1, ("a", 2): 1, ("b", 9): -1, ("b", 1): 1}),
        (4, {("b", 1): -1, ("b", 2): 1}),
        (6, {("b", 2): -1, ("b", 1): 1}),
        (7, {("a", 2): -1, ("a", 3): 1, ("b", 1): -1, ("b", 2): 1}),
    ]


@pytest.mark.spark_long
def test_a_view_below_is_replaced(db: vk.Database) -> None:
    """A virtual view that keeps something is laid out anew when a virtual view that it reads gets another query."""
    db.sql(TABLES)
    db.sql("INSERT INTO t VALUES (1, 'a', 2, 0), (2, 'a', 3, 0), (3, 'b', 4, 0)")
    db.sql("CREATE VIEW low AS SELECT g, x FROM t")
    db.sql("CREATE VIEW v WITH (auxiliary = true) AS SELECT g, sum(x) AS total FROM low GROUP BY g")
    first = db.view("v").definition.hidden
    db.sql("ALTER VIEW low AS SELECT g, x * 10 AS x FROM t WHERE x > 2")
    assert len(hidden(db)) == 1
    assert db.view("v").definition.hidden != first
    db.sql("DELETE FROM t WHERE id = 3")
    assert db.sql("SELECT * FROM v").rows() == [("a", 30)]
    assert [change.weights() for _, change in db.view("v").changes(since=db.epoch - 1)] == [{("b", 40): -1}]


@pytest.mark.spark_long
def test_compaction_leaves_the_feed(db: vk.Database) -> None:
    """What is kept beside a virtual view keeps its history, for the view's feed; beside a stored one it does not."""
    db.sql(TABLES)
    db.sql("CREATE VIEW v WITH (auxiliary = true) AS SELECT g, sum(x) AS total FROM t GROUP BY g")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT g, max(x) AS top FROM t GROUP BY g")
    made = db.epoch
    for number in range(1, 5):
        db.sql(f"INSERT INTO t VALUES ({number}, 'a', {number}, 0)")
    wanted = [
        {("a", 1): 1},
        {("a", 1): -1, ("a", 3): 1},
        {("a", 3): -1, ("a", 6): 1},
        {("a", 6): -1, ("a", 10): 1},
    ]
    assert [change.weights() for _, change in db.view("v").changes(since=made)] == wanted
    db.compact()
    state = db._store.refresh()
    below = {name: [state.relations[key].oldest for key in db.view(name).definition.hidden] for name in ("v", "m")}
    assert below == {"v": [0], "m": [db.epoch]}
    assert [change.weights() for _, change in db.view("v").changes(since=made)] == wanted
    assert db.view("v").read(as_of=made + 2).rows() == [("a", 3)]
    db.sql("INSERT INTO t VALUES (9, 'a', 9, 0); DELETE FROM t WHERE id = 9")
    assert db.sql("SELECT * FROM m").rows() == [("a", 4)]
    assert db.verify().equal


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_refusals(db: vk.Database) -> None:
    db.sql(TABLES)
    lean = "CREATE MATERIALIZED VIEW v WITH (auxiliary = false{}) AS {}"
    with pytest.raises(vk.errors.NotMaintainable) as caught:
        db.sql(lean.format("", "SELECT g FROM t GROUP BY g HAVING stddev(d) > 1"))
    assert str(caught.value) == (
        "v cannot be maintained without an auxiliary relation: stddev rounds by the order of the rows, so its "
        "value before a change must be stored\n"
        "at line 1, column 26:\n"
        "  CREATE MATERIALIZED VIEW v WITH (auxiliary = false) AS SELECT g FROM t GROUP BY g HAVING stddev(d) > 1\n"
        "                           ^\n"
        "hint: leave out auxiliary = false, or write refresh = 'full'"
    )
    with pytest.raises(vk.errors.NotMaintainable) as caught:
        db.sql(lean.format(", refresh = 'incremental'", "SELECT sum(x) AS n FROM t"))
    assert str(caught.value).splitlines()[0] == (
        "v cannot be maintained incrementally: an aggregate without GROUP BY and with auxiliary = false is computed "
        "over all rows"
    )
    with pytest.raises(vk.errors.NotMaintainable, match="LIMIT with auxiliary = false is computed over all rows"):
        db.sql(lean.format(", refresh = 'incremental'", "SELECT id FROM t ORDER BY id LIMIT 2"))
    db.sql(lean.format(", refresh = 'full'", "SELECT g FROM t GROUP BY g HAVING stddev(d) > 1"))
    for name, query in {"z": "SELECT g, stddev(d) AS z FROM t GROUP BY g", "n": "SELECT count(*) AS n FROM t"}.items():
        db.sql(
            lean.format(", refresh = 'incremental'", query).replace("VIEW v", f"VIEW {name}")
        )  # its rows are the state
    db.sql("CREATE VIEW w AS SELECT 1 AS one")
    with pytest.raises(vk.errors.SqlError) as wrong:
        db.sql("ALTER VIEW w WITH (keep = '1 day') AS SELECT 2 AS one")
    assert str(wrong.value) == (
        "a view that is not materialized stores nothing, so 'keep' does not apply to it\n"
        "at line 1, column 12:\n"
        "  ALTER VIEW w WITH (keep = '1 day') AS SELECT 2 AS one\n"
        "             ^\n"
        "hint: leave it out, or write CREATE MATERIALIZED VIEW"
    )


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_what_it_would_save(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE VIEW v AS SELECT a.n, s.y FROM (SELECT g, count(x) AS n FROM t GROUP BY g) AS a JOIN s ON a.g = s.g")
    db.sql("CREATE VIEW plain AS SELECT g FROM t; CREATE VIEW has WITH (auxiliary = true) AS SELECT DISTINCT g FROM t")
    state = db._store.refresh()

    def said(name: str) -> str | None:
        relation = state.find(name)
        assert relation is not None
        return would_save(state, relation)

    assert said("v") == (
        "WITH (auxiliary = true) would store γ[g; count(x), count(*)]: a change would no longer read t for them"
    )
    assert [said(name) for name in ("plain", "has", "t")] == [None, None, None]


@pytest.mark.spark_long
def test_explain_says_what_it_would_save(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g STRING, x INT)")
    db.sql("CREATE VIEW v AS SELECT g, count(x) AS n FROM t GROUP BY g; CREATE VIEW w AS SELECT id FROM t WHERE x > 1")
    line = "WITH (auxiliary = true) would store γ[g; count(x), count(*)]: a change would no longer read t for them"
    assert line in db.explain("v").splitlines()
    assert "auxiliary = true" not in db.explain("w")
    db.sql("CREATE OR REPLACE VIEW v WITH (auxiliary = true) AS SELECT g, count(x) AS n FROM t GROUP BY g")
    assert "would store" not in db.explain("v")


@pytest.mark.spark_long
def test_auxiliary_relations_are_called_after_their_views(db: vk.Database) -> None:
    """Nobody sees the names they have in the catalog: not in EXPLAIN, reports, lists, nor after compaction."""
    db.sql(TABLES)
    db.sql("CREATE MATERIALIZED VIEW firsts AS SELECT id, x FROM t ORDER BY x LIMIT 2")
    db.sql("CREATE MATERIALIZED VIEW kinds AS SELECT DISTINCT g FROM t")
    db.sql("CREATE MATERIALIZED VIEW same AS SELECT g FROM t GROUP BY g")
    names = ["auxiliary 1 of firsts (first 100 rows)", "auxiliary 1 of kinds (counts per g)"]
    assert sorted(hidden(db)) == names
    db.sql("INSERT INTO t VALUES (1, 'a', 2, 0), (2, 'b', 3, 0)")
    report = db.sql("INSERT INTO t VALUES (3, 'a', 1, 0)").commit.report
    assert report["firsts"].read == ("auxiliary 1@old",)
    assert "auxiliary 1 (counts per g), shared with kinds: " in db.explain("same")
    for name in ("firsts", "kinds", "same"):
        assert "_vk_" not in db.explain(name) + db.explain(name, format="json")
    assert names[1] in {done.relation for done in db.compact()}
