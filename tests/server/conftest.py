"""Real servers on free ports, in a thread of the test's process, over databases on Sail."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

import viewkeeper as vk
from viewkeeper.server.access_tokens import Access, Grant
from viewkeeper.server.application import create_app
from viewkeeper.server.running_server import RunningServer, bound_socket
from viewkeeper.server.server_settings import ServerLimits, ServerSettings
from viewkeeper.server.token_files import create_token

SHOP = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, region STRING, amount DECIMAL(12,2));
CREATE TABLE secrets (id BIGINT, word STRING);
CREATE MATERIALIZED VIEW by_region AS SELECT region, sum(amount) AS total, count(*) AS n FROM orders GROUP BY region;
CREATE VIEW big AS SELECT * FROM orders WHERE amount > 10;
INSERT INTO orders VALUES (1, 'EU', 5), (2, 'US', 20.5), (3, 'EU', 30);
INSERT INTO secrets VALUES (1, 'plover'), (0, 'xyzzy')
"""
"""Epochs 1 to 6; the rows of orders came with epoch 5."""

ADMIN = "an-admin-token-for-tests"


@dataclass
class Served:
    """A running server."""

    url: str
    db: vk.Database
    running: RunningServer
    log: io.StringIO
    thread: threading.Thread

    def client(self, token: str | None = None, **options: Any) -> httpx.Client:
        """A client with a token."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False, verify=False, **options)

    def token(self, name: str, rights: str = "read", **grants: str | None) -> str:
        """A new token; for single views, if some are given with their conditions."""
        listed = tuple(Grant(view, where) for view, where in grants.items()) if grants else None
        return create_token(self.db.store.storage, Access(name, rights, listed))

    @property
    def socket_url(self) -> str:
        """The address of the WebSocket."""
        return f"ws{self.url.removeprefix('http')}/api/v1/stream"

    def logged(self) -> list[dict[str, Any]]:
        """The lines of the log."""
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    def stop(self) -> None:
        """Ends the server gracefully."""
        self.running.should_exit = True
        self.thread.join(30)
        assert not self.thread.is_alive()


@contextlib.contextmanager
def served(db: vk.Database, **options: Any) -> Iterator[Served]:
    """A server of a database; limits and settings by their names."""
    names = ServerLimits.__dataclass_fields__
    limits = ServerLimits(**{name: value for name, value in options.items() if name in names})
    rest = {"port": 0, **{name: value for name, value in options.items() if name not in names}}
    settings = ServerSettings(limits=limits, **rest)
    log = io.StringIO()
    listening = bound_socket(settings)
    running = RunningServer(create_app(db, settings, log), settings)
    thread = threading.Thread(target=lambda: asyncio.run(running.serve(sockets=[listening])))
    thread.start()
    scheme = "https" if settings.ssl_certfile else "http"
    made = Served(f"{scheme}://127.0.0.1:{listening.getsockname()[1]}", db, running, log, thread)
    until = time.monotonic() + 30
    while not running.started and time.monotonic() < until:
        time.sleep(0.01)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[vk.Database]:
    """A database for tests that only read."""
    with vk.connect(tmp_path_factory.mktemp("shop") / "lake", engine="sail") as db:
        db.sql(SHOP)
        yield db


@pytest.fixture(scope="module")
def reading(shop: vk.Database) -> Iterator[Served]:
    """A server with a token, for tests that only read."""
    with served(shop, token=ADMIN, rate=10_000, burst=10_000) as made:
        yield made


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[vk.Database]:
    """A database of a test's own."""
    with vk.connect(tmp_path / "lake", engine="sail", durability="process") as db:
        db.sql(SHOP)
        yield db


@pytest.fixture
def serve(lake: vk.Database) -> Iterator[Callable[..., Served]]:
    """Starts servers of the test's own database."""
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(served(lake, **options))


def code_of(answer: httpx.Response) -> str:
    """The code of a problem; checks its form."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    document = answer.json()
    assert document["status"] == answer.status_code
    assert {"type", "title", "status", "code", "detail", "hint", "place"} <= set(document)
    return str(document["code"])
