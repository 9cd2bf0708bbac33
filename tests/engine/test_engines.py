"""Which engine answers: local, remote, handed in, or the fallback; quiet, shared, and pinned by the database."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import viewkeeper as vk
from tests.processes import QUICK_JVM
from viewkeeper.engine.servers import local_server


def run(code: str, tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A Python process of its own in an empty directory."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


ROUND = """
    import viewkeeper as vk
    with vk.connect("lake"{options}) as db:
        db.sql("CREATE TABLE t (a INT PRIMARY KEY, b STRING); INSERT INTO t VALUES (1, 'x'), (2, NULL)")
        db.sql("UPDATE t SET b = 'y' WHERE a = 2")
        print(db.sql("SELECT * FROM t ORDER BY a").rows())
"""


@pytest.mark.spark_long  # tests/cli/test_cli_process.py starts a JVM and looks at the terminal
def test_the_terminal_stays_quiet(tmp_path: Path, engine: str) -> None:
    done = run(ROUND.format(options=f', engine="{engine}"'), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[(1, 'x'), (2, 'y')]\n"
    assert done.stderr == ""


def test_without_java_sail_is_used_and_said_in_one_line(tmp_path: Path) -> None:
    done = run(ROUND.format(options=""), tmp_path, JAVA_HOME=str(tmp_path / "nowhere"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[(1, 'x'), (2, 'y')]\n"
    assert done.stderr == (
        "viewkeeper: no Java 17 or newer was found, so the Sail engine is used instead of Apache Spark\n"
    )


def test_the_environment_names_the_engine(tmp_path: Path) -> None:
    code = ROUND.format(options="") + '\n    print(vk.connect("lake")._store.engine.kind)'
    done = run(code, tmp_path, VIEWKEEPER_ENGINE="sail")
    assert done.stdout.splitlines()[-1] == "sail", done.stderr


def test_a_remote_endpoint(tmp_path: Path, engine: str) -> None:
    address = local_server(engine, {}, {})
    with vk.connect(tmp_path / "lake", engine=address) as db:
        assert db._store.engine.kind == engine
        db.sql("CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
        assert db.sql("SELECT sum(a) FROM t").rows() == [(3,)]


def test_a_remote_endpoint_that_does_not_answer(tmp_path: Path) -> None:
    code = """
        import viewkeeper as vk
        try:
            vk.connect("lake", engine="sc://localhost:1")
        except vk.errors.EngineError as error:
            print(error.message, "|", error.hint)
    """
    done = run(code, tmp_path)
    assert done.stdout == (
        "the engine at sc://localhost:1 did not answer | check that a Spark Connect server is running there\n"
    )


def test_a_session_handed_in(tmp_path: Path, engine: str) -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(local_server(engine, {}, {})).create()
    with vk.connect(tmp_path / "lake", engine=session) as db:
        assert db._store.engine.kind == engine
        db.sql("CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
        with db.transaction() as tx:
            tx.insert("t", session.sql("SELECT 3 AS a UNION ALL SELECT 4"))
        assert db.sql("SELECT sum(a) FROM t").rows() == [(10,)]
        assert db.sql("SELECT a FROM t").spark().count() == 4
    session.stop()


def test_a_classic_session_handed_in(tmp_path: Path) -> None:
    code = """
        from pyspark.sql import SparkSession
        import viewkeeper as vk
        session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        with vk.connect("lake", engine=session) as db:
            db.sql("CREATE TABLE t (a INT PRIMARY KEY, b STRING); INSERT INTO t VALUES (1, 'x'), (2, NULL)")
            db.sql("UPDATE t SET b = 'y' WHERE a = 2")
            with db.transaction() as tx:
                tx.insert("t", session.createDataFrame([(3, "z")], "a int, b string"))
            print(db.sql("SELECT * FROM t ORDER BY a").rows())
        session.stop()
    """
    done = run(code, tmp_path, PYSPARK_SUBMIT_ARGS=f"{QUICK_JVM} pyspark-shell")
    assert done.stdout == "[(1, 'x'), (2, 'y'), (3, 'z')]\n", done.stderr


def test_databases_share_a_session(tmp_path: Path, engine: str) -> None:
    with vk.connect(tmp_path / "a", engine=engine) as one, vk.connect(tmp_path / "b", engine=engine) as other:
        shared = one._store.engine.session
        assert shared is other._store.engine.session
    with vk.connect(tmp_path / "c", engine=engine, time_zone="Asia/Tokyo") as third:
        assert third._store.engine.session is not shared
        assert third.sql("SELECT current_timezone()").rows() == [("Asia/Tokyo",)]


def test_another_engine_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vk.connect(tmp_path / "lake", engine="sail").close()
    vk.connect(tmp_path / "lake", engine="spark").close()
    assert capsys.readouterr().err == (
        "viewkeeper: this database was made with the engine 'sail' and is opened with 'spark'; "
        "the two differ in some details, so run verify\n"
    )


@pytest.mark.parametrize("choice", ["flink", 7])
def test_an_unknown_engine(tmp_path: Path, choice: object) -> None:
    with pytest.raises(vk.errors.EngineError) as caught:
        vk.connect(tmp_path / "lake", engine=choice)
    assert caught.value.hint == "use 'spark', 'sail', 'sc://host:port' or a SparkSession"


def test_spark_conf_reaches_the_session(tmp_path: Path) -> None:
    with vk.connect(tmp_path / "lake", engine="spark", spark_conf={"spark.sql.shuffle.partitions": "3"}) as db:
        assert db._store.engine.session.conf.get("spark.sql.shuffle.partitions") == "3"


def test_plans_for_few_rows_have_a_session_of_their_own(db: vk.Database, engine: str) -> None:
    own = db._store.engine
    few = own.for_few_rows()
    if engine == "sail":
        assert few is own
        return
    assert few.session is not own.session
    adaptive = "spark.sql.adaptive.enabled"
    assert (own.session.conf.get(adaptive), few.session.conf.get(adaptive)) == ("true", "false")
    assert few.session.conf.get("spark.sql.ansi.enabled") == "true"
