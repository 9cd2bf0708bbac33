"""A subscription over HTTP: server-sent events, read by a thread; a broken connection is resumed where it broke."""

from __future__ import annotations

import asyncio
import datetime as dt
import http.client
import json
import queue
import random
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import Any

from viewkeeper.algebra.schema import Schema
from viewkeeper.client.http_calls import Calls, Unreachable, error_from
from viewkeeper.client.row_decoding import signed_rows
from viewkeeper.errors import ViewkeeperError
from viewkeeper.feed.epoch_frames import Frame
from viewkeeper.transaction.change import Change

QUIET_SECONDS = 45.0
"""Seconds without a word from the server after which the connection counts as broken."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before the connection is made again, doubled with every failure."""

WAITING = 100
"""Frames that wait here; while there are more, the server keeps the rest."""


class RemoteSubscription:
    """Frames of one table or view. Iterate over it, or call next(); close() it, or use a `with` statement."""

    def __init__(self, calls: Calls, view: str, schema: Schema, since: int | None, asked: Mapping[str, Any]) -> None:
        self.name = view
        self.schema = schema
        self._calls = calls
        self._since = since
        self._asked = dict(asked)
        self._found: queue.Queue[Frame | int | ViewkeeperError | None] = queue.Queue(WAITING)
        self._epoch = -1 if since is None else since
        self._answer: http.client.HTTPResponse | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read, name="viewkeeper-client", daemon=True)
        self._thread.start()

    @property
    def epoch(self) -> int:
        """The epoch up to which all frames were handed out."""
        return self._epoch

    @property
    def closed(self) -> bool:
        """Whether nothing else will come."""
        return self._closed.is_set()

    def next(self, timeout: float | None = None) -> Frame | None:
        """The next frame; None when it is closed, or after so many seconds without one."""
        until = None if timeout is None else time.monotonic() + timeout
        while not self._closed.is_set():
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0 and self._found.empty():
                return None
            try:
                found = self._found.get(timeout=1.0 if left is None else min(1.0, max(left, 0.001)))
            except queue.Empty:
                continue
            if isinstance(found, ViewkeeperError):
                self.close()
                raise found
            if isinstance(found, Frame):
                self._epoch = found.epoch
                return found
            if found is not None:
                self._epoch = max(self._epoch, found)
        return None

    def __iter__(self) -> Iterator[Frame]:
        while (frame := self.next()) is not None:
            yield frame

    async def __aiter__(self) -> AsyncIterator[Frame]:
        while (frame := await asyncio.to_thread(self.next)) is not None:
            yield frame

    def close(self) -> None:
        """Ends it."""
        self._closed.set()
        answer = self._answer
        if answer is not None and answer.fp is not None:
            answer.fp.raw._sock.shutdown(2)  # type: ignore[attr-defined]  # wakes the thread that reads

    def __enter__(self) -> RemoteSubscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # the thread that reads -------------------------------------------------------------------------

    def _read(self) -> None:
        pause = FIRST_PAUSE
        while not self._closed.is_set():
            seen = self._since
            try:
                self._stream()
            except Unreachable:
                pass  # made again below
            except ViewkeeperError as problem:
                self._put(problem)
                return
            pause = FIRST_PAUSE if seen != self._since else min(pause * 2, LONGEST_PAUSE)
            self._closed.wait(pause * random.uniform(0.5, 1.0))

    def _stream(self) -> None:
        """Reads events until the connection ends."""
        path = self._calls.path("views", self.name, "changes", since=self._since, **self._asked)
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        with self._calls.opened("GET", path, headers, timeout=QUIET_SECONDS) as answer:
            self._answer = answer
            event: dict[str, str] = {}
            while not self._closed.is_set():
                try:
                    line = answer.readline()
                except (OSError, http.client.HTTPException, ValueError) as problem:
                    raise self._calls.unreachable(problem) from problem
                if not line:
                    return
                text = line.decode().rstrip("\r\n")
                if text:
                    name, _, value = text.partition(":")
                    event[name] = value.removeprefix(" ")
                    continue
                if event.get("event"):
                    self._take(event["event"], json.loads(event["data"]))
                event = {}

    def _take(self, kind: str, document: Mapping[str, Any]) -> None:
        if kind == "error":
            raise error_from(document, int(document.get("status", 0)))
        if kind == "progress":
            self._put(int(document["epoch"]))
        elif kind == "frame":
            rows = signed_rows(document["updates"], self.schema)
            at = dt.datetime.fromisoformat(document["committed_at"])
            change = Change(self.schema, lambda: rows)
            made = Frame(document["view"], document["epoch"], at, change, document["snapshot"], document["reset"])
            self._put(made)
        else:
            return
        self._since = max(int(document["epoch"]), self._since or 0)

    def _put(self, found: Frame | int | ViewkeeperError) -> None:
        while not self._closed.is_set():
            try:
                self._found.put(found, timeout=0.5)
            except queue.Full:
                continue
            return
