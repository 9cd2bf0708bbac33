"""viewkeeper serve and viewkeeper token, as users type them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

import viewkeeper as vk
from tests.processes import clean_environment
from tests.server.conftest import SHOP
from viewkeeper.cli import cli


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verb") / "lake"
    with vk.connect(path, engine="sail", durability="process") as db:
        db.sql(SHOP)
    return path


def run(place: Path, *words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["--db", str(place), *words], prog_name="viewkeeper", env={"VIEWKEEPER_TOKEN": ""})
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


class Process:
    """A server in a process of its own."""

    def __init__(self, place: Path, *words: str, **environment: str) -> None:
        call = [sys.executable, "-m", "tests.server.serve_program", "--db", str(place), "serve", "--port", "0", *words]
        root = Path(__file__).parents[2]
        env = clean_environment(**environment)
        self.process = subprocess.Popen(call, cwd=root, env=env, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.first = json.loads(self.process.stderr.readline())
        self.url = self.first["url"]

    def end(self, number: int) -> tuple[int, list[dict[str, object]]]:
        self.process.send_signal(number)
        _, text = self.process.communicate(timeout=30)
        return self.process.returncode, [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def process(place: Path) -> Iterator[Process]:
    made = Process(place, VIEWKEEPER_TOKEN="from-the-environment")
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_starts_answers_and_ends_cleanly(process: Process, number: int) -> None:
    assert process.first["event"] == "serving"
    assert process.first["tokens"] is True
    bearer = {"Authorization": "Bearer from-the-environment"}
    with httpx.Client(base_url=process.url, timeout=60, trust_env=False, verify=False) as client:
        assert client.get("/readyz").json()["status"] == "ok"
        assert client.get("/api/v1/tables").status_code == 401
        assert len(client.get("/api/v1/tables", headers=bearer).json()["tables"]) == 2
        with client.stream(
            "GET", "/api/v1/views/orders/changes", headers={**bearer, "Accept": "text/event-stream"}
        ) as stream:
            next(stream.iter_lines())
            code, lines = process.end(number)
    assert code == 0
    assert lines[-1]["event"] == "stopped"
    assert all({"at", "level", "event"} <= set(line) for line in lines)


def test_without_a_token_it_listens_to_this_machine_only(place: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        said = run(place, "serve", "--host", host, code=2).output
        assert "without a token the server listens to this machine only" in said
        assert "--token" in said
    assert "the token is empty" in run(place, "serve", "--host", "0.0.0.0", "--token", "", code=2).output
    assert "--ssl-certfile" in run(place, "serve", "--ssl-keyfile", os.devnull, code=2).output


def test_a_port_in_use_and_a_place_without_database(place: Path, process: Process, tmp_path: Path) -> None:
    port = process.url.rstrip("/").rpartition(":")[2]
    said = run(place, "--engine", "sail", "serve", "--port", port, code=1).output
    assert f"the server cannot listen at 127.0.0.1:{port}: Address already in use" in said
    assert "there is no database" in run(tmp_path / "nothing", "serve", code=1).output


def test_tokens_are_made_listed_and_dropped(place: Path) -> None:
    made = run(place, "token", "create", "reader", "--rights", "read")
    token = made.stdout.strip()
    assert re.fullmatch(r"vk_[A-Za-z0-9_-]{43}", token)
    assert "only once" in made.stderr
    run(place, "token", "create", "eu", "--view", "ORDERS", "--where", "region = 'EU'")
    listed = json.loads(run(place, "--format", "json", "token", "ls").stdout)
    assert [(each["name"], each["rights"], each["grants"]) for each in listed] == [
        ("eu", "read", "orders where region = 'EU'"),
        ("reader", "read", "everything"),
    ]
    assert token not in run(place, "token", "ls").output
    assert "already" in run(place, "token", "create", "reader", code=1).output
    run(place, "token", "drop", "reader")
    run(place, "token", "drop", "eu")
    assert "there is no token named 'reader'" in run(place, "token", "drop", "reader", code=1).output
    assert "there are no tokens" in run(place, "token", "ls").output


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["../x"], 1, "cannot be the name of a token"),
        (["a b"], 1, "cannot be the name of a token"),
        (["x", "--rights", "all"], 2, "Invalid value"),
        (["x", "--where", "true"], 2, "--where needs a --view"),
        (["x", "--view", "orders", "--rights", "write"], 2, "a token for single views reads them"),
        (["x", "--view", "order"], 1, "did you mean 'orders'?"),
        (["x", "--view", "orders", "--where", "1=1) OR (1=1"], 1, "is not expected here"),
        (["x", "--view", "orders", "--where", "word = 1"], 1, "there is no column 'word'"),
        (["x", "--view", "orders", "--where", "id IN (SELECT id FROM secrets)"], 1, "a query inside"),
        (["x", "--view", "orders", "--where", "reflect('a', 'b') = 1"], 2, "cannot be called over HTTP"),
        (["x", "--view", "orders", "--view", "big", "--where", "true"], 2, "one --where for each --view"),
    ],
)
def test_mistakes_with_tokens(place: Path, words: list[str], code: int, said: str) -> None:
    assert said in run(place, "token", "create", *words, code=code).output
    assert "there are no tokens" in run(place, "token", "ls").output


def test_drop_of_a_path(place: Path) -> None:
    run(place, "token", "drop", "../ledger/000000000001", code=1)
    assert (place / "ledger" / "000000000001.json").exists()
