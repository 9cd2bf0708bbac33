"""The page in a real Chromium, against `viewkeeper serve` as a process of its own, over databases on Sail."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

import viewkeeper as vk
from tests.processes import ROOT, clean_environment

SHOP = """
CREATE TABLE customers (id BIGINT PRIMARY KEY, name STRING, region STRING NOT NULL);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT NOT NULL, status STRING, amount DECIMAL(12,2));
CREATE TABLE flights (src STRING, dst STRING, PRIMARY KEY (src, dst));
CREATE TABLE reminders (customer BIGINT, name STRING);
CREATE MATERIALIZED VIEW revenue AS
SELECT c.region, count(*) AS orders, sum(o.amount) AS total
FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.region;
CREATE MATERIALIZED VIEW large_regions AS SELECT region, total FROM revenue WHERE total > 100;
CREATE MATERIALIZED VIEW no_orders AS
SELECT id, name FROM customers c WHERE NOT EXISTS (SELECT * FROM orders o WHERE o.customer = c.id);
CREATE VIEW open_orders AS SELECT * FROM orders WHERE status = 'open';
INSERT INTO customers VALUES (1, 'Ada', 'Europe'), (2, 'Bo', 'Asia'), (3, 'Cy', 'Africa');
INSERT INTO orders VALUES (1, 1, 'open', 40), (2, 2, 'open', 120), (3, 1, 'sent', 75.5);
INSERT INTO flights VALUES ('AMS', 'BER'), ('BER', 'CPH'), ('AMS', 'FRA');
CREATE RULE remind ON no_orders WHEN INSERTED DO INSERT INTO reminders SELECT id, name FROM inserted;
CREATE ASSERTION amounts_positive CHECK (NOT EXISTS (SELECT * FROM orders WHERE amount < 0));
CREATE ASSERTION small ON VIOLATION WARN CHECK (NOT EXISTS (SELECT id, amount FROM orders WHERE amount > 900))
"""
REACHABLE = """
.decl reachable(src: symbol, dst: symbol)
.output reachable
reachable(x, y) :- flights(x, y).
reachable(x, z) :- reachable(x, y), flights(y, z).
"""

SIZES = {"phone": (390, 844), "desktop": (1280, 820)}
LOOKS = [(size, scheme) for size in SIZES for scheme in ("light", "dark")]
"""What the page is looked at with: a phone and a desktop, light and dark."""

WAIT = 20_000
"""Milliseconds until something expected has to be there: the machine may be busy."""


@dataclass
class Served:
    """A database and the process that serves it."""

    path: Path
    token: str | None = None
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    client: httpx.Client = field(init=False)

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Starts the server, again on the same port."""
        arguments = ["--db", str(self.path), "--engine", "sail", "serve", "--port", str(self.port), "--rate", "500"]
        if self.token is not None:
            arguments += ["--token", self.token]
        log = self.path.parent / "server.log"
        with log.open("w") as written:
            source = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
            self.process = subprocess.Popen(
                [sys.executable, "-c", "from viewkeeper.cli import main; main()", *arguments],
                env=clean_environment(PYTHONPATH=source),
                stdout=subprocess.DEVNULL,
                stderr=written,
            )
        until = time.monotonic() + 120
        while not (serving := [line for line in log.read_text().splitlines() if '"serving"' in line]):
            assert self.process.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        self.port = urlsplit(json.loads(serving[0])["url"]).port or 0
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        self.client = httpx.Client(base_url=self.url + "api/v1/", headers=headers, timeout=60, trust_env=False)

    def stop(self, *, kill: bool = False) -> None:
        """Ends the server: gracefully, or not."""
        if self.process is None:
            return
        self.client.close()
        if kill:
            self.process.kill()
        else:
            self.process.terminate()
        self.process.wait(60)
        self.process = None

    def get(self, path: str, **query: Any) -> Any:
        """The answer of a call."""
        answer = self.client.get(path, params=query)
        answer.raise_for_status()
        return answer.json()

    def sql(self, text: str) -> Any:
        """The commit of some statements that another client sends."""
        answer = self.client.post("sql", json={"sql": text})
        answer.raise_for_status()
        return answer.json()["commit"]

    def rows(self, name: str, as_of: int | None = None) -> list[list[str]]:
        """The rows of a relation as texts, sorted."""
        query = {} if as_of is None else {"as_of": as_of}
        return sorted([str(value) for value in row] for row in self.get(f"views/{name}/rows", **query)["rows"])


def make_shop(path: Path) -> None:
    """A database with views over views, recursion, a rule and assertions."""
    with vk.connect(path, engine="sail", durability="process") as db:
        db.sql(SHOP)
        db.datalog(REACHABLE)
        db.sql("DELETE FROM flights WHERE src = 'BER'; INSERT INTO flights VALUES ('FRA', 'LIS')")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that others are copies of."""
    path = tmp_path_factory.mktemp("template") / "lake"
    make_shop(path)
    return path


@contextlib.contextmanager
def served(template: Path, directory: Path, token: str | None = None) -> Iterator[Served]:
    """A server of a copy of the template."""
    shutil.copytree(template, directory / "lake")
    made = Served(directory / "lake", token)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def server(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server for the tests of a module."""
    with served(template, tmp_path_factory.mktemp("served")) as made:
        yield made


@pytest.fixture(scope="session")
def chromium() -> str:
    """Where Chromium is. These tests are never skipped."""
    found = shutil.which("chromium") or "/usr/bin/chromium"
    if not Path(found).exists():
        pytest.fail(
            "the tests of the page need Chromium: run `make chromium`, or `apt-get install chromium` on Debian",
            pytrace=False,
        )
    return found


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """One Chromium for the tests of a module."""
    with sync_playwright() as playwright:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        started = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield started
        started.close()


@dataclass
class Window:
    """A page in the browser, and what went wrong in it."""

    page: Page
    errors: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def check(self, *allowed: str) -> None:
        """No error was logged, but for those of the browser itself that are allowed; nobody else was asked."""
        left = [each for each in self.errors if not any(part in each for part in allowed)]
        assert not left, left
        assert self.hosts <= {"127.0.0.1"}, self.hosts


Opening = Callable[..., Window]


@pytest.fixture
def window(browser: Browser) -> Iterator[Opening]:
    """Opens pages: of a size, light or dark."""
    contexts: list[BrowserContext] = []

    def open_window(url: str, size: str = "desktop", scheme: str = "light", motion: str = "no-preference") -> Window:
        width, height = SIZES[size]
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,  # type: ignore[arg-type]
            reduced_motion=motion,  # type: ignore[arg-type]
            has_touch=size == "phone",
        )
        contexts.append(context)
        context.set_default_timeout(WAIT)
        opened = Window(context.new_page())

        def log(message: Any) -> None:
            if message.type in ("error", "warning"):
                opened.errors.append(f"{message.type}: {message.text}")

        opened.page.on("console", log)
        opened.page.on("pageerror", lambda error: opened.errors.append(f"uncaught: {error}"))
        opened.page.on("request", lambda request: opened.hosts.add(urlsplit(request.url).hostname or ""))
        opened.page.goto(url)
        return opened

    yield open_window
    for context in contexts:
        context.close()


@pytest.fixture(params=LOOKS, ids=["-".join(look) for look in LOOKS])
def look(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A size and a color scheme."""
    size, scheme = request.param
    return size, scheme
