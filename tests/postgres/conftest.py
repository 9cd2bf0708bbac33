"""One PostgreSQL server for the whole run, from the binaries of the `pgserver` package; a database for every test.

POSTGRES_BINARIES=/usr/lib/postgresql/15/bin takes another server's.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """A running server, as the text to connect by. It refuses to run as root, so root starts it as nobody."""
    spec = find_spec("pgserver")
    assert spec is not None
    assert spec.origin is not None
    packages = Path(spec.origin).parent.parent
    home = Path(tempfile.mkdtemp(prefix="vk-pg-", dir="/tmp"))  # a socket's path is short
    user = "nobody" if os.geteuid() == 0 else None
    if user is not None:
        for part in ("pgserver", "pgserver.libs"):  # nobody may not be able to read the place it is installed in
            shutil.copytree(packages / part, home / part)
        packages = home
        shutil.chown(home, user)
    binaries = Path(os.environ.get("POSTGRES_BINARIES") or packages / "pgserver" / "pginstall" / "bin")
    data = home / "data"
    running = None
    try:
        subprocess.run(
            [binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"],
            check=True, capture_output=True, user=user, cwd=home,
        )  # fmt: skip
        options = {"listen_addresses": "", "unix_socket_directories": str(home), "fsync": "off", "timezone": "UTC"}
        flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        log = (home / "log").open("wb")
        running = subprocess.Popen(
            [binaries / "postgres", "-D", data, *flags], stdout=log, stderr=log, user=user, cwd=home
        )
        log.close()
        where = f"host={home} user=postgres dbname=postgres"
        _wait(where, running, home / "log")
        yield where
    finally:
        if running is not None:
            running.send_signal(signal.SIGINT)  # without waiting for connections
            running.wait(60)
        shutil.rmtree(home)


def _wait(where: str, running: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        assert running.poll() is None, log.read_text()
        try:
            psycopg.connect(where).close()
        except psycopg.OperationalError:
            try:
                running.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        else:
            return
    raise AssertionError(log.read_text())


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
