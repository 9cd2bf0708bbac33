"""The threads of a server: one commits, some read; the event loop itself never waits for the engine."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from viewkeeper.engine.running import statement
from viewkeeper.server.http_problems import Problem
from viewkeeper.server.server_settings import ServerLimits

T = TypeVar("T")


class Workers:
    """Runs work of calls in threads: changes one after the other, questions side by side."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._committing = ThreadPoolExecutor(1, "viewkeeper-committing")
        self._reading = ThreadPoolExecutor(limits.readers, "viewkeeper-reading")
        self._deriving = ThreadPoolExecutor(limits.readers, "viewkeeper-deriving")
        self._waiting = 0
        self._lock = threading.Lock()

    async def read(self, work: Callable[[], T]) -> T:
        """The result of work that changes nothing."""
        return await self._run(self._reading, work)

    async def commit(self, work: Callable[[], T]) -> T:
        """The result of work that may commit. It goes on if the caller does not wait for it any longer."""
        return await self._run(self._committing, work)

    async def derive(self, work: Callable[[], T]) -> T:
        """The result of work for a stream: as many of these wait as there are streams."""
        context = contextvars.copy_context()
        try:
            coming = self._deriving.submit(context.run, self._limited, work)
        except RuntimeError:
            raise Problem("stopping", "the server is stopping") from None
        return await asyncio.wrap_future(coming)

    async def _run(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        with self._lock:
            if self._waiting >= self._limits.waiting:
                raise Problem(
                    "busy", "too many calls wait already", hint="try again in a second", headers={"Retry-After": "1"}
                )
            self._waiting += 1
        context = contextvars.copy_context()
        try:
            coming = pool.submit(context.run, self._limited, work)
        except RuntimeError:
            self._done()
            raise Problem("stopping", "the server is stopping") from None
        coming.add_done_callback(lambda _: self._done())
        return await asyncio.wrap_future(coming)

    def _limited(self, work: Callable[[], T]) -> T:
        """The result of work that is ended by the time limit of statements."""
        with statement(self._limits.statement_seconds):
            return work()

    def _done(self) -> None:
        with self._lock:
            self._waiting -= 1

    def close(self) -> None:
        """Waits for what is running; what has not begun is left."""
        for pool in (self._committing, self._reading, self._deriving):
            pool.shutdown(wait=True, cancel_futures=True)
