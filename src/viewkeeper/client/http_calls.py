"""Calls of a server: one request, its answer, and the error that a problem stands for."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any

from viewkeeper import errors
from viewkeeper.errors import Gone, StorageError, ViewkeeperError

KINDS: dict[str, type[ViewkeeperError]] = {
    "sql": errors.SqlError,
    "datalog": errors.DatalogError,
    "not-maintainable": errors.NotMaintainable,
    "constraint-violation": errors.ConstraintViolation,
    "assertion-violated": errors.AssertionViolated,
    "rule-loop": errors.RuleLoop,
    "conflict": errors.Conflict,
    "gone": errors.Gone,
    "not-found": errors.NotFound,
    "already-exists": errors.AlreadyExists,
    "type-mismatch": errors.TypeMismatch,
    "storage": errors.StorageError,
    "statement-timeout": errors.StatementTimeout,
    "engine-unavailable": errors.SessionLost,
    "engine": errors.EngineError,
    "internal": errors.InternalError,
}
"""The class of an error by the code of its problem."""

PASSING = (408, 429, 502, 503, 504)
"""Statuses of answers after which the same request may succeed a little later."""


class Unreachable(StorageError):
    """The server cannot be reached, or broke the connection off."""


class Refused(ViewkeeperError):
    """What the server refuses by itself: a missing token or right, a limit. `code` says which."""

    code: str = ""


class Calls:
    """Makes requests to one server."""

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise errors.SqlError(f"'{url}' is not the address of a server", hint="use for instance http://host:8780")
        self.url = url.rstrip("/")
        self._host, self._port = parts.hostname, parts.port
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._base = parts.path.rstrip("/")
        self._token = token
        self._timeout = timeout

    def path(self, *parts: str, **query: Any) -> str:
        """The path of a call; values that are None are left out."""
        given = {name: _shown(value) for name, value in query.items() if value is not None}
        text = "/".join(urllib.parse.quote(part, safe="") for part in parts)
        return f"{self._base}/api/v1/{text}" + (f"?{urllib.parse.urlencode(given)}" if given else "")

    def call(self, method: str, path: str, accept: str, body: Any = None) -> tuple[str, bytes, Mapping[str, str]]:
        """The answer of a call: its type, its body and its headers. Raises the error that a problem stands for."""
        with self.opened(method, path, {"Accept": accept}, body) as answer:
            try:
                found = answer.read()
            except (OSError, http.client.HTTPException) as problem:
                raise self.unreachable(problem) from problem
            return str(answer.headers.get_content_type()), found, dict(answer.headers.items())

    @contextlib.contextmanager
    def opened(
        self, method: str, path: str, headers: Mapping[str, str], body: Any = None, timeout: float | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """An answer whose body is still to be read."""
        seconds = self._timeout if timeout is None else timeout
        connection: http.client.HTTPConnection
        if self._tls is not None:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=seconds, context=self._tls)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=seconds)
        given = dict(headers)
        if self._token is not None:
            given["Authorization"] = f"Bearer {self._token}"
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            given["Content-Type"] = "application/json"
        try:
            try:
                connection.request(method, path, content, given)
                answer = connection.getresponse()
                failed = answer.read() if answer.status >= 400 else b""
            except (OSError, http.client.HTTPException) as problem:
                raise self.unreachable(problem) from problem
            if answer.status >= 400:
                raise error_of(answer.status, failed)
            yield answer
        finally:
            connection.close()

    def unreachable(self, problem: Exception) -> Unreachable:
        """The error for a connection that failed."""
        slow = isinstance(problem, (TimeoutError, socket.timeout))
        return Unreachable(
            f"the server at {self.url} cannot be reached",
            detail="it did not answer in time" if slow else str(problem) or type(problem).__name__,
            hint="is `viewkeeper serve` running there?",
        )


def error_of(status: int, body: bytes) -> ViewkeeperError:
    """The error that a problem document stands for."""
    try:
        document = json.loads(body)
    except ValueError:
        document = {}
    return error_from(document if isinstance(document, dict) else {}, status)


def error_from(document: Mapping[str, Any], status: int = 0) -> ViewkeeperError:
    """The same for a document that was read."""
    code = str(document.get("code", ""))
    message = str(document.get("detail") or f"the server answered with status {status}")
    place = document.get("place")
    detail = f"at line {place['line']}, column {place['column']}: {place['text']}" if place else None
    hint = document.get("hint")
    if code not in KINDS:
        refused = (Unreachable if status in PASSING else Refused)(message, detail=detail, hint=hint)
        if isinstance(refused, Refused):
            refused.code = code
        return refused
    if status in PASSING:
        return Unreachable(message, detail=detail, hint=hint)
    found = KINDS[code](message, detail=detail, hint=hint)
    if isinstance(found, Gone):
        found.oldest = int(document.get("oldest", 0))
    return found


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
