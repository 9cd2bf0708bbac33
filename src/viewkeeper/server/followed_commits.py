"""Commits for those who follow them: each once, in order, whichever process made it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from viewkeeper.api.database import Database
from viewkeeper.catalog.state import State
from viewkeeper.errors import ViewkeeperError
from viewkeeper.server.commit_documents import RecentCommits, entry_document
from viewkeeper.server.relation_documents import graph_levels
from viewkeeper.server.row_counts import RowCounts

LOOK_SECONDS = 0.1
"""Seconds between two looks at the ledger."""

MOST_WAITING = 200
"""Commits that wait for one follower; of more, the oldest are dropped."""


class FollowedCommits:
    """Hands commits to followers. Looks at the ledger only while there are some."""

    def __init__(self, db: Database, counts: RowCounts, recent: RecentCommits) -> None:
        self._db = db
        self._counts = counts
        self._recent = recent
        self._followers: set[asyncio.Queue[dict[str, Any]]] = set()
        self._wake = asyncio.Event()

    @contextlib.contextmanager
    def follow(self) -> Any:
        """A queue of the commits from now on."""
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._followers.add(queue)
        self._wake.set()
        try:
            yield queue
        finally:
            self._followers.discard(queue)

    async def run(self) -> None:
        """Hands out new commits, again and again."""
        epoch: int | None = None
        while True:
            if not self._followers:
                epoch = None
                self._wake.clear()
                await self._wake.wait()
            try:
                epoch, found = await asyncio.to_thread(self._after, epoch)
            except ViewkeeperError:
                found = []  # the ledger cannot be read just now
            for document in found:
                for queue in self._followers:
                    if queue.qsize() >= MOST_WAITING:
                        queue.get_nowait()
                    queue.put_nowait(document)
            await asyncio.sleep(LOOK_SECONDS)

    def _after(self, epoch: int | None) -> tuple[int, list[dict[str, Any]]]:
        store = self._db.store
        state = store.refresh()
        found: list[dict[str, Any]] = []
        if epoch is None or state.epoch <= epoch:
            return state.epoch, found
        names = {relation.id: relation.name for relation in state.relations.values()}
        hidden = {relation.id for relation in state.relations.values() if relation.is_hidden}
        for entry in store.ledger.entries(state.number):
            if entry["kind"] != "commit":
                continue
            if entry["epoch"] <= epoch or len(found) >= MOST_WAITING:
                break
            document = entry_document(entry, names, hidden, self._counts, self._recent)
            warned = entry.get("warned", {})
            document |= {
                "type": "commit",
                "levels": _levels(state, [key for key in entry.get("files", {}) if key not in hidden]),
                "warnings": [f"{name}: {count} violating" for name, count in warned.items()],
            }
            found.append(document)
        return state.epoch, found[::-1]


def _levels(state: State, changed: list[str]) -> list[list[str]]:
    """The names of changed relations, level by level of the dependency graph."""
    levels = graph_levels(state)
    by_level: dict[int, list[str]] = {}
    for key in changed:
        if key in state.relations:
            by_level.setdefault(levels.get(key, 0), []).append(state.relations[key].name)
    return [by_level[number] for number in sorted(by_level)]
