"""Parts of the server on their own: problems, rates, the log, spans, TLS, and what is not ready."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import viewkeeper as vk
from tests.server.conftest import ADMIN, Served, served
from viewkeeper import errors
from viewkeeper.server.access_tokens import Access, StoredToken, find_access, hash_of, new_token
from viewkeeper.server.http_problems import CODES, KINDS, Problem, problem_of
from viewkeeper.server.rate_limits import ClientLimits
from viewkeeper.server.request_log import RequestLog
from viewkeeper.server.server_settings import ServerLimits, is_loopback


def subclasses(kind: type) -> Iterator[type]:
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


def test_every_error_has_a_status_and_a_code_of_its_own() -> None:
    public = [each for each in subclasses(errors.ViewkeeperError) if each.__module__ == "viewkeeper.errors"]
    assert set(public) <= set(KINDS)
    codes = [code for _, code, _ in KINDS.values()]
    assert len(codes) - len(set(codes)) == 0
    ours = (errors.StorageError, errors.SessionLost, errors.InternalError)
    for kind in public:
        problem = problem_of(kind("it is wrong", hint="do this", place=errors.Place("a\nbc", 2, 2)))
        assert (problem.status >= 500) == (kind in ours), kind
        assert problem.document()["place"] == {"line": 2, "column": 2, "text": "bc", "length": 1}
    for code, (status, _) in CODES.items():
        assert code == code.lower().replace("_", "-")
        assert 400 <= status < 600


def test_paths_of_the_server_are_for_its_owner() -> None:
    error = errors.StorageError("cannot read /srv/lake/ledger/1.json", detail="/srv", hint="look at /srv")
    assert "/srv" in problem_of(error).detail
    assert b"/srv" not in problem_of(error, trusted=False).body()


def test_the_rate_recovers() -> None:
    at = [0.0]
    limits = ClientLimits(ServerLimits(rate=2.0, burst=3), clock=lambda: at[0])
    for _ in range(3):
        limits.spend("a")
    with pytest.raises(Problem, match="more than 2 requests"):
        limits.spend("a")
    limits.spend("b")
    at[0] = 0.5
    limits.spend("a")
    with pytest.raises(Problem):
        limits.spend("a")


def test_tokens_are_found_by_their_hashes() -> None:
    one, other = new_token(), new_token()
    stored = [StoredToken(hash_of(each), Access(name, "read"), 0.0) for name, each in (("one", one), ("other", other))]
    found = find_access(one, stored)
    assert found is not None
    assert found.name == "one"
    assert find_access(one + "x", stored) is None
    assert find_access("\udcff", stored) is None
    again = [StoredToken.from_json(json.loads(json.dumps(each.to_json()))) for each in stored]
    assert again == stored


@pytest.mark.parametrize(
    "text",
    ["vk_" + "a" * 43, "Bearer abc.def", "bearer.abcdefgh", "x the-secret y", "%20vk_" + "b" * 43, "BEARER+zzz"],
)
def test_no_token_stands_in_the_log(text: str) -> None:
    out = io.StringIO()
    log = RequestLog("the-secret", out)
    log.write("info", "request", path=text, query=log.query(f"since={text}&where=region&token={text}"))
    try:
        raise ValueError(text)
    except ValueError as problem:
        log.failure("failure", problem)
    for secret in ("a" * 20, "abc", "the-secret", "b" * 20, "zzz"):
        assert secret not in out.getvalue().replace("traceback", "")
    for line in out.getvalue().splitlines():
        json.loads(line)


def test_names_of_this_machine() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "localhost", "::1", "[::1]", "127.8.8.8")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example", "")))


class Spans:
    """A tracer that remembers."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.attributes: dict[str, Any] = {}

    @contextlib.contextmanager
    def start_as_current_span(self, name: str, attributes: dict[str, Any]) -> Iterator[Spans]:
        self.attributes |= attributes
        yield self

    def update_name(self, name: str) -> None:
        self.names.append(name)

    def set_attribute(self, name: str, value: Any) -> None:
        self.attributes[name] = value


def test_a_request_is_a_span(serve: Callable[..., Served]) -> None:
    made, spans = serve(), Spans()
    made.running.service.tracing._tracer = spans
    with made.client() as client:
        client.get("/api/v1/views/orders/rows", params={"where": "id = 1"})
    made.stop()
    assert spans.names == ["GET /api/v1/views/{name}/rows"]
    assert spans.attributes["http.response.status_code"] == 200
    assert "id = 1" not in str(spans.attributes)


def test_not_ready_without_the_engine(serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> None:
    made = serve()
    with made.client() as client:
        assert client.get("/readyz").status_code == 200

        def fail(*_: object) -> None:
            raise errors.EngineError("the engine failed: it is gone")

        monkeypatch.setattr(made.db.store.engine, "fetch", fail)
        monkeypatch.setattr(made.db.store.engine, "collect", fail)
        monkeypatch.setattr("viewkeeper.server.service.READY_AGAIN", 0.0)
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"status": "failing", "failing": ["engine"]})
        assert client.get("/healthz").status_code == 200
        failed = client.post("/api/v1/sql", json={"sql": "SELECT * FROM orders"})
        assert (failed.status_code, failed.json()["code"]) == (503, "engine-unavailable")


def test_a_bug_is_an_internal_error_in_the_log(serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> None:
    made = serve()

    def fail(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(made.running.service.counts, "total", fail)
    with made.client() as client:
        answer = client.get("/api/v1/tables")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "a bug" not in answer.text
    made.stop()
    failure = next(line for line in made.logged() if line["event"] == "failure")
    assert "a bug" in failure["problem"]
    assert "Traceback" in failure["trace"]


def certificate(directory: Path) -> tuple[str, str]:
    """A certificate for localhost, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=1))
    signed = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False).sign(
        key, hashes.SHA256()
    )
    paths = directory / "cert.pem", directory / "key.pem"
    paths[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    return str(paths[0]), str(paths[1])


def test_tls(lake: vk.Database, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    with served(lake, ssl_certfile=cert, ssl_keyfile=key, token=ADMIN) as made:
        trusted = ssl.create_default_context(cafile=cert)
        url = made.url.replace("127.0.0.1", "localhost")
        with httpx.Client(base_url=url, verify=trusted, trust_env=False, timeout=60) as client:
            bearer = {"Authorization": f"Bearer {ADMIN}"}
            assert client.get("/api/v1/tables", headers=bearer).json()["epoch"] == 6
