"""The log of a server: JSON lines on stderr, one per request, in which no token ever stands."""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
import sys
import traceback
from typing import Any, TextIO
from urllib.parse import parse_qsl

from viewkeeper.server.access_tokens import PREFIX

SHOWN_PARAMETERS = ("as_of", "limit", "since", "until", "before", "snapshot", "every", "precision", "offset", "live")
"""Parameters whose values are logged; of all others only the name is."""

_TOKENS = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{16,}}|(?i:bearer[ .=:+]+)\S+")


class RequestLog:
    """Writes lines. `secret` is the token of the server itself, which may look like anything."""

    def __init__(self, secret: str | None, out: TextIO | None = None) -> None:
        self._secret = secret
        self._out = out

    def clean(self, text: str) -> str:
        """A text without tokens."""
        if self._secret:
            text = text.replace(self._secret, "***")
        return _TOKENS.sub("***", text)

    def query(self, text: str) -> str:
        """A query string: the values of known parameters, the names of all others."""
        parts = parse_qsl(text, keep_blank_values=True, errors="replace")
        shown = [f"{name}={value}" if name in SHOWN_PARAMETERS else name for name, value in parts[:50]]
        return self.clean("&".join(shown))

    def write(self, level: str, event: str, **members: Any) -> None:
        """Writes one line; every text in it is cleaned."""
        at = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        document = {"at": at, "level": level, "event": event}
        document |= {name: self._cleaned(value) for name, value in members.items() if value is not None}
        out = self._out or sys.stderr
        out.write(json.dumps(document, ensure_ascii=True, default=str) + "\n")
        out.flush()

    def _cleaned(self, value: Any) -> Any:
        return self.clean(value) if isinstance(value, str) else value

    def failure(self, event: str, problem: BaseException, **members: Any) -> None:
        """Writes an exception with its traceback."""
        trace = "".join(traceback.format_exception(problem))[-8_000:]
        self.write("error", event, problem=f"{type(problem).__name__}: {problem}", trace=trace, **members)


class LogHandler(logging.Handler):
    """Sends the records of libraries to the log."""

    def __init__(self, log: RequestLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record as a line."""
        trace = None
        if record.exc_info and record.exc_info[1] is not None:
            trace = "".join(traceback.format_exception(record.exc_info[1]))[-8_000:]
        self._log.write(record.levelname.lower(), record.name, message=record.getMessage(), trace=trace)
