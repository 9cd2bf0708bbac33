"""Webhooks: what they are sent, how it is signed, what is a failure, and which addresses are refused."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import viewkeeper as vk
from tests.rules.receiver import Receiver, receiver
from tests.rules.test_detached import TABLES, committed, ended, logged, outcomes, wait_until
from viewkeeper.catalog.active_rules import WEBHOOK, Action
from viewkeeper.rules import webhooks

Connect = Callable[..., vk.Database]


QUICK = vk.Tuning(retry_seconds=0.02, action_attempts=3)


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


@pytest.mark.spark_long
def test_one_document_for_a_firing_with_its_key(db: vk.Database, hook: Receiver) -> None:
    db.sql(TABLES)
    db.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    db.sql(f"CREATE RULE w DETACHED ON t WHEN INSERTED OR DELETED OR UPDATED DO {hook.action('/a?b=c')}")
    with db.transaction() as tx:
        tx.delete("t", [(1, 1)])
        tx.upsert("t", [(2, 20), (4, 4), (3, None)])
    assert tx.commit_info is not None
    assert db.wait_for_rules()
    (got,) = hook.received
    (rule,) = db._store.state.rules
    assert got.path == "/a?b=c"
    assert got.headers["Content-Type"] == "application/json"
    assert got.headers["Host"] == f"127.0.0.1:{hook.port}"
    assert got.key == f"{rule}-{tx.commit_info.epoch}"
    assert got.json == {
        "rule": "w",
        "epoch": tx.commit_info.epoch,
        "committed_at": tx.commit_info.committed_at.isoformat(),
        "inserted": [{"a": 3, "b": None}, {"a": 4, "b": 4}],
        "deleted": [{"a": 1, "b": 1}],
        "old": [{"a": 2, "b": 2}],
        "new": [{"a": 2, "b": 20}],
    }
    assert db.epoch == tx.commit_info.epoch  # an end without changes makes no epoch
    assert outcomes(db) == [("w", "done")]


def test_values_of_all_types_are_json(db: vk.Database, hook: Receiver) -> None:
    db.sql(
        """CREATE TABLE v (s STRING, d DECIMAL(10,2), t TIMESTAMP, y DATE, x BINARY, f DOUBLE, l ARRAY<INT>,
        m MAP<STRING, INT>, r STRUCT<a: INT, b: STRING>)"""
    )
    db.sql(f"CREATE RULE w DETACHED ON (SELECT s, d, t, y, x, f, l, r FROM v) DO {hook.action()}")
    db.sql(
        """INSERT INTO v SELECT 'é"', 1.50, TIMESTAMP '2026-01-02 03:04:05', DATE '2026-01-02', X'00FF',
        CAST('NaN' AS DOUBLE), array(1, 2), map('k', 1), named_struct('a', 1, 'b', NULL)"""
    )
    assert db.wait_for_rules()
    ((row,),) = [each.json["inserted"] for each in hook.received]
    assert row["s"] == 'é"'
    assert row["d"] == "1.50"
    assert row["t"].startswith("2026-01-02T03:04:05")
    assert (row["y"], row["x"], row["f"], row["l"]) == ("2026-01-02", "00ff", "NaN", [1, 2])
    assert row["r"] == {"a": 1, "b": None}


@pytest.mark.spark_long
def test_the_signature_covers_the_time_and_the_body(db: vk.Database, hook: Receiver) -> None:
    db.sql(TABLES)
    text = f"CREATE RULE w DETACHED ON t DO {hook.action(options=', secret = ' + repr('s3cret words'))}"
    assert db.sql(text).remarks == []
    db.sql("INSERT INTO t VALUES (1, 1)")
    assert db.wait_for_rules()
    (got,) = hook.received
    signed = got.headers["Viewkeeper-Timestamp"].encode() + b"." + got.body
    assert got.headers["Viewkeeper-Signature"] == (
        "sha256=" + hmac.new(b"s3cret words", signed, hashlib.sha256).hexdigest()
    )
    assert abs(int(got.headers["Viewkeeper-Timestamp"]) - time.time()) < 60


@pytest.mark.spark_long
def test_a_secret_is_shown_once_if_it_was_made_and_never_if_it_was_given(db: vk.Database, hook: Receiver) -> None:
    db.sql(TABLES)
    (remark,) = db.sql(f"CREATE RULE made DETACHED ON t DO {hook.action('/made')}").remarks
    made = remark.split("documents is ")[1].split(":")[0]
    assert len(made) == 64
    db.sql(f"CREATE RULE given DETACHED ON t DO {hook.action('/given', ', secret = ' + repr('hush-hush'))}")
    db.sql("INSERT INTO t VALUES (1, 1)")
    assert db.wait_for_rules()
    (got,) = hook.at("/made")
    assert got.headers["Viewkeeper-Signature"] == webhooks.signature(
        made, got.headers["Viewkeeper-Timestamp"], got.body
    )
    shown = [str(db.sql(f"SHOW {what}").rows()) for what in ("RULES", "RULE FIRINGS", "COMMITS", "TABLES", "VIEWS")]
    shown += [str(db.history()), str(db.ls(hidden=True)), str(db.rule_firings()), repr(db._store.state.rules)]
    shown += [rule.text for rule in db._store.state.rules.values()]
    assert not [text for text in shown if made in text or "hush-hush" in text]


@pytest.mark.spark_long
def test_an_activation_is_named_in_its_rows_and_its_condition_is_its_own(db: vk.Database, hook: Receiver) -> None:
    db.sql(TABLES)
    condition = "EXISTS (SELECT * FROM inserted WHERE a < 5 AND :x < 3)"
    db.sql(
        f"""CREATE RULE w (x INT) DETACHED ON (SELECT * FROM t WHERE b > :x) WHEN INSERTED IF ({condition})
        DO {hook.action()}"""
    )
    db.sql("ACTIVATE RULE w (1); ACTIVATE RULE w (2); ACTIVATE RULE w (3); INSERT INTO t VALUES (1, 2), (2, 9)")
    assert db.wait_for_rules()
    (got,) = hook.received
    assert got.json["inserted"] == [
        {":x": 1, "a": 1, "b": 2},
        {":x": 1, "a": 2, "b": 9},
        {":x": 2, "a": 2, "b": 9},
    ]
    db.sql("INSERT INTO t VALUES (7, 9)")
    assert db.wait_for_rules()
    assert len(hook.received) == 1
    assert outcomes(db) == [("w", "condition not met"), ("w", "done")]


@pytest.mark.spark_long
def test_every_attempt_has_the_same_key_and_body(connect: Connect, hook: Receiver) -> None:
    db = connect(tuning=QUICK)
    db.sql(TABLES)
    hook.answers["/hook"] = [500, 503]
    db.sql(f"CREATE RULE w DETACHED ON t DO {hook.action()}; INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    ended(db)
    assert len(hook.received) == 3
    assert len({(each.key, each.body) for each in hook.received}) == 1
    assert outcomes(db) == [("w", "done")]


@pytest.mark.spark_long
@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (500, "127.0.0.1 answered 500 Internal Server Error"),
        (404, "127.0.0.1 answered 404 Not Found"),
        (302, "127.0.0.1 answered 302 Found, and redirects are not followed"),
        (307, "127.0.0.1 answered 307 Temporary Redirect, and redirects are not followed"),
        (799, "127.0.0.1 answered 799"),
    ],
)
def test_everything_but_a_success_is_a_failure_with_its_reason(
    connect: Connect, hook: Receiver, status: int, reason: str
) -> None:
    db = connect(tuning=vk.Tuning(action_attempts=1))
    db.sql(TABLES)
    hook.answers["/hook"] = [status]
    db.sql(f"CREATE RULE w DETACHED ON t DO {hook.action()}; INSERT INTO t VALUES (1, 1)")
    ended(db)
    assert outcomes(db) == [("w", f"parked: {reason}")]
    assert len(hook.received) == 1


@pytest.mark.spark_long
def test_parked_firings_are_repeated_and_later_ones_are_not_held(connect: Connect, hook: Receiver) -> None:
    db = connect(tuning=QUICK)
    db.sql(TABLES)
    hook.answers["/hook"] = [500, 500, 500]
    db.sql(f"CREATE RULE w DETACHED ON t DO {hook.action()}")
    first = committed(db, "INSERT INTO t VALUES (1, 1)")
    db.sql("INSERT INTO t VALUES (2, 2)")
    ended(db)
    assert [each.json["epoch"] for each in hook.received] == [first, first, first, first + 1]
    reason = "parked: 3 attempts failed, the last one: 127.0.0.1 answered 500 Internal Server Error"
    assert outcomes(db) == [("w", "done"), ("w", reason)]
    db.sql("RETRY RULE w")
    ended(db)
    assert hook.received[-1].key == hook.received[0].key
    assert hook.received[-1].body == hook.received[0].body
    assert [outcome for _, outcome in outcomes(db)] == ["done", "done"]


@pytest.mark.spark_long
def test_a_poisoned_webhook_holds_neither_others_nor_commits(connect: Connect, hook: Receiver) -> None:
    db = connect(tuning=vk.Tuning(retry_seconds=3600.0))
    db.sql(TABLES)
    go = threading.Event()
    hook.pause = lambda path: path == "/slow" and go.wait(30)  # type: ignore[assignment, return-value]
    hook.answers["/broken"] = [500] * 100
    db.sql(f"CREATE RULE slow DETACHED PRIORITY 1 ON t DO {hook.action('/slow')}")
    db.sql(f"CREATE RULE broken DETACHED PRIORITY 2 ON t DO {hook.action('/broken')}")
    db.sql(f"CREATE RULE good DETACHED PRIORITY 3 ON t DO {hook.action('/good')}")
    db.sql("CREATE RULE local DETACHED PRIORITY 4 ON t DO INSERT INTO log SELECT 'local', a FROM inserted")
    for number in range(4):
        db.sql(f"INSERT INTO t VALUES ({number}, 0)")
    wait_until(lambda: len(hook.at("/good")) == 4)
    wait_until(lambda: len(logged(db)) == 4)
    assert [each.json["inserted"][0]["a"] for each in hook.at("/good")] == [0, 1, 2, 3]
    assert (len(hook.at("/slow")), len(hook.at("/broken"))) == (1, 1)
    go.set()
    wait_until(lambda: len(hook.at("/slow")) == 4)


@pytest.mark.spark_long
def test_a_server_that_answers_too_slowly_is_given_up(connect: Connect) -> None:
    db = connect(tuning=vk.Tuning(action_attempts=1))
    db.sql(TABLES)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            caller, _ = server.accept()
            with caller:
                for letter in b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000:
                    try:
                        caller.sendall(bytes([letter]))
                    except OSError:
                        return
                    time.sleep(0.02)

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        db.sql(
            f"""CREATE RULE w DETACHED ON t
            DO WEBHOOK '{url}' WITH (allow_private = true, timeout = '0.3 seconds')"""
        )
        began = time.monotonic()
        db.sql("INSERT INTO t VALUES (1, 1)")
        ended(db)
        assert time.monotonic() - began < 10
        thread.join(10)
    assert outcomes(db) == [("w", "parked: 127.0.0.1 did not answer within 0.3 seconds")]


# addresses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "169.254.169.254",
        "10.1.2.3",
        "192.168.1.1",
        "172.16.0.1",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "[::1]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "[::ffff:127.0.0.1]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "2130706433",
        "0x7f.1",
    ],
)
def test_addresses_of_the_own_machine_and_network_are_refused(host: str) -> None:
    with pytest.raises(webhooks.WebhookFailed, match="an address of the own machine or network"):
        webhooks.send(Action(WEBHOOK, f"http://{host}:9/", "s"), "key", b"{}")


@pytest.mark.parametrize(
    ("address", "public"),
    [("8.8.8.8", True), ("2001:4860:4860::8888", True), ("::ffff:8.8.8.8", True), ("240.0.0.1", False), ("::", False)],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert webhooks._is_public(webhooks.ipaddress.ip_address(address)) == public


def test_exactly_the_address_that_was_checked_is_connected_to(hook: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that stands for another address when it is asked for again does not matter: it is asked for once."""
    asked: list[str] = []
    plain = socket.getaddrinfo

    def answer(host: str, *rest: object, **more: object) -> object:
        asked.append(host)
        return plain("127.0.0.1" if host == "hook.example" else host, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    url = f"http://hook.example:{hook.port}/x"
    webhooks.send(Action(WEBHOOK, url, "s", private=True), "key", b"{}")
    assert asked.count("hook.example") == 1
    assert hook.received[0].headers["Host"] == f"hook.example:{hook.port}"
    with pytest.raises(webhooks.WebhookFailed, match=r"hook\.example is 127\.0\.0\.1, an address of the own machine"):
        webhooks.send(Action(WEBHOOK, url, "s"), "key", b"{}")


@pytest.mark.spark_long
@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://example.com/", "the address of a webhook begins with https:// or http:// and a host"),
        ("https:///x", "the address of a webhook begins with https:// or http:// and a host"),
        ("https://a:b@example.com/", "the address of a webhook cannot have a user or a password"),
        ("https://example.com/a b", "the address of a webhook has a letter that must be written with %"),
        ("https://example.com:99999/", "the address of the webhook cannot be read: Port out of range 0-65535"),
    ],
)
def test_what_cannot_be_an_address_is_refused_when_the_rule_is_made(db: vk.Database, url: str, message: str) -> None:
    db.sql(TABLES)
    with pytest.raises(vk.errors.SqlError) as caught:
        db.sql(f"CREATE RULE w DETACHED ON t DO WEBHOOK '{url}'")
    assert caught.value.message == message


@pytest.mark.spark_long
def test_a_server_that_is_not_there_is_a_failure_with_its_reason(connect: Connect) -> None:
    db = connect(tuning=vk.Tuning(action_attempts=1))
    db.sql(TABLES)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    db.sql(f"CREATE RULE w DETACHED ON t DO WEBHOOK 'https://127.0.0.1:{port}/' WITH (allow_private = true)")
    db.sql("INSERT INTO t VALUES (1, 1)")
    ended(db)
    ((_, outcome),) = outcomes(db)
    assert outcome.startswith("parked: 127.0.0.1 cannot be reached: ")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of hook.example that signs itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hook.example")])
    today = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(today - dt.timedelta(days=1))
        .not_valid_after(today + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("hook.example")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "certificate.pem"
    form = serialization.PrivateFormat.PKCS8
    pem = serialization.Encoding.PEM
    file.write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()) + made.public_bytes(pem))
    return file


def test_a_certificate_must_be_trusted_and_of_the_name(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = socket.getaddrinfo

    def answer(host: str, *rest: object, **more: object) -> object:
        return plain("127.0.0.1", *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", answer)

    def sent(host: str) -> None:
        webhooks.send(Action(WEBHOOK, f"https://{host}:{hook.port}/", "s", private=True), "key", b"{}")

    with receiver(certificate) as hook:
        with pytest.raises(webhooks.WebhookFailed, match=r"hook\.example cannot be reached: .*self.signed certificate"):
            sent("hook.example")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with pytest.raises(webhooks.WebhookFailed, match=r"not valid for 'other\.example'"):
            sent("other.example")
        assert hook.received == []
        sent("hook.example")
        assert [each.key for each in hook.received] == ["key"]


@pytest.mark.spark_long
def test_the_ledger_alone_has_the_secret(db: vk.Database, hook: Receiver) -> None:
    """It has to be stored, because any process may have to sign; no other file of the database has it."""
    db.sql(TABLES)
    db.sql(f"CREATE RULE w DETACHED ON t DO {hook.action(options=', secret = ' + repr('only-here'))}")
    db.sql("INSERT INTO t VALUES (1, 1)")
    assert db.wait_for_rules()
    holding = {
        file.relative_to(db.path).parts[0]
        for file in Path(db.path).rglob("*")
        if file.is_file() and b"only-here" in file.read_bytes()
    }
    assert holding == {"ledger"}
    assert json.dumps(hook.received[0].json).count("only-here") == 0
