"""Webhooks: one POST of a JSON document for a firing of a detached rule.

What a receiver needs to tell repeated and forged documents: `Idempotency-Key` is the same at every attempt, and
`Viewkeeper-Signature` is the HMAC with SHA-256, by the rule's secret, of `Viewkeeper-Timestamp`, a full stop and the
body. An address is resolved once, checked, and exactly that address is connected to. Redirects are not followed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import hmac
import http.client
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import SplitResult, urlsplit

import pyarrow as pa

from viewkeeper.algebra.json_values import to_json
from viewkeeper.catalog.active_rules import Action, ActiveRule, Waiting
from viewkeeper.errors import ViewkeeperError
from viewkeeper.log.storage import now
from viewkeeper.rules.transitions import Transition, in_order

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_EMBEDDING = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
"""Networks of IPv6 whose addresses stand for one of IPv4, in their last four bytes."""


class WebhookFailed(ViewkeeperError):
    """A webhook was not delivered."""


def firing_key(firing: Waiting) -> str:
    """The idempotency key of a firing."""
    return f"{firing.rule}-{firing.epoch}"


# the document -------------------------------------------------------------------------------------


def document(rule: ActiveRule, firing: Waiting, transition: Transition) -> bytes:
    """The document for a firing, the same at every attempt."""
    updated = in_order(transition.new)
    body = {
        "rule": rule.name,
        "epoch": firing.epoch,
        "committed_at": dt.datetime.fromtimestamp(firing.at, dt.UTC).isoformat(),
        "inserted": _objects(transition.inserted, in_order(transition.inserted)),
        "deleted": _objects(transition.deleted, in_order(transition.deleted)),
        "old": _objects(transition.old, updated),
        "new": _objects(transition.new, updated),
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _objects(rows: pa.Table, order: Iterable[int]) -> list[dict[str, Any]]:
    """Rows as JSON objects; a parameter of the rule is a member with its name, such as ":region"."""
    found = rows.to_pylist(maps_as_pydicts="lossy")
    return [{name: to_json(value) for name, value in found[index].items()} for index in order]


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """What the header Viewkeeper-Signature says of a document."""
    return "sha256=" + hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()


# sending ------------------------------------------------------------------------------------------


def send(action: Action, key: str, body: bytes) -> None:
    """Sends a document; raises unless the answer is a success."""
    parts = _checked_url(action.text)
    host, port = str(parts.hostname), parts.port or (443 if parts.scheme == "https" else 80)
    found = _allowed_address(host, port, action.private)
    timestamp = str(int(now()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "viewkeeper",
        "Idempotency-Key": key,
        "Viewkeeper-Timestamp": timestamp,
        "Viewkeeper-Signature": signature(action.secret, timestamp, body),
    }
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    status = _post(parts.scheme, host, port, str(found), action.timeout, path, body, headers)
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise WebhookFailed(f"{host} answered {_named(status)}, and redirects are not followed")
    raise WebhookFailed(f"{host} answered {_named(status)}")


def _named(status: int) -> str:
    """A status with its name, which is not taken from the answer: that may be any text."""
    known = {each.value: each.phrase for each in HTTPStatus}
    return f"{status} {known[status]}" if status in known else str(status)


def _checked_url(url: str) -> SplitResult:
    problem = url_problem(url)
    if problem is not None:
        raise WebhookFailed(problem)
    return urlsplit(url)


def url_problem(url: str) -> str | None:
    """Why a text cannot be the address of a webhook; None if it can."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as problem:
        return f"the address of the webhook cannot be read: {problem}"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "the address of a webhook begins with https:// or http:// and a host"
    if parts.username is not None or parts.password is not None:
        return "the address of a webhook cannot have a user or a password"
    if any(letter <= " " or letter > "~" for letter in url):
        return "the address of a webhook has a letter that must be written with %"
    return None


def _allowed_address(host: str, port: int, private: bool) -> IpAddress:
    """The address to connect to. All that the name stands for must be allowed, so that none can be slipped in."""
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as problem:
        raise WebhookFailed(f"the name {host} is not known: {problem}") from problem
    found = [ipaddress.ip_address(str(answer[4][0]).partition("%")[0]) for answer in answers]
    for address in found:
        if not private and not _is_public(address):
            raise WebhookFailed(
                f"{host} is {address}, an address of the own machine or network",
                hint="WITH (allow_private = true) allows it",
            )
    return found[0]


def _is_public(address: IpAddress) -> bool:
    """Whether an address is one of the internet at large, also in the other forms in which it can be written."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if any(address in network for network in _EMBEDDING):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return _is_public(inner)
    return address.is_global and not address.is_multicast and not address.is_reserved


def _post(
    scheme: str, host: str, port: int, address: str, seconds: float, path: str, body: bytes, headers: dict[str, str]
) -> int:
    """The status that a server answers with; it has so many seconds for everything."""
    made = _Connection(scheme, host, port, address, seconds)
    too_slow = WebhookFailed(f"{host} did not answer within {seconds:g} seconds")
    late = threading.Timer(seconds, made.give_up)
    late.daemon = True
    late.start()
    try:
        made.request("POST", path, body, headers)
        status = made.getresponse().status
        if made.too_late:  # what was read of the answer may not be all
            raise too_slow
        return status
    except (OSError, http.client.HTTPException) as problem:
        if made.too_late or isinstance(problem, TimeoutError):
            raise too_slow from problem
        raise WebhookFailed(f"{host} cannot be reached: {str(problem) or type(problem).__name__}") from problem
    finally:
        late.cancel()
        made.close()


class _Connection(http.client.HTTPConnection):
    """A connection to an address that was chosen before; a certificate must be that of the host's name."""

    def __init__(self, scheme: str, host: str, port: int, address: str, seconds: float) -> None:
        super().__init__(host, port, timeout=seconds)
        self.default_port = 443 if scheme == "https" else 80  # left out of the header Host
        self.too_late = False
        self._address = address
        self._context = ssl.create_default_context() if scheme == "https" else None

    def connect(self) -> None:
        """Connects to the address."""
        plain = socket.create_connection((self._address, self.port), self.timeout)
        self.sock = plain
        if self._context is not None:
            self.sock = self._context.wrap_socket(plain, server_hostname=self.host)

    def give_up(self) -> None:
        """Ends a connection whose server answers too slowly."""
        self.too_late = True
        with contextlib.suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)
