"""One PostgreSQL server for the whole run; a database for every test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from benchmarks.postgres_server import running_postgres

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """A running server, as the text to connect by."""
    with running_postgres(fsync="off") as where:
        yield where


Connect = Callable[[], psycopg.Connection]


@pytest.fixture
def connect(server: str) -> Iterator[Connect]:
    """Opens connections to a database of the test's own."""
    name = f"test_{next(_NUMBERS)}"
    opened: list[psycopg.Connection] = []

    def open_connection() -> psycopg.Connection:
        connection = psycopg.connect(f"{server} dbname={name}")
        opened.append(connection)
        return connection

    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield open_connection
        for connection in opened:
            connection.close()
        admin.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))


@pytest.fixture
def pg(connect: Connect) -> psycopg.Connection:
    """A connection to a new database."""
    return connect()
