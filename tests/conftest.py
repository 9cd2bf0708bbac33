"""Both engines for every test that asks for one; one session of each in a process."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import viewkeeper as vk
from tests.processes import QUICK_JVM

ENGINES = ("sail", "spark")

_NO_CODE = "--conf spark.sql.codegen.wholeStage=false --conf spark.sql.codegen.factoryMode=NO_CODEGEN"
_INTERPRETED = f"{QUICK_JVM} {_NO_CODE} pyspark-shell"
"""Tests have few rows and many plans, and Apache Spark would spend most of its time compiling them: it interprets them
instead. `make test-long` runs it as users do, and in the normal run the tests that are marked `compiled`."""

os.environ.setdefault("PYSPARK_SUBMIT_ARGS", _INTERPRETED)

_COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


_FIXTURES = {"engine", "connect", "db", "sail", "spark", "server", "oracle"}
_DIRECTORIES = ("cli", "concurrency", "crash", "docs", "engine", "faults", "page", "postgres", "server", "store")
_FILES = ("sql/test_dialect.py", "sql/test_function_examples.py", "sql/test_functions.py", "sql/test_sail_differs.py")
_MORE = ("papers/test_rules_executed.py", "unit/test_architecture.py", "views/test_functions_by_place.py")
_BY_THEMSELVES = (*(f"{name}/" for name in _DIRECTORIES), *_FILES, *_MORE, "views/test_view_catalogue.py")
"""Where tests start an engine, a server or a process without a fixture."""

_WITH_SPARK = (*_FILES, "sql/test_type_pairs.py", "engine/test_engines.py", "views/test_second_opinion.py")
"""Where tests ask Apache Spark in the test's own process without saying so by their parameters."""

_LONG = ("cli/test_cli_process.py", "concurrency/", "crash/", "property/", "recursion/test_programs.py")
_LONGEST = (*_LONG, "sql/test_long_chains.py", "views/test_tpch_views.py", "views/test_tuning.py")
"""Where single tests take long: they stand together, so that none of them is the last."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--lane engine` runs tests with all operators of maintenance plans on the engine, none on the driver."""
    parser.addoption("--lane", choices=("auto", "engine"), default="auto")


def _engine_of(item: pytest.Item) -> str | None:
    """The engine that a test runs on, if it is one of a pair."""
    found = getattr(item, "callspec", None)
    return None if found is None else found.params.get("engine")


def _place(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).as_posix()


def _starts_an_engine(item: pytest.Item) -> bool:
    return _place(item).startswith(_BY_THEMSELVES) or not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def _turn(item: pytest.Item) -> int:
    """Where a test stands: those on Apache Spark first, those without an engine last.

    The first process begins with Apache Spark and the second in the middle, so that it soon comes to the long ones;
    what is left for either to take over in the end is short.
    """
    place = _place(item)
    if item.get_closest_marker("engine") is None:
        return 3
    if _engine_of(item) == "spark" or not {"spark", "spark_templates"}.isdisjoint(getattr(item, "fixturenames", ())):
        return 0
    if place.startswith(_WITH_SPARK):
        return 0
    return 2 if place.startswith(_LONGEST) else 1


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what is of the long form and what starts an engine; then orders the tests by engine.

    With `--lane engine`, tests of what the driver computes are left out.

    A process that has run out of tests takes over from the end of the other's: tests on Apache Spark stand first, so
    that one process does all of them in one JVM, which takes twenty seconds to start and is faster the longer it runs.
    """
    if config.getoption("--lane") == "engine":
        left_out = [item for item in items if item.get_closest_marker("driver_lane")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        if item.get_closest_marker("spark_long") and _engine_of(item) == "spark":
            item.add_marker(pytest.mark.long)
        if _starts_an_engine(item):
            item.add_marker(pytest.mark.engine)
    items.sort(key=_turn)


@pytest.fixture(autouse=True)
def _no_engine_unless_marked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that `make test-fast` runs starts no engine."""
    if request.node.get_closest_marker("engine") is None:
        for name in ("_start_sail", "_start_spark"):
            monkeypatch.setattr(f"viewkeeper.engine.servers.{name}", _refuse)


def _refuse(_: object) -> str:
    raise AssertionError("this test starts an engine: list it in tests/conftest.py")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The engine a test runs on; a test that uses it runs once on each."""
    return str(request.param)


@pytest.fixture
def connect(tmp_path: Path, engine: str, request: pytest.FixtureRequest) -> Iterator[Callable[..., vk.Database]]:
    """Opens databases under the test's own directory and closes them at the end."""
    opened: list[vk.Database] = []
    engine_lane = request.config.getoption("--lane") == "engine"
    compiled = engine == "spark" and request.node.get_closest_marker("compiled") is not None

    def open_database(name: str = "lake", **options: object) -> vk.Database:
        options.setdefault("engine", engine)
        if compiled:
            options.setdefault("spark_conf", _COMPILED)
        if engine_lane:
            options["tuning"] = dataclasses.replace(options.get("tuning") or vk.Tuning(), driver_rows=0)  # type: ignore[type-var]
        db = vk.connect(tmp_path / name, **options)  # type: ignore[arg-type]
        opened.append(db)
        return db

    yield open_database
    for db in opened:
        db.close()


@pytest.fixture
def db(connect: Callable[..., vk.Database]) -> vk.Database:
    """A new, empty database."""
    return connect()


@pytest.fixture
def every_change_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """That changes are strongly minimal is looked up for every view, also where it is known: not what users have."""
    monkeypatch.setattr("viewkeeper.maintain.differentiate.ALWAYS_CHECKED", True)


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fault is asked for by the environment."""
    for name in [name for name in os.environ if name.startswith("VIEWKEEPER_")]:
        monkeypatch.delenv(name)
