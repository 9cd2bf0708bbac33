"""Python functions that a database imports by module and name: every process can change the tables of their views."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import viewkeeper as vk
from viewkeeper.cli.database_checks import check_database
from viewkeeper.errors import AlreadyExists, ConstraintViolation, NotFound, ViewkeeperError

MODULE = """
import pandas as pd

NUMBER = 7

def plus1(x):
    return None if x is None else x + 1

def twice(x: pd.Series) -> pd.Series:
    return x * 2
"""


@pytest.fixture
def fns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that only this directory has; no process knows of it before."""
    place = tmp_path / "modules"
    place.mkdir()
    (place / "vk_fns.py").write_text(MODULE)
    (place / "vk_broken.py").write_text("raise RuntimeError('no luck')\n")
    (place / "vk_needy.py").write_text("import vk_absent_module\n")
    monkeypatch.syspath_prepend(str(place))
    importlib.invalidate_caches()
    yield str(place)
    for name in ("vk_fns", "vk_broken", "vk_needy"):
        sys.modules.pop(name, None)


def run(place: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own."""
    path = os.pathsep.join([place, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-c", "from viewkeeper.cli import main; main()", *words],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )


@pytest.mark.spark_long
def test_another_process_changes_the_tables_of_a_functions_view(
    connect: Callable[..., vk.Database], fns: str, engine: str, tmp_path: Path
) -> None:
    db = connect()
    db.function("plus1", "vk_fns:plus1", returns="INT")
    with db.transaction() as tx:
        tx.sql("CREATE TABLE t (x INT)")
        tx.sql("CREATE MATERIALIZED VIEW v AS SELECT plus1(x) AS y FROM t; CREATE VIEW w AS SELECT y FROM v")
        tx.insert("t", [(1,), (None,)])
    db.close()
    words = ("--db", str(tmp_path / "lake"), "--engine", engine)
    done = run(fns, *words, "sql", "INSERT INTO t VALUES (10); SELECT plus1(y) AS z FROM w WHERE y = 11")
    assert done.returncode == 0, done.stderr
    assert "12" in done.stdout


def test_nothing_is_imported_before_a_function_is_needed(tmp_path: Path, fns: str) -> None:
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        db.function("plus1", "vk_fns:plus1", returns="INT")
        db.function("twice", "vk_fns:twice", returns="BIGINT")
        db.sql("CREATE TABLE t (x BIGINT); CREATE TABLE other (x INT)")
        db.sql("CREATE VIEW w AS SELECT twice(x) AS y FROM t")
        db.datalog(".decl r(x: number)\n.output r\nr(@plus1(x)) :- other(x).")
    del sys.modules["vk_fns"]
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        db.sql("INSERT INTO t VALUES (21)")
        assert db.sql("SHOW FUNCTIONS").rows() == [
            ("plus1", "vk_fns:plus1", "INT", "r"),
            ("twice", "vk_fns:twice", "BIGINT", "w"),
        ]
        assert db.sql("SELECT x FROM t").rows() == [(21,)]
        assert "vk_fns" not in sys.modules
        assert [change.weights() for _, change in db.view("w").changes()] == [{(42,): 1}]
        assert "vk_fns" in sys.modules
        db.sql("INSERT INTO other VALUES (1)")
        assert db.sql("SELECT * FROM r").rows() == [(2,)]
        assert db.datalog_query("other(x), y = @plus1(x)").rows() == [(1, 2)]
        assert [row["changes"] for row in db.history()][-2:] == [
            "declared the function twice",
            "declared the function plus1",
        ]


def test_a_process_without_the_function_is_told_how_to_declare_it(tmp_path: Path, fns: str) -> None:
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        db.function("plus1", lambda x: x + 1, returns="INT")
        db.sql("CREATE TABLE t (x INT); CREATE MATERIALIZED VIEW v AS SELECT plus1(x) AS y FROM t")
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        aside = "; or ALTER MATERIALIZED VIEW v SUSPEND; lets the tables change without it"
        for statement, more in (("INSERT INTO t VALUES (1)", aside), ("SELECT plus1(x) FROM t", "")):
            with pytest.raises(NotFound) as problem:
                db.sql(statement).rows()
            assert problem.value.message == "this process does not have the function plus1, which v uses"
            assert problem.value.detail == (
                "it was declared as a Python object, which only the process that declared it has"
            )
            assert problem.value.hint == (
                f'declare it for all processes: db.function("plus1", "package.module:plus1", returns=...){more}'
            )
        db.function("plus1", "vk_fns:plus1", returns="INT")
        db.sql("INSERT INTO t VALUES (1)")
        assert db.sql("SELECT * FROM v").rows() == [(2,)]
        with pytest.raises(AlreadyExists, match="the database knows the function plus1 as vk_fns:plus1"):
            db.function("plus1", lambda x: x, returns="INT")


def test_functions_in_use_stay_as_they_are(tmp_path: Path, fns: str) -> None:
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        db.function("f", "vk_fns:plus1", returns="INT")
        other = vk.connect(tmp_path / "lake", engine="sail")
        assert other.sql("SELECT f(1)").rows() == [(2,)]
        db.function("F", "vk_fns:twice", returns="BIGINT")
        assert other.sql("SELECT f(4L)").rows() == [(8,)]
        db.sql("CREATE TABLE t (x BIGINT); CREATE VIEW w AS SELECT F(x) AS y FROM t")
        epoch = db.epoch
        db.function("F", "vk_fns:twice", returns="BIGINT")
        assert db.epoch == epoch
        with pytest.raises(ConstraintViolation, match="the function F cannot be replaced: w uses it"):
            db.function("F", "vk_fns:plus1", returns="BIGINT")
        with pytest.raises(ConstraintViolation) as problem:
            other.sql("DROP FUNCTION f")
        assert str(problem.value) == (
            "the function F cannot be dropped: w uses it\nat line 1, column 15:\n  DROP FUNCTION f\n                ^\n"
            "detail: it is vk_fns:twice, which returns BIGINT\n"
            "hint: drop what uses it first: DROP VIEW w; or declare another function under a name of its own"
        )
        db.sql("DROP VIEW w; DROP FUNCTION f; DROP FUNCTION IF EXISTS f")
        with pytest.raises(NotFound, match="there is no function named 'f'"):
            db.sql("DROP FUNCTION f")
        with pytest.raises(ViewkeeperError):
            other.sql("SELECT f(1)").rows()
        other.close()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("vk_fns.plus1", "'vk_fns.plus1' does not say where a function is\nhint: write \"package.module:name\""),
        ("vk_nowhere:f", "there is no module vk_nowhere in this process\nhint: install it, or put its directory on"),
        ("vk_fns:plus", "the module vk_fns has no function plus\nhint: did you mean vk_fns:plus1?"),
        ("vk_fns:NUMBER", "vk_fns:NUMBER is a int, not a function"),
        ("vk_broken:f", "the module vk_broken cannot be imported\ndetail: RuntimeError: no luck\nhint: python -c"),
        ("vk_needy:f", "the module vk_needy cannot be imported\ndetail: ModuleNotFoundError: No module named 'vk_abse"),
    ],
)
def test_a_function_that_cannot_be_loaded_is_refused(tmp_path: Path, fns: str, target: str, message: str) -> None:
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        with pytest.raises(ViewkeeperError) as problem:
            db.function("f", target, returns="INT")
        assert str(problem.value).startswith(message)
        assert db.sql("SHOW FUNCTIONS").rows() == []


def test_a_function_whose_module_is_gone_says_so(tmp_path: Path, fns: str) -> None:
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        db.function("plus1", "vk_fns:plus1", returns="INT")
        db.sql("CREATE TABLE t (x INT); CREATE MATERIALIZED VIEW v AS SELECT plus1(x) AS y FROM t")
    done: Any = run(
        str(tmp_path), "--db", str(tmp_path / "lake"), "--engine", "sail", "sql", "INSERT INTO t VALUES (1)"
    )
    assert done.returncode == 1
    assert "there is no module vk_fns in this process" in done.stderr
    assert "PYTHONPATH" in done.stderr
    found = [(finding.status, finding.found) for finding in check_database(str(tmp_path / "lake"), quick=True)]
    assert ("ok", "plus1 is vk_fns:plus1, used by v") in found
