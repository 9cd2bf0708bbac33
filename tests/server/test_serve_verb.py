"""viewkeeper serve and viewkeeper token, as users type them."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

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


class Collector(ThreadingHTTPServer):
    """Takes spans as an OpenTelemetry collector does."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        super().__init__(("127.0.0.1", 0), CollectorCall)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class CollectorCall(BaseHTTPRequestHandler):
    """One call of an exporter."""

    server: Collector

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.server.services |= {
                each.value.string_value for each in resource.resource.attributes if each.key == "service.name"
            }
            self.server.spans += [span for scope in resource.scope_spans for span in scope.spans]
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def test_spans_reach_a_collector(place: Path) -> None:
    with Collector() as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        made = Process(place, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
        with httpx.Client(base_url=made.url, timeout=60, trust_env=False) as client:
            assert client.get("/api/v1/views/orders/rows", params={"where": "id = 1"}).status_code == 200
            assert client.get("/api/v1/views/nothing/rows").status_code == 404
        assert made.end(signal.SIGTERM)[0] == 0
        collector.shutdown()
    assert collector.services == {"viewkeeper"}
    assert [span.name for span in collector.spans] == ["GET /api/v1/views/{name}/rows"] * 2
    statuses = [
        each.value.int_value
        for span in collector.spans
        for each in span.attributes
        if each.key == "http.response.status_code"
    ]
    assert statuses == [200, 404]
    assert not re.search(r"id.{1,5}1", str([span.attributes for span in collector.spans]))


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
