"""The ledger: numbered entries, each created exclusively. The single atomic point of every commit.

An entry is one line of JSON with its checksum. A commit carries an epoch; maintenance (files replaced by others with
the same contents) carries none. Every hundredth entry is followed by a snapshot of the whole state.
"""

from __future__ import annotations

import contextlib
import json
import uuid
import zlib
from collections.abc import Iterator
from typing import Any

from viewkeeper.engine.settings import Settings
from viewkeeper.errors import StorageError
from viewkeeper.store.state import State
from viewkeeper.store.storage import Storage, now

FORMAT = 2
"""The newest format this version reads and writes.

1: tables. 2: views. An entry or snapshot without views keeps format 1, so that a database without views stays
readable by versions that have none; those must not touch one with views, because they would leave them untrue.
"""

SNAPSHOT_EVERY = 100


class Ledger:
    """Reads and appends entries under `ledger/`."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    @staticmethod
    def entry_path(number: int) -> str:
        """Where entry `number` is."""
        return f"ledger/{number:012d}.json"

    @staticmethod
    def snapshot_path(number: int) -> str:
        """Where the snapshot after entry `number` is."""
        return f"ledger/{number:012d}.snapshot.json"

    def create(self, settings: Settings, keep: float) -> None:
        """Writes entry 1, which makes the database. If another process was faster, its entry stands."""
        body = {"kind": "create", "number": 1, "at": now(), "settings": settings.to_json(), "keep": keep}
        self.storage.create(self.entry_path(1), _pack(body), "entry")

    def load(self) -> State | None:
        """The newest state, from the newest readable snapshot and the entries after it; None if there is no ledger."""
        numbers = sorted(
            int(listed.path.rsplit("/", 1)[-1].split(".")[0])
            for listed in self.storage.list("ledger")
            if listed.path.endswith(".snapshot.json") and not listed.path.rsplit("/", 1)[-1].startswith(".")
        )
        state: State | None = None
        for number in reversed(numbers):
            data = self.storage.read(self.snapshot_path(number))
            try:
                state = State.from_json(_unpack(data or b"", self.snapshot_path(number)))
                break
            except StorageError as damaged:
                if "newer version" in damaged.message:
                    raise
                continue  # a snapshot is derived: an older one and the entries give the same state
        if state is None:
            first = self.entry(1)
            if first is None:
                return None
            state = State.first(first)
        return self.refresh(state)

    def refresh(self, state: State) -> State:
        """The newest state, from an earlier one."""
        while (entry := self.entry(state.number + 1)) is not None:
            state = state.apply(entry)
        return state

    def entry(self, number: int) -> dict[str, Any] | None:
        """One entry, or None if it has not been made."""
        data = self.storage.read(self.entry_path(number))
        return None if data is None else _unpack(data, self.entry_path(number))

    def append(self, state: State, entry: dict[str, Any]) -> State | None:
        """Appends an entry after `state` and gives the new state; None if another writer took the number."""
        number = state.number + 1
        body = {**entry, "number": number, "at": now(), "id": uuid.uuid4().hex}
        if not self.storage.create(self.entry_path(number), _pack(body), "entry"):
            # A store that answers too late lets its client ask again, and the second time the entry is there: ours.
            there = self.entry(number)
            if there is None or there.get("id") != body["id"]:
                return None
        after = state.apply(json.loads(json.dumps(body)))
        if number % SNAPSHOT_EVERY == 0:
            # The entry stands, so the commit has happened; a snapshot is derived and the next one will do as well.
            with contextlib.suppress(StorageError):
                self.storage.write(self.snapshot_path(number), _pack(after.to_json()), "snapshot")
        return after

    def entries(self, newest: int) -> Iterator[dict[str, Any]]:
        """Entries from the newest back to the first that is still there."""
        for number in range(newest, 0, -1):
            entry = self.entry(number)
            if entry is None:
                return
            yield entry


def _pack(body: dict[str, Any]) -> bytes:
    text = json.dumps({"format": FORMAT if _tells_of_views(body) else 1, **body}, separators=(",", ":")).encode()
    return text + b"\n" + f"{zlib.crc32(text):08x}\n".encode()


def _tells_of_views(body: dict[str, Any]) -> bool:
    """Whether an entry or a snapshot holds what versions without views cannot follow."""
    relations = [*body.get("created", ()), *body.get("relations", ())]
    return "defined" in body or "refreshed" in body or any("definition" in relation for relation in relations)


def _unpack(data: bytes, path: str) -> dict[str, Any]:
    text, _, check = data.rstrip(b"\n").rpartition(b"\n")
    if not text or check != f"{zlib.crc32(text):08x}".encode():
        raise StorageError(
            f"{path} is damaged: its checksum does not match",
            detail="the ledger cannot be read past it",
            hint="restore this file from a backup; the other files are not affected",
        )
    body: dict[str, Any] = json.loads(text)
    if body["format"] > FORMAT:
        raise StorageError(
            f"the database was written by a newer version of Viewkeeper (ledger format {body['format']})",
            detail=f"this version reads format {FORMAT}; {path} has {body['format']}",
            hint="upgrade: pip install --upgrade viewkeeper",
        )
    return body
