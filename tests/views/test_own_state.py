"""Views whose own rows are the state of their group-by: nothing is stored beside them, and they stay exact.

Random transactions let groups vanish and come back, sums become NULL, rows move from one group to another. After each
of them every view, and the change it reports, is compared with DuckDB; in the end its feed with its history.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

import viewkeeper as vk
from tests.marks import long
from tests.oracle import Bag, Oracle, bag, difference, transpiled, weights
from viewkeeper.catalog.relations import Auxiliary, Derived

Connect = Callable[..., vk.Database]

TABLES = (
    "CREATE TABLE t (id BIGINT PRIMARY KEY, g STRING, h INT, x INT, y DECIMAL(8,2), n INT NOT NULL, d DOUBLE)",
    "CREATE TABLE s (h INT, name STRING)",
)

OWN = {
    "counts": "SELECT g, count(*) AS rows FROM t GROUP BY g",
    "sums": "SELECT g, count(*) AS rows, sum(n) AS total, sum(x) AS xs, count(x) AS there FROM t GROUP BY g",
    "decimals": "SELECT g, h, sum(y) AS total, count(y) AS there, count(*) AS rows FROM t GROUP BY g, h",
    "no_nulls": "SELECT h, sum(n) AS total, count(n) AS rows FROM t GROUP BY h",
    "extrema": "SELECT g, min(x) AS lo, max(y) AS hi, count(*) AS rows FROM t GROUP BY g",
    "of_all": "SELECT count(*) AS rows, sum(n) AS total, sum(y) AS ys, count(y) AS there FROM t",
    "none": "SELECT count(*) AS rows, max(x) AS hi, sum(n) AS total FROM t WHERE h > 90",
    "turned": "SELECT sum(n) AS total, h AS key, count(*) AS rows, g AS other FROM t GROUP BY g, h",
    "casts": "SELECT g, CAST(count(*) AS INT) AS rows, CAST(sum(n) AS INT) AS total FROM t GROUP BY g",
    "more": "SELECT g, count(*) AS rows, sum(n) AS total, -sum(n) AS less, upper(g) AS big, g AS g2 FROM t GROUP BY g",
    "mean": "SELECT g, count(*) AS rows, count(x) AS there, sum(x) AS xs, avg(x) AS mean FROM t GROUP BY g",
    "by_expression": "SELECT h % 2 AS odd, count(*) AS rows, sum(n) AS total FROM t GROUP BY h % 2",
    "joined": "SELECT name, count(*) AS rows, sum(n) AS total FROM t JOIN s ON t.h = s.h WHERE n > 1 GROUP BY name",
    "twice": "SELECT rows, count(*) AS groups FROM (SELECT g, count(*) AS rows FROM t GROUP BY g) AS q GROUP BY rows",
    "floats": "SELECT g, sum(d) AS total, avg(d) AS mean FROM t GROUP BY g",
    "rounded": "SELECT h, round(sum(d), 3) AS total FROM t GROUP BY h",
    "lean": "SELECT g, count(*) AS rows, max(n) AS hi FROM t GROUP BY g",
}
"""The rows of these views are the state; `lean` is made with auxiliary = false."""

AUXILIARY = {
    "no_count": "SELECT g, sum(n) AS total FROM t GROUP BY g",
    "nullable": "SELECT g, count(*) AS rows, sum(x) AS total FROM t GROUP BY g",
    "no_group": "SELECT count(*) AS rows FROM t GROUP BY g",
    "changed": "SELECT g, count(*) AS rows, sum(n) + 1 AS total FROM t GROUP BY g",
    "wider": "SELECT g, count(*) AS rows, CAST(sum(n) AS DOUBLE) AS total FROM t GROUP BY g",
    "some": "SELECT g, count(*) AS rows FROM t GROUP BY g HAVING count(*) > 1",
    "different": "SELECT DISTINCT g FROM t",
    "values_of": "SELECT g, count(DISTINCT h) AS kinds FROM t GROUP BY g",
    "spread": "SELECT count(DISTINCT x) AS kinds FROM t",
    "above_it": "SELECT g, rows FROM (SELECT g, count(*) AS rows FROM t GROUP BY g) AS q JOIN s ON q.rows = s.h",
}
"""These need something beside their own rows."""


def hidden(db: vk.Database, name: str = "") -> list[str]:
    """The names of the auxiliary relations: of one view or of all, without runners-up."""
    there = [listed["name"] for listed in db.ls(hidden=True) if listed["kind"].startswith("auxiliary")]
    return [called for called in there if "runners-up" not in called and called.endswith(name)]


def create(db: vk.Database, name: str, query: str, **options: str) -> None:
    chosen = {"auxiliary": "false"} if name == "lean" else {}
    listed = ", ".join(f"{option} = {value}" for option, value in {**chosen, **options}.items())
    db.sql(f"CREATE MATERIALIZED VIEW {name}{f' WITH ({listed})' if listed else ''} AS {query}")


def statements(seed: int, count: int, first: int = 0) -> Iterator[list[str]]:
    """Random transactions, whose rows have keys from ten times `first` on."""
    rng = random.Random(seed)

    def group() -> str:
        return rng.choice(("'a'", "'b'", "'c'", "NULL"))

    def whole() -> str:
        return rng.choice(("NULL", "NULL", "0", "1", "2", "-2"))

    for number in range(first, first + count):
        rows = [
            f"({10 * number + i}, {group()}, {whole()}, {whole()}, {rng.choice(('NULL', '0.25', '-0.25', '3'))}, "
            f"{rng.randint(-2, 3)}, {rng.choice(('NULL', '0.5', '0.1', '3e10'))})"
            for i in range(rng.randint(1, 4))
        ]
        texts = [f"INSERT INTO t VALUES {', '.join(rows)}"]
        for _ in range(rng.randint(0, 3)):
            texts.append(
                rng.choice(
                    (
                        f"UPDATE t SET g = {group()} WHERE id % 3 = {rng.randint(0, 2)}",
                        f"UPDATE t SET x = {whole()}, n = {rng.randint(0, 9)} WHERE id % 4 = {rng.randint(0, 3)}",
                        f"UPDATE t SET x = NULL, y = NULL WHERE g = {rng.choice(('a', 'b'))!r}",
                        f"UPDATE t SET id = id + 5 WHERE id % 10 = {rng.randint(0, 4)} AND id % 10 < 5",
                        f"DELETE FROM t WHERE g = {rng.choice(('a', 'b', 'c'))!r}",
                        "DELETE FROM t WHERE g IS NULL",
                        f"DELETE FROM t WHERE x = {rng.choice((0, 1, 2))}",
                        f"DELETE FROM t WHERE id % 2 = {rng.randint(0, 1)}",
                        f"INSERT INTO s VALUES ({whole()}, {group()})",
                        "DELETE FROM s WHERE h = 1",
                        "DELETE FROM t" if rng.random() < 0.3 else "DELETE FROM t WHERE n < 0",
                    )
                )
            )
        rng.shuffle(texts)
        yield texts


class World:
    """A database and DuckDB with the same tables and views; what each view held and reported."""

    def __init__(self, db: vk.Database, views: dict[str, str], **options: str) -> None:
        self.db, self.views = db, views
        self.oracle = Oracle()
        for text in TABLES:
            db.sql(text)
            self.oracle.create_table(text)
        self.apply(["INSERT INTO s VALUES (1, 'one'), (2, 'two'), (1, 'uno')"])
        for name, query in views.items():
            create(db, name, query, **options)
            self.oracle.create_view(name, transpiled(query))
        self.made = db.epoch
        self.held: dict[str, list[tuple[int, Bag]]] = {name: [(self.made, self.oracle.bag(name))] for name in views}

    def apply(self, texts: list[str]) -> vk.transaction.change.Commit | None:
        with self.db.transaction() as tx:
            for text in texts:
                tx.sql(text)
        for text in texts:
            self.oracle.run(text)
        return tx.commit_info

    def step(self, texts: list[str]) -> None:
        commit = self.apply(texts)
        if commit is None:
            return
        for name in self.views:
            new, old = self.oracle.bag(name), self.held[name][-1][1]
            told = weights(commit.changes[name].weights()) if name in commit.changes else {}
            assert told == difference(new, old), (name, texts)
            assert bag(self.db.view(name).read().rows()) == new, (name, texts)
            self.held[name].append((commit.epoch, new))

    def check_history(self) -> None:
        """The feeds add up, and every epoch can be read."""
        for name, held in self.held.items():
            changes = {
                epoch: weights(change.weights()) for epoch, change in self.db.view(name).changes(since=self.made)
            }
            state = Counter(held[0][1])
            for epoch, wanted in held[1:]:
                state.update(changes.get(epoch, {}))
                assert +state == wanted, (name, epoch)
                assert bag(self.db.view(name).read(as_of=epoch).rows()) == wanted, (name, epoch)


STEPS = {"sail": 14, "spark": 2}


@pytest.mark.parametrize("seed", [1, *long(2, 3)])
def test_random_changes(db: vk.Database, engine: str, seed: int) -> None:
    few = ("sums", "extrema", "of_all", "turned", "floats", "more")
    world = World(db, OWN if engine == "sail" else {name: OWN[name] for name in few}, refresh="'incremental'")
    for texts in statements(seed, STEPS[engine]):
        world.step(texts)
    world.check_history()
    certificate = db.verify()
    assert certificate.equal, certificate


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize(
    "tuning",
    [
        vk.Tuning(large_group=2, runners_up=1, whole_rows=0, picked_rows=1, cached_rows=0),
        vk.Tuning(large_group=2, runners_up=2, small_rows=3, whole_rows=0),
    ],
)
def test_random_changes_with_little_memory(connect: Connect, tuning: vk.Tuning) -> None:
    """Groups are looked up by key, extrema have runners-up, and some changes are too large for the driver."""
    world = World(connect(tuning=tuning), {name: OWN[name] for name in ("sums", "extrema", "turned", "none", "lean")})
    for number, texts in enumerate(statements(5, 8)):
        world.step(texts)
        if number == 3:
            world.db.compact()
    assert world.db.verify().equal


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_which_views_need_nothing_beside_them(db: vk.Database) -> None:
    for text in TABLES:
        db.sql(text)
    for name, query in OWN.items():
        create(db, name, query)
        below = [called for called in hidden(db, "") if f" of {name} " in called]
        assert len(below) == (name == "twice"), (name, below)
    for name, query in AUXILIARY.items():
        create(db, name, query)
        view = db._store.refresh().find(name)
        assert isinstance(view, Derived)
        assert view.definition.hidden, name
    state = db._store.refresh()
    with_runners = [
        r.name for r in state.alive() if isinstance(r, Derived) and r.definition.runners_up and not r.is_hidden
    ]
    assert sorted(with_runners) == ["extrema", "none"]


@pytest.mark.spark_long
def test_one_batch_per_commit(db: vk.Database) -> None:
    db.sql(TABLES[0])
    create(db, "sums", OWN["sums"])
    commit = db.sql("INSERT INTO t VALUES (1, 'a', 1, 1, 1, 1, 1)").commit
    assert commit is not None
    changed = [r.name for r in db._store.refresh().alive() for file in r.files if file.last_epoch == commit.epoch]
    assert sorted(changed) == ["sums", "t"]
    report = commit.report["sums"]
    assert (report.strategy, report.rows_changed, report.read) == ("incremental", 1, ())


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_explain(db: vk.Database) -> None:
    db.sql(TABLES[0])
    create(db, "v", OWN["extrema"])
    lines = db.explain("v").splitlines()
    assert "state: its own rows are the state of γ[g; min(x), max(y), count(*)]" in lines
    assert "  runners-up, which replace deleted extrema of large groups: 0 rows in 0 files" in lines
    assert "when t changes, δ = (γ@old⋉K ⊕ Σ(δt)) − γ@old⋉K" in lines
    assert not any(line.startswith("auxiliary") for line in lines)
    create(db, "w", AUXILIARY["no_count"])
    assert not any(line.startswith("state: ") for line in db.explain("w").splitlines())


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_groups_are_found_by_the_order_of_the_files(connect: Connect) -> None:
    """Files are sorted by the groups, wherever their columns stand, so that few are read for some of them."""
    db = connect(tuning=vk.Tuning(whole_rows=10, file_rows=50, inlined_rows=0))
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g INT NOT NULL, n INT NOT NULL)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(n) AS total, count(*) AS rows, g FROM t GROUP BY g")
    with db.transaction() as tx:
        tx.insert("t", [(i, i % 500, i) for i in range(1000)])
    view = db._store.refresh().find("v")
    assert view is not None
    assert view.schema.sort_columns == ("g",)
    assert len(view.files) > 5
    bounds = [file.bounds["g"] for file in view.files]
    db.sql("INSERT INTO t VALUES (1000, 7, 1)")
    assert db.sql("SELECT total, rows FROM v WHERE g = 7").rows() == [(7 + 507 + 1, 3)], bounds
    assert db.verify().equal


# definitions ----------------------------------------------------------------------------------------


@pytest.mark.spark_long
def test_views_over_it(db: vk.Database) -> None:
    views = {
        "low": "SELECT g, h, count(*) AS rows, sum(n) AS total FROM t GROUP BY g, h",
        "high": "SELECT g, sum(rows) AS rows, count(rows) AS there, count(*) AS parts FROM low GROUP BY g",
        "beside": "SELECT low.g, total, name FROM low JOIN s ON low.rows = s.h",
        "same": "SELECT h, g, sum(n) AS total, count(*) AS rows FROM t GROUP BY g, h",
        "big": "SELECT g, h FROM t GROUP BY g, h HAVING count(*) > 1",
    }
    world = World(db, views)
    for texts in statements(9, 2 if db.store.engine.kind == "spark" else 6):
        world.step(texts)
    with pytest.raises(vk.errors.SqlError, match="low cannot be dropped: beside, high read it"):
        db.sql("DROP MATERIALIZED VIEW low")
    db.sql("DROP MATERIALIZED VIEW same")
    del world.views["same"]
    world.step(["INSERT INTO t VALUES (9001, 'a', 1, 1, 1, 1, 1)"])
    db.sql("DROP MATERIALIZED VIEW low CASCADE")
    for name in ("low", "high", "beside"):
        del world.views[name]
    world.step(["INSERT INTO t VALUES (9002, 'a', 1, 1, 1, 1, 1), (9003, 'a', 1, 1, 1, 1, 1)"])
    assert db.verify().equal


REDEFINED = (
    OWN["extrema"],
    "SELECT g, min(x) AS lo, max(y) AS hi, count(*) AS rows FROM t WHERE n > 0 GROUP BY g",
    "SELECT g, min(x) AS lo, max(y) AS hi, count(*) AS rows FROM t GROUP BY g HAVING count(*) > 1",
    "SELECT g, max(x) AS lo, min(y) AS hi, count(*) AS rows FROM t GROUP BY g",
    "SELECT g, CAST(NULL AS INT) AS lo, min(y) AS hi, count(*) AS rows FROM t GROUP BY g",
    "SELECT g, h AS lo, max(y) AS hi, count(*) AS rows FROM t GROUP BY g, h",
    OWN["extrema"],
)


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("auxiliary", ["true", "false"])
@pytest.mark.parametrize("verb", ["ALTER", "CREATE OR REPLACE"])
def test_other_definitions(connect: Connect, verb: str, auxiliary: str) -> None:
    """A view moves between its own rows and an auxiliary relation; nothing stays behind."""
    db = connect(tuning=vk.Tuning(large_group=2, runners_up=1))
    world = World(db, {"v": REDEFINED[0]}, auxiliary=auxiliary)
    changes = statements(11, 60)
    for query in REDEFINED:
        option = f"WITH (auxiliary = {auxiliary}) AS"
        with db.transaction() as tx:
            texts = next(changes)
            for text in texts:
                tx.sql(text)
                world.oracle.run(text)
            tx.sql(f"{verb} MATERIALIZED VIEW v {option} {query}")
        world.oracle.connection.execute("DROP VIEW v")
        world.oracle.create_view("v", transpiled(query))
        assert bag(db.view("v").read().rows()) == world.oracle.bag("v"), query
        world.held["v"].append((db.epoch, world.oracle.bag("v")))
        for _ in range(3):
            world.step(next(changes))
        serving = [r for r in db._store.refresh().alive() if isinstance(r, Auxiliary)]
        assert len(serving) <= 2, query
    world.check_history()
    db.sql("DROP MATERIALIZED VIEW v")
    assert not [r for r in db._store.refresh().alive() if isinstance(r, Auxiliary)]


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_a_changed_condition_is_followed(db: vk.Database) -> None:
    world = World(db, {"v": OWN["sums"]})
    world.step(["INSERT INTO t VALUES (1, 'a', 1, 1, 1, 1, 1), (2, 'a', 1, 2, 1, 2, 1), (3, 'b', 1, NULL, 1, 3, 1)"])
    query = OWN["sums"].replace("FROM t", "FROM t WHERE n > 1")
    commit = db.sql(f"ALTER MATERIALIZED VIEW v AS {query}").commit
    assert commit is not None
    assert commit.report["v"].strategy == "incremental"
    assert commit.changes["v"].weights() == {("a", 2, 3, 3, 2): -1, ("a", 1, 2, 2, 1): 1}
    assert db.verify().equal


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("refresh", ["full", "auto"])
def test_other_refreshes(connect: Connect, refresh: str) -> None:
    db = connect(tuning=vk.Tuning(negligible_rows=0, full_margin=0.0, spare_queries=0, large_group=2, runners_up=1))
    views = {name: OWN[name] for name in ("extrema", "sums", "of_all", "mean")}
    world = World(db, views, refresh=f"'{refresh}'")
    for texts in statements(3, 8):
        world.step(texts)
    assert db.verify().equal


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_on_demand_and_suspended(connect: Connect) -> None:
    db = connect(tuning=vk.Tuning(large_group=2, runners_up=1))
    world = World(db, {"now": OWN["extrema"], "later": OWN["extrema"], "whole": OWN["of_all"]})
    db.sql("DROP MATERIALIZED VIEW later")
    create(db, "later", OWN["extrema"], on="'demand'")
    assert not hidden(db)
    del world.views["later"]
    for number, texts in enumerate(statements(21, 12)):
        if number == 4:
            db.sql("ALTER MATERIALIZED VIEW whole SUSPEND")
            del world.views["whole"]
        world.step(texts)
        if number % 3 == 2:
            db.sql("REFRESH MATERIALIZED VIEW later")
            assert bag(db.view("later").read().rows()) == world.oracle.bag("later")
    db.sql("REFRESH MATERIALIZED VIEW whole")
    for texts in statements(22, 3, first=100):
        world.step(texts)
        assert bag(db.view("whole").read().rows()) == world.oracle.bag("whole")
    db.sql("REFRESH MATERIALIZED VIEW later")
    assert db.verify().equal


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_a_sum_that_does_not_fit(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (g INT, n BIGINT NOT NULL)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS rows, sum(n) AS total FROM t GROUP BY g")
    db.sql(f"INSERT INTO t VALUES (1, {2**63 - 1}), (2, 1)")
    with pytest.raises(vk.errors.ViewkeeperError, match="v cannot be maintained, so nothing was committed"):
        db.sql("INSERT INTO t VALUES (1, 1)")
    assert bag(db.sql("SELECT * FROM v").rows()) == bag([(1, 1, 2**63 - 1), (2, 1, 1)])
    db.sql("INSERT INTO t VALUES (1, 1), (1, -1)")
    assert bag(db.sql("SELECT * FROM v").rows()) == bag([(1, 3, 2**63 - 1), (2, 1, 1)])
    assert db.verify().equal
