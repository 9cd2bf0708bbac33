"""The ledger: numbered entries, each created exclusively. The single atomic point of every commit.

The head of an entry is one line of JSON with its checksum. It carries its number and the hash of the head before it,
so that a missing, changed, moved or copied entry is detected and never mistaken for the end of history. A commit has an
epoch; housekeeping (files replaced by others with the same contents) has none. The rows of a small commit follow the
head in the same file (`inlined.py`). Every hundredth entry is followed by a snapshot of the whole state, which is
derived: a snapshot that does not agree with the entries is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from viewkeeper.catalog.data_files import DataFile
from viewkeeper.catalog.settings import Settings
from viewkeeper.catalog.state import State
from viewkeeper.errors import StorageError
from viewkeeper.log.inlined import split_entry
from viewkeeper.log.storage import Storage, now

FORMAT = 4
"""The format that is written, and the newest that is read.

1: tables. 2: views. 3: each entry holds the hash of the one before (`before`). The chain of an older database begins
with the first entry that is added to it. An entry that a snapshot follows holds the hash of its contents (`state`).
4: expressions in definitions are trees; those of older entries are text, and are read as Opaque. Data may follow the
head of an entry, and hashes are those of heads. An earlier version would take an entry with data for a damaged one, so
there is always one of format 4 without data before, by which it sees that the format is newer.
"""

HEAD_BYTES = 64 << 10
"""The bytes that are read of an entry at first; few heads are longer."""

SNAPSHOT_EVERY = 100

LOOKS = 5
"""How often an entry that must exist is looked for, `LOOK_SECONDS` apart: a network file system may show it late."""

LOOK_SECONDS = 0.05

NEWER = "the database was written by a newer version of Viewkeeper"


class Ledger:
    """Reads and appends entries under `ledger/`."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    @staticmethod
    def entry_path(number: int) -> str:
        """The path of entry `number`."""
        return f"ledger/{number:012d}.json"

    @staticmethod
    def snapshot_path(number: int) -> str:
        """The path of the snapshot after entry `number`."""
        return f"ledger/{number:012d}.snapshot.json"

    def create(self, settings: Settings, keep: float) -> None:
        """Writes entry 1, which creates the database. If another process was faster, its entry counts."""
        body = {"kind": "create", "number": 1, "at": now(), "settings": settings.to_json(), "keep": keep, "before": ""}
        self.storage.create(self.entry_path(1), _pack(body), "entry")

    # reading -------------------------------------------------------------------------------------

    def load(self) -> State | None:
        """The newest state, from the newest valid snapshot and the entries after it; None if there is no ledger.

        Raises StorageError if an entry is missing, even one before the snapshot.
        """
        entries, snapshots = self.numbers()
        if not entries and not snapshots:
            self._check_new()
            return None
        for number in missing(entries, snapshots):
            if self._sought(number) is None:  # a listing may leave out entries added meanwhile
                raise self.lost(number, max(entries | snapshots))
        fitting = (self._snapshot(number) for number in sorted(snapshots, reverse=True))
        state = next((state for state in fitting if state is not None), None)
        if state is None:
            first = self.entry(1)
            assert first is not None
            _check_number(first, 1, self.entry_path(1))
            state = State.first(first)
        return self.refresh(state)

    def numbers(self) -> tuple[set[int], set[int]]:
        """The numbers of the entries and of the snapshots that are listed."""
        names = [name for name in self.storage.children("ledger") if name[0] != "."]
        snapshots = {_number(name) for name in names if name.endswith(".snapshot.json")}
        entries = {_number(name) for name in names if name.count(".") == 1 and name.endswith(".json")}
        return entries - {0}, snapshots - {0}

    def _check_new(self) -> None:
        """Raises if there are data files although there are no entries."""
        if self.storage.children("relations"):
            raise StorageError(
                f"the ledger of {self.storage.root} is empty, but there are data files: its entries are lost",
                hint="restore ledger/ from a backup of the database; leave the other files as they are",
            )

    def _snapshot(self, number: int) -> State | None:
        """The state in a snapshot; None if it is damaged or does not agree with entry `number`."""
        data = self.storage.read(self.snapshot_path(number))
        try:
            body = unpack(data or b"", self.snapshot_path(number))
        except StorageError as damaged:
            if damaged.message.startswith(NEWER):
                raise
            return None  # an older snapshot and the entries give the same state
        entry = self.entry(number)
        if entry is None or not fits(body, entry):
            return None  # the chain shows which of the two is wrong
        return replace(State.from_json(body), link=entry["hash"], chained="before" in entry)

    def refresh(self, state: State) -> State:
        """The newest state, from an earlier one."""
        while (entry := self._next(state)) is not None:
            state = state.apply(entry)
        return state

    def _next(self, state: State) -> dict[str, Any] | None:
        """The entry after a state; None at the end of the ledger. Raises if there are only later ones."""
        number = state.number + 1
        entry = self.entry(number) if self.storage.local else None
        if entry is None:
            if not self._goes_on(state):
                return None
            entry = self._sought(number)
            if entry is None:
                raise self.lost(number, self._last(number))
        self.check_chain(state, entry)
        return entry

    def _goes_on(self, state: State) -> bool:
        """Whether there are entries after a state. Raises if even its own entry is missing."""
        last = self._last(state.number)
        if last < state.number and self._sought(state.number) is None:
            raise self.lost(state.number, state.number)
        return last > state.number

    def _last(self, number: int) -> int:
        """The number of the last entry or snapshot, if it is at least a given number; else 0."""
        name = self.storage.last("ledger", self.entry_path(number).rsplit("/", 1)[-1])
        return _number(name) if name else 0

    def _sought(self, number: int) -> dict[str, Any] | None:
        """An entry that should exist; None if it is still missing after several attempts."""
        for look in range(LOOKS):
            if look:
                time.sleep(LOOK_SECONDS)
            entry = self.entry(number)
            if entry is not None:
                return entry
        return None

    def entry(self, number: int) -> dict[str, Any] | None:
        """One entry, with its own `hash`; None if it does not exist."""
        path = self.entry_path(number)
        data = self.storage.head(path, HEAD_BYTES)
        if data is not None and len(data) == HEAD_BYTES and data.count(b"\n") < 2:
            data = self.storage.read(path)
        if data is None:
            return None
        head, _ = split_entry(data)
        return {**unpack(head, path), "hash": _hash(head)}

    def entries(self, newest: int) -> Iterator[dict[str, Any]]:
        """Entries from the newest back to the first; checks the chain."""
        after: dict[str, Any] | None = None
        for number in range(newest, 0, -1):
            entry = self.entry(number)
            if entry is None:
                raise self.lost(number, newest)
            _check_number(entry, number, self.entry_path(number))
            if after is not None and after.get("before", entry["hash"]) != entry["hash"]:
                raise self._broken(number + 1)
            yield entry
            after = entry

    # the chain -----------------------------------------------------------------------------------

    def check_chain(self, state: State, entry: dict[str, Any]) -> None:
        """Raises unless an entry was written directly after a state."""
        number = state.number + 1
        _check_number(entry, number, self.entry_path(number))
        before = entry.get("before")
        if state.chained if before is None else before != state.link:
            raise self._broken(number)

    def lost(self, number: int, last: int) -> StorageError:
        """The error for an entry that is missing in a ledger that goes on to entry `last`."""
        goes_on = f"the ledger goes on to entry {last}" if last > number else "it was there before"
        return StorageError(
            f"{self.entry_path(number)} is missing, but {goes_on}",
            detail="an entry of the ledger was lost; nothing is read or written past it",
            hint="restore this file from a backup of the database; leave the other files as they are",
        )

    def _broken(self, number: int) -> StorageError:
        return StorageError(
            f"{self.entry_path(number)} does not follow {self.entry_path(number - 1)}: the chain of entries is broken",
            detail="one of the two is not the file that was written; nothing is read or written past them",
            hint="restore ledger/ from a backup of the database; leave the other files as they are",
        )

    # writing -------------------------------------------------------------------------------------

    def append(
        self,
        state: State,
        entry: dict[str, Any],
        data: bytes = b"",
        added: Mapping[str, Sequence[DataFile]] | None = None,
    ) -> State | None:
        """Appends an entry after `state` and returns the new state; None if another writer took the number.

        `data` are the inlined batches of the entry's files; their paths in `entry` are positions in it, as in `#64`.
        `added` are these files as they are, which saves the new state to parse what was just printed.
        """
        if data and state.format < FORMAT:
            marked = self.append(state, {"kind": "maintenance"})
            if marked is None:
                return None
            state = marked
        number = state.number + 1
        if self._goes_on(state):
            if self._sought(number) is None:
                raise self.lost(number, self._last(number))
            return None
        about = {"format": FORMAT, "number": number, "at": now(), "id": uuid.uuid4().hex, "before": state.link}
        body = {**entry, **about}
        if data:
            body |= {"files": _placed(entry["files"], self.entry_path(number)), "data": len(data)}
        if number % SNAPSHOT_EVERY == 0:
            body["state"] = _digest(state.apply({**json.loads(json.dumps(body)), "hash": ""}).to_json())
        head = _pack(body)
        if not self.storage.create(self.entry_path(number), head + data, "entry"):
            # If a store answers too late, its client asks again and then finds the entry: our own.
            there = self.entry(number)
            if there is None or there.get("id") != body["id"]:
                return None
        rest = json.loads(json.dumps({name: part for name, part in body.items() if name != "files"}))
        after = state.apply({**body, **rest, "hash": _hash(head)}, self._entered(number, added))
        if data:
            self.storage.inlined.put(self.entry_path(number), data)
        if number % SNAPSHOT_EVERY == 0:
            # The entry exists, so the commit has happened; a snapshot is derived, and the next one will do as well.
            with contextlib.suppress(StorageError):
                self.storage.write(self.snapshot_path(number), _pack(after.to_json()), "snapshot")
        return after

    def _entered(
        self, number: int, added: Mapping[str, Sequence[DataFile]] | None
    ) -> dict[str, tuple[DataFile, ...]] | None:
        """The files of an entry, inlined batches with the path of the entry that they are in."""
        if added is None:
            return None
        entry = self.entry_path(number)
        return {
            key: tuple(replace(f, path=entry + f.path) if f.path.startswith("#") else f for f in files)
            for key, files in added.items()
        }


def _placed(files: dict[str, list[dict[str, Any]]], entry: str) -> dict[str, list[dict[str, Any]]]:
    """The files of an entry, inlined batches with the path of the entry that they are in."""
    return {
        key: [{**file, "path": entry + file["path"]} if file["path"].startswith("#") else file for file in added]
        for key, added in files.items()
    }


def missing(entries: Iterable[int], snapshots: Iterable[int]) -> list[int]:
    """The numbers without an entry, up to the last entry or snapshot."""
    there = set(entries)
    return [number for number in range(1, max((*there, *snapshots), default=0) + 1) if number not in there]


def fits(snapshot: dict[str, Any], entry: dict[str, Any]) -> bool:
    """Whether a snapshot is that of the state after an entry; for an old format, whether it can be."""
    if snapshot["number"] != entry["number"] or snapshot.get("link", entry["hash"]) != entry["hash"]:
        return False
    return "state" not in entry or entry["state"] == _digest(snapshot)


def _digest(state: dict[str, Any]) -> str:
    """The hash of a state in a snapshot, without the fields that depend on its entry."""
    body = {name: value for name, value in state.items() if name not in ("link", "format")}
    return _hash(json.dumps(body, sort_keys=True).encode())


def _number(name: str) -> int:
    """The number in the name of an entry or a snapshot; 0 for another name."""
    digits = name.split(".")[0]
    return int(digits) if digits.isdecimal() and len(digits) == 12 else 0


def _check_number(entry: dict[str, Any], number: int, path: str) -> None:
    if entry["number"] != number:
        raise StorageError(
            f"{path} holds entry {entry['number']}: it was copied or renamed",
            detail="nothing is read or written past it",
            hint="restore this file from a backup of the database; leave the other files as they are",
        )


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _pack(body: dict[str, Any]) -> bytes:
    text = json.dumps({"format": FORMAT, **body}, separators=(",", ":")).encode()
    return text + b"\n" + f"{zlib.crc32(text):08x}\n".encode()


def unpack(data: bytes, path: str) -> dict[str, Any]:
    """The contents of the head of an entry, or of a snapshot. Raises StorageError if damaged or of a newer version."""
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
            f"{NEWER} (ledger format {body['format']})",
            detail=f"this version reads format {FORMAT}; {path} has {body['format']}",
            hint="upgrade: pip install --upgrade viewkeeper",
        )
    return body
