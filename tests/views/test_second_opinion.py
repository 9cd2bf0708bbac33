"""VERIFY on another engine shows what the own one gets wrong in both maintenance and recompute."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import viewkeeper as vk
from viewkeeper.algebra.expressions import Attribute, Expression, integer, plain
from viewkeeper.engine.lowering import Lowering

OTHER = {"sail": "spark", "spark": "sail"}

VIEWS = """
    CREATE TABLE t (k BIGINT, d DECIMAL(7,2), f DOUBLE);
    INSERT INTO t VALUES (1, 1.10, 0.1), (1, 2.20, 0.2), (2, NULL, 0.7), (3, 3.35, NULL), (3, 3.35, NULL);
    BEGIN;
    CREATE MATERIALIZED VIEW sums AS SELECT k, sum(d) AS d, avg(d) AS a, sum(f) AS f, count(*) AS n FROM t GROUP BY k;
    CREATE MATERIALIZED VIEW first AS SELECT k, d FROM t ORDER BY d LIMIT 2;
    CREATE MATERIALIZED VIEW up AS
        WITH RECURSIVE r AS (SELECT k FROM t UNION SELECT k + 1 FROM r WHERE k < 9) SELECT k FROM r;
    CREATE VIEW plain AS SELECT k, abs(2 * k) AS doubled FROM t WHERE f > 0.1;
    COMMIT
"""


@pytest.mark.spark_long
def test_views_are_recomputed_on_the_other_engine(db: vk.Database, engine: str) -> None:
    db.sql(VIEWS)
    db.datalog(".decl next(x:number, y:number)\n.output next\nnext(x, y) :- sums(x, _, _, _, _), y = x + 1.")
    other = OTHER[engine]
    found = {view.name: (view.equal, view.engine, view.computed) for view in db.verify(engine=other).views}
    text = "its query as written" if other == "spark" else "its algebra"
    assert found == {
        "first": (True, other, "its algebra"),  # which of equal rows comes first is left open by the text
        "next": (True, other, "its algebra"),
        "sums": (True, other, text),
        "up": (True, other, "its algebra"),  # no engine has UNION in a recursion
    }
    shown = db.sql(f"VERIFY VIEW plain WITH (engine = '{other}')")
    assert shown.columns == ["view", "equal", "epoch", "rows", "checksum", "difference", "engine", "computed"]
    assert shown.rows()[0][:2] + shown.rows()[0][6:] == ("plain", True, other, text)
    own, second = db.verify("sums"), db.verify("sums", engine=other)
    assert str(second) == f"{own}, by {other} from {text}"


def test_what_is_wrong_in_view_and_recompute_alike(
    connect: Callable[..., vk.Database], engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = connect(tuning=vk.Tuning(driver_rows=0))
    right = Lowering.computed

    def wrong(self: Lowering, attribute: Attribute, value: Expression) -> Expression:
        made = right(self, attribute, value)
        return plain("+", made, integer(1)) if attribute.name == "doubled" and self.engine.kind == engine else made

    monkeypatch.setattr(Lowering, "computed", wrong)
    db.sql("CREATE TABLE t (k BIGINT); INSERT INTO t VALUES (1), (2)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, abs(2 * k) AS doubled FROM t")
    assert db.verify("v").equal
    second = db.verify("v", engine=OTHER[engine])
    assert not second.equal
    assert (sorted(second.missing), sorted(second.extra)) == ([(1, 2), (2, 4)], [(1, 3), (2, 5)])
    monkeypatch.undo()
    assert not db.verify("v").equal  # what is stored is damaged, and its own engine says so


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_an_engine_that_is_not_there(db: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.sql("CREATE TABLE t (k BIGINT); CREATE VIEW v AS SELECT k FROM t")
    with pytest.raises(vk.errors.EngineError) as caught:
        db.sql("VERIFY VIEW v WITH (engine = 'flink')")
    assert caught.value.message == "there is no engine 'flink'"
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(vk.errors.EngineError) as caught:
        db.verify("v", engine="spark")
    assert str(caught.value) == (
        "Apache Spark needs Java 17 or newer, and none was found\n"
        "hint: install it and set JAVA_HOME, or verify with engine = 'sail'"
    )


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_aggregates_side_by_side_under_a_limit_take_no_longer_for_being_many(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (b INT, p DECIMAL(7,2)); INSERT INTO t SELECT id % 7, id FROM range(50)")
    calls = "avg(p) AS a{0}, count(p) AS c{0}, count(DISTINCT p) AS d{0}"
    parts = ", ".join(f"(SELECT {calls.format(i)} FROM t WHERE b = {i}) AS q{i}" for i in range(7))
    db.sql(f"SET statement_timeout = '60 s'; CREATE MATERIALIZED VIEW v AS SELECT * FROM {parts} LIMIT 100")
    assert db.verify("v").equal  # some hundred times as long as one of six parts, once
