"""CREATE finds the problems of a first change: it tries a view's maintenance on generated rows."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.errors.exceptions import connect as engine_errors

import viewkeeper as vk
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.rows import row_tuples
from viewkeeper.algebra.schema import WEIGHT, Column, Key, Schema
from viewkeeper.algebra.types import parse_type
from viewkeeper.engine.lowering import Lowering
from viewkeeper.engine.problems import Endless, depends_on_values, translate
from viewkeeper.errors import InternalError
from viewkeeper.transaction import trial
from viewkeeper.transaction.generated_rows import generated

TABLES = """
CREATE TABLE t (a INT, b INT, x DOUBLE, s STRING, m MAP<STRING, INT>);
CREATE TABLE k (id BIGINT PRIMARY KEY, name STRING NOT NULL);
"""

TAKEN = {
    "divides": "SELECT 10 / (a - 1) AS z FROM t",
    "always_divides": "SELECT 10 / (a - a) AS z FROM t",
    "casts": "SELECT CAST(name AS BOOLEAN) AS z, to_date(name, 'dd/MM/yyyy') AS d FROM k",
    "overflows": "SELECT CAST(id * 1000 AS TINYINT) AS z FROM k",
    "many_rows": "SELECT a, (SELECT name FROM k) AS z FROM t",
    "own_function": "SELECT boom(a) AS z FROM t",
    "maps": "SELECT m, a FROM t",
    "long_recursion": "WITH RECURSIVE r AS (SELECT a, 0 AS n FROM t UNION SELECT a, n + 1 FROM r) SELECT * FROM r",
}
"""What fails for some rows, or goes on for ever: not for CREATE to refuse."""


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_errors_of_values_do_not_refuse_a_view(connect: Callable[..., vk.Database]) -> None:
    db = connect(durability="process")
    db.sql(TABLES)
    db.function("boom", lambda a: 1 // 0, "int")
    for name, query in TAKEN.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}; CREATE VIEW {name}_virtual AS {query}")
    with db.transaction() as tx:
        tx.insert("t", [])
    assert all(not db.sql(f"SELECT * FROM {name}").rows() for name in TAKEN)
    assert not os.listdir(os.path.join(db.path, "scratch", os.listdir(os.path.join(db.path, "scratch"))[0]))


class Refusing(Lowering):
    """Lowers all but joins."""

    refused: Exception

    def lower(self, node: n.Node, *rest: object) -> object:  # type: ignore[override]
        if any(isinstance(part, n.Join) for part in node.walk()):
            raise self.refused
        return super().lower(node, *rest)  # type: ignore[arg-type]


def test_a_plan_that_cannot_run_is_refused_at_create(db: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.sql("CREATE TABLE t (a INT, b INT); CREATE MATERIALIZED VIEW v AS SELECT a AS c FROM t")
    monkeypatch.setattr(Refusing, "refused", KeyError('Field "c" does not exist in schema'), raising=False)
    for module in ("strategy", "net_changes"):
        monkeypatch.setattr(f"viewkeeper.maintain.{module}.Lowering", Refusing)
    for text in (
        "CREATE MATERIALIZED VIEW w AS SELECT x.a AS c FROM t x JOIN t y ON x.a = y.b",
        "CREATE VIEW w AS SELECT x.a AS c FROM t x JOIN t y ON x.a = y.b",
        "ALTER VIEW v AS SELECT x.b AS c FROM t x JOIN t y ON x.a = y.b",
    ):
        with pytest.raises(vk.errors.NotMaintainable) as problem:
            db.sql(text)
        name = text.split(" AS ")[0].split()[-1]
        assert problem.value.message == (
            f"{name} cannot be maintained: KeyError: 'Field \"c\" does not exist in schema'"
        )
        assert problem.value.place is not None
        assert problem.value.place.column == text.index(f" {name} ") + 2
        assert problem.value.detail == "its maintenance was tried on generated rows; nothing was changed"
        assert problem.value.hint == "write the query in another way"  # as joins fail, so would a full refresh
    with pytest.raises(vk.errors.NotMaintainable) as rules:
        db.datalog(".decl d(c: int)\n.output d\nd(a) :- t(a, _), t(_, a).")
    assert rules.value.place is not None
    assert rules.value.place.line == 3
    with db.transaction() as tx:  # a statement that is refused leaves nothing behind in its transaction
        with pytest.raises(vk.errors.NotMaintainable):
            tx.sql("CREATE MATERIALIZED VIEW w AS SELECT x.a AS c FROM t x JOIN t y ON x.a = y.b")
        tx.sql("INSERT INTO t VALUES (1, 2)")
    assert db.sql("SELECT c FROM v").rows() == [(1,)]
    assert [row["name"] for row in db.ls()] == ["t", "v"]


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_the_same_plan_is_tried_once_in_a_process(
    connect: Callable[..., vk.Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []
    run = trial._Trial._run
    monkeypatch.setattr(trial._Trial, "_run", lambda self, variant: (runs.append(variant), run(self, variant))[1])
    monkeypatch.setattr(trial, "_passed", {})
    query = "SELECT t.a, count(*) AS n FROM t JOIN u ON t.a = u.a GROUP BY t.a"
    for name in ("one", "two"):
        db = connect(name, durability="process")
        db.sql("CREATE TABLE t (a INT, b STRING); CREATE TABLE u (a INT PRIMARY KEY)")
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert runs == [0]
    db.sql(f"CREATE MATERIALIZED VIEW w WITH (refresh = 'full') AS {query}")
    db.sql("CREATE TABLE other (a BIGINT)")
    db.sql("CREATE VIEW x AS SELECT 10 / (a - 1) AS z FROM other")
    assert runs == [0, 0, 0, 1]
    for tuning in (vk.Tuning(small_rows=7), vk.Tuning(small_rows=7), vk.Tuning(small_rows=8)):
        db = connect(f"{tuning.small_rows} {len(runs)}", durability="process", tuning=tuning)
        db.sql("CREATE TABLE t (a INT, b STRING); CREATE TABLE u (a INT PRIMARY KEY)")
        db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert runs == [0, 0, 0, 1, 0, 0], "once with each tuning, for that decides what runs where"


def test_which_errors_depend_on_values() -> None:
    def ours(problem: Exception) -> Exception:
        made = translate(problem)
        made.__cause__ = problem
        return made

    for problem in (
        engine_errors.ArithmeticException("[DIVIDE_BY_ZERO] Division by zero."),
        engine_errors.AnalysisException("Division by zero"),  # Sail's
        engine_errors.AnalysisException("a scalar subquery gave more than one row"),
        engine_errors.DateTimeException("[CANNOT_PARSE_TIMESTAMP] Text 'x' could not be parsed"),
        engine_errors.NumberFormatException("[CAST_INVALID_INPUT] The value 'x' cannot be cast"),
        engine_errors.PythonException("An exception was thrown from the Python worker."),
        engine_errors.SparkRuntimeException("[USER_RAISED_EXCEPTION] no"),
    ):
        assert depends_on_values(ours(problem)) is True, problem
    named = engine_errors.AnalysisException("[DATATYPE_MISMATCH] no", errorClass="DATATYPE_MISMATCH")
    for refused in (named, engine_errors.UnsupportedOperationException("unknown function: f")):
        assert depends_on_values(ours(refused)) is False, refused
    assert depends_on_values(ours(engine_errors.AnalysisException("window frame needs one order key"))) is None
    assert depends_on_values(InternalError("the change of v deletes (1,)")) is False
    assert depends_on_values(AssertionError()) is False
    assert depends_on_values(Endless(rounds=10)) is True


def test_generated_rows_are_typed_and_respect_keys() -> None:
    kinds = [
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(1,1)",
        "DECIMAL(38,0)",
        "STRING",
        "VARCHAR(1)",
        "BINARY",
        "BOOLEAN",
        "DATE",
        "TIMESTAMP",
        "TIMESTAMP_NTZ",
        "ARRAY<INT>",
        "MAP<STRING,INT>",
        "STRUCT<a:INT,b:ARRAY<STRING>>",
    ]
    columns = tuple(Column(f"c{i}", parse_type(kind)) for i, kind in enumerate(kinds))
    free = generated(Schema(columns), 0)
    weights = free.first[WEIGHT].to_pylist()
    assert sorted(weights) == [1, 1, 2]
    rows = row_tuples(free.first.drop_columns([WEIGHT]))
    assert sum(all(value is None for value in row) for row in rows) == 1
    assert sorted(free.then[WEIGHT].to_pylist()) == [-1, -1, 1, 1]
    assert dt.date(2001, 1, 2) in {row[12] for row in rows}
    for apart in (False, True):
        for variant in range(trial.VARIANTS):
            for kind in ("boolean", "int"):
                first = Column("id", parse_type(kind), nullable=False)
                keyed = Schema((first, *columns), (Key(("id",), primary=True),))
                steps = generated(keyed, variant, apart=apart)
                after = pa.concat_tables([steps.first, steps.then]).group_by("id").aggregate([(WEIGHT, "sum")])
                assert set(after[f"{WEIGHT}_sum"].to_pylist()) <= {0, 1}
                assert set(steps.first[WEIGHT].to_pylist()) == {1}
                assert steps.then.num_rows
    edges = generated(Schema(columns[2:4]), 0, apart=True).first
    assert all(a < b for a, b in zip(edges["c2"].to_pylist(), edges["c3"].to_pylist(), strict=True) if a is not None)
