"""Errors as problem+json documents with stable codes. A user's mistake never has a status of 500 or more."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from viewkeeper import errors
from viewkeeper.errors import Place, ViewkeeperError

MEDIA_TYPE = "application/problem+json"

KINDS: dict[type[ViewkeeperError], tuple[int, str, str]] = {
    errors.SqlError: (400, "sql", "The SQL text cannot be used"),
    errors.DatalogError: (400, "datalog", "The Datalog text cannot be used"),
    errors.NotMaintainable: (422, "not-maintainable", "The view cannot be maintained"),
    errors.ConstraintViolation: (409, "constraint-violation", "A constraint would be violated"),
    errors.AssertionViolated: (409, "assertion-violated", "An assertion would be violated"),
    errors.RuleLoop: (409, "rule-loop", "Rules keep triggering each other"),
    errors.Conflict: (409, "conflict", "Another transaction changed what this one has read"),
    errors.Gone: (410, "gone", "The epoch is no longer kept"),
    errors.NotFound: (404, "not-found", "Not found"),
    errors.AlreadyExists: (409, "already-exists", "The name is taken"),
    errors.TypeMismatch: (422, "type-mismatch", "A value does not fit"),
    errors.StorageError: (503, "storage", "The storage did not do what was asked"),
    errors.StatementTimeout: (422, "statement-timeout", "The statement took too long"),
    errors.SessionLost: (503, "engine-unavailable", "The engine is not available"),
    errors.EngineError: (422, "engine", "The engine cannot evaluate this"),
    errors.InternalError: (500, "internal", "An internal error"),
}
"""Status, code and title of every class of errors; a class that is not listed has those of its nearest base."""

CODES: dict[str, tuple[int, str]] = {
    "bad-request": (422, "The request has not the form that is expected"),
    "unauthorized": (401, "A token is needed"),
    "forbidden": (403, "The token does not have this right"),
    "not-granted": (403, "The token does not reach this"),
    "cross-origin": (403, "The request comes from another site"),
    "wrong-host": (403, "The server is not known by this name"),
    "no-such-call": (404, "There is no such call"),
    "wrong-method": (405, "The call has another method"),
    "gone": (410, "The epoch is no longer kept"),
    "body-too-large": (413, "The body is too large"),
    "body-too-slow": (408, "The body came too slowly"),
    "too-many-rows": (422, "There are too many rows"),
    "transaction-left-open": (400, "A transaction cannot last over requests"),
    "function-refused": (403, "The function cannot be called from here"),
    "use-a-stream": (400, "Changes come as a stream"),
    "head-too-slow": (408, "The head of the request came too slowly"),
    "too-many-requests": (429, "Too many requests"),
    "too-many-connections": (429, "Too many connections"),
    "too-many-subscriptions": (429, "Too many subscriptions"),
    "busy": (503, "The server is busy"),
    "stopping": (503, "The server is stopping"),
    "internal": (500, "An internal error"),
}
"""Status and title of the codes that the server itself has."""


class Problem(Exception):
    """An answer that is a problem; `more` are further members of the document."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int | None = None,
        title: str | None = None,
        hint: str | None = None,
        place: Place | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        known = CODES.get(code, (status or 400, title or detail))
        self.code = code
        self.status = status or known[0]
        self.title = title or known[1]
        self.detail = detail
        self.hint = hint
        self.place = place
        self.headers = dict(headers or {})
        self.more = more

    def document(self) -> dict[str, Any]:
        """The members of the document."""
        return {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "hint": self.hint,
            "place": place_document(self.place),
            **self.more,
        }

    def body(self) -> bytes:
        """The document as JSON."""
        return json.dumps(self.document(), ensure_ascii=False).encode(errors="replace")


def place_document(place: Place | None) -> dict[str, Any] | None:
    """A position in the user's text: line, column, the line's text, and how much of it is marked."""
    if place is None:
        return None
    lines = place.text.split("\n")
    text = lines[place.line - 1] if place.line <= len(lines) else ""
    return {"line": place.line, "column": place.column, "text": text, "length": place.length}


def problem_of(error: ViewkeeperError, *, trusted: bool = True) -> Problem:
    """The problem for an error. Who is not `trusted` does not see the paths that errors of the storage name."""
    status, code, title = next(KINDS[kind] for kind in type(error).__mro__ if kind in KINDS or kind is ViewkeeperError)
    detail = f"{error.message} ({error.detail})" if error.detail else error.message
    hint = error.hint
    if isinstance(error, errors.StatementTimeout):
        hint = "ask for less, or have the server started with a longer --timeout"
    elif code == "engine" and error.message.startswith(_UNAVAILABLE):
        status, code, title = KINDS[errors.SessionLost]
    if status >= 500 and not trusted:
        detail, hint = title, "ask who runs the server: its log says more"
    more: dict[str, Any] = {}
    if isinstance(error, errors.Gone):
        more["oldest"] = error.oldest
    if error.statement is not None and error.statement[1] > 1:
        more["statement"] = {"number": error.statement[0], "of": error.statement[1]}
    if error.view is not None:
        more["view"] = error.view
    return Problem(code, detail, status=status, title=title, hint=hint, place=error.place, **more)


_UNAVAILABLE = ("the engine failed", "the engine at ")
"""How messages begin that tell of the engine itself, not of what it was asked."""

KINDS[ViewkeeperError] = (400, "error", "The request failed")


def gone(name: str, epoch: int, oldest: int) -> Problem:
    """The problem for an epoch that is no longer kept."""
    return Problem(
        "gone",
        f"epoch {epoch} of {name} is no longer kept",
        hint=f"the oldest kept epoch is {oldest}: take a snapshot, and go on from its epoch",
        oldest=oldest,
    )
