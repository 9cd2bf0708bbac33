"""Both engines for every test that asks for one; one session of each for the whole run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import viewkeeper as vk

ENGINES = ("sail", "spark")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The engine a test runs on; a test that uses it runs once on each."""
    return str(request.param)


@pytest.fixture
def connect(tmp_path: Path, engine: str) -> Iterator[Callable[..., vk.Database]]:
    """Opens databases under the test's own directory and closes them at the end."""
    opened: list[vk.Database] = []

    def open_database(name: str = "lake", **options: object) -> vk.Database:
        options.setdefault("engine", engine)
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


@pytest.fixture(autouse=True)
def _every_change_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """That changes are strongly minimal is looked up for every view, also where it is known."""
    monkeypatch.setattr("viewkeeper.transaction.propagation.ALWAYS_CHECKED", True)


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fault is asked for by the environment."""
    for name in [name for name in os.environ if name.startswith("VIEWKEEPER_")]:
        monkeypatch.delenv(name)
