"""What the calls of one server share: the database, its threads, tokens, limits, metrics and log."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import TextIO

from viewkeeper.api.database import Database
from viewkeeper.engine.running import statement
from viewkeeper.errors import ViewkeeperError
from viewkeeper.server.access_tokens import ADMIN, Access, find_access, hash_of
from viewkeeper.server.commit_documents import RecentCommits
from viewkeeper.server.followed_commits import FollowedCommits
from viewkeeper.server.http_problems import Problem
from viewkeeper.server.rate_limits import ClientLimits
from viewkeeper.server.request_log import RequestLog
from viewkeeper.server.row_counts import RowCounts
from viewkeeper.server.server_metrics import ServerMetrics
from viewkeeper.server.server_settings import ServerSettings
from viewkeeper.server.statement_runs import StatementRuns
from viewkeeper.server.streams import Streams
from viewkeeper.server.token_files import LOOK_FOR_NEW_SECONDS, LOOK_SECONDS, KnownTokens
from viewkeeper.server.tracing import Tracing
from viewkeeper.server.workers import Workers
from viewkeeper.transaction.change import Commit

READY_SECONDS = 5.0
"""How long the engine may take to show that it is there."""

READY_AGAIN = 1.0
"""Seconds for which the answer of /readyz is remembered."""

OPEN = Access("nobody", ADMIN)
"""Who calls a server without tokens, which listens to this machine only."""


class Service:
    """One server's view of its database. Made before the event loop, used in it."""

    def __init__(self, db: Database, settings: ServerSettings, out: TextIO | None = None) -> None:
        self.db = db
        self.settings = settings
        self.limits = settings.limits
        self.version = version("viewkeeper")
        self.log = RequestLog(settings.token, out)
        self.metrics = ServerMetrics()
        self.tracing = Tracing()
        if self.tracing.missing is not None:
            self.log.write("warning", "no-spans", detail=self.tracing.missing)
        self.workers = Workers(settings.limits)
        self.clients = ClientLimits(settings.limits)
        self.counts = RowCounts(db.store.storage)
        self.recent = RecentCommits()
        self.runs = StatementRuns(db, settings.limits.rows, self.counts)
        self.streams = Streams(db, self.workers, self.metrics)
        self.commits = FollowedCommits(db, self.counts, self.recent)
        self._listening: dict[Callable[[], None], str | None] = {}
        self._tokens = KnownTokens(db.store.storage, settings.token)
        self._looking = asyncio.Lock()
        self._ended = db.on_commit(self._committed)
        self._ready: tuple[float, list[str]] = (-READY_AGAIN, [])

    def _committed(self, commit: Commit, seconds: float) -> None:
        self.recent.note(commit, seconds)
        self.metrics.committed(commit, seconds)

    @property
    def needs_token(self) -> bool:
        """Whether calls need a token."""
        return self._tokens.needed

    async def access(self, token: str | None) -> Access:
        """What the bearer of a token may do; raises if it is not known, or if there is none and one is needed."""
        if self._tokens.is_stale:
            await asyncio.to_thread(self._tokens.look)
        if not self._tokens.needed:
            return OPEN
        found = None if token is None else find_access(token, self._tokens.known)
        if token is not None and found is None:
            await asyncio.sleep(max(0.0, LOOK_FOR_NEW_SECONDS - self._tokens.age))
            await asyncio.to_thread(self._tokens.look, LOOK_FOR_NEW_SECONDS)
            found = find_access(token, self._tokens.known)
        if found is None:
            raise Problem(
                "unauthorized",
                "this call needs a token" if token is None else "the token is not known",
                hint="send the header Authorization: Bearer ...; `viewkeeper token create` makes tokens",
                headers={"WWW-Authenticate": 'Bearer realm="viewkeeper"'},
            )
        return found

    @contextlib.contextmanager
    def while_known(self, token: str | None, end: Callable[[], None]) -> Iterator[None]:
        """Inside this context, `end` is called once the token of a stream is dropped."""
        self._listening[end] = None if token is None else hash_of(token)
        try:
            yield
        finally:
            self._listening.pop(end, None)

    async def watch_tokens(self) -> None:
        """Ends streams whose token was dropped, again and again."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self._listening:
                continue
            await asyncio.to_thread(self._tokens.look)
            known = {each.hash for each in self._tokens.known}
            for end, wanted in list(self._listening.items()):
                if self._tokens.needed and wanted not in known:
                    end()

    async def faults(self) -> list[str]:
        """What is not ready: the engine, the log; empty if all is."""
        async with self._looking:
            at, found = self._ready
            if time.monotonic() - at >= READY_AGAIN:
                found = await asyncio.to_thread(self._look)
                self._ready = (time.monotonic(), found)
            return found

    def _look(self) -> list[str]:
        found = []
        try:
            self.metrics.epoch.set(self.db.store.refresh().epoch)
        except ViewkeeperError:
            found.append("log")
        try:
            with statement(READY_SECONDS):
                engine = self.db.store.engine
                engine.surviving(lambda: engine.fetch(engine.sql("SELECT 1 AS one")))
        except ViewkeeperError:
            found.append("engine")
        return found

    def close(self) -> None:
        """Waits for what is running."""
        self.workers.close()
        self._ended()
