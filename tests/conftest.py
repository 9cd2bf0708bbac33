"""Both engines for every test that asks for one; one session of each in a process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import viewkeeper as vk

ENGINES = ("sail", "spark")

_INTERPRETED = (
    "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' "
    "--conf spark.sql.codegen.wholeStage=false --conf spark.sql.codegen.factoryMode=NO_CODEGEN pyspark-shell"
)
"""Tests have few rows and many plans, and Apache Spark would spend most of its time compiling them: it interprets them
instead. `make test-long` runs it as users do, and in the normal run the tests that are marked `compiled`."""

os.environ.setdefault("PYSPARK_SUBMIT_ARGS", _INTERPRETED)

_COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `spark_long` belong to the long form where they run on Apache Spark."""
    for item in items:
        params = getattr(item, "callspec", None)
        if item.get_closest_marker("spark_long") and params is not None and params.params.get("engine") == "spark":
            item.add_marker(pytest.mark.long)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The engine a test runs on; a test that uses it runs once on each."""
    return str(request.param)


@pytest.fixture
def connect(tmp_path: Path, engine: str, request: pytest.FixtureRequest) -> Iterator[Callable[..., vk.Database]]:
    """Opens databases under the test's own directory and closes them at the end."""
    opened: list[vk.Database] = []
    compiled = engine == "spark" and request.node.get_closest_marker("compiled") is not None

    def open_database(name: str = "lake", **options: object) -> vk.Database:
        options.setdefault("engine", engine)
        if compiled:
            options.setdefault("spark_conf", _COMPILED)
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
