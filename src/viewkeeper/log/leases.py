"""Leases: who is at work. Files that a live process may still write or read are not swept.

A lease is a file. On a local path its holder keeps a kernel lock on it, so a killed process is seen at once and a
stopped one stays alive. In an object store the holder renews it; it is dead when it has not been renewed for a while.

A local lease that is there, was written on this machine and is not locked proves that its writer is gone. A lease that
is missing proves nothing: sweeping is then safe by the ledger, where the writer is revoked first, and a revoked writer
cannot commit. So a handle that may leave files behind leaves its lease behind too.

Where nothing can be written there is no lease: the database can be read, but nothing holds the files that are read.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from viewkeeper.errors import StorageError
from viewkeeper.log.storage import FULL, REFUSED, Listed, NotPermitted, Storage, explain, now

RENEW_SECONDS = 10.0
EXPIRE_SECONDS = 120.0

MOST_HELD = 200
"""So many dead leases are dealt with by one sweep: each is a file that is kept open meanwhile."""


class Lease:
    """The lease of one open database handle. `refused` says why there is none; it is empty if there is one.

    `leaves_files`: files may be left behind that no entry names, so that the lease has to stay as their mark.
    """

    def __init__(self, storage: Storage, entry: int) -> None:
        self.storage = storage
        self.id = uuid.uuid4().hex[:16]
        self.entry = entry
        self.refused = ""
        self.leaves_files = False
        self._handle: int | None = None
        self._written = 0.0
        self._stop = threading.Event()
        if storage.local:
            self._open_local()
        else:
            self._open_remote()

    @property
    def path(self) -> str:
        """Where the lease is."""
        return f"leases/{self.id}.json"

    def _open_local(self) -> None:
        full = self.storage.url(self.path)
        while self._handle is None:
            try:
                os.makedirs(os.path.dirname(full), exist_ok=True)
                handle = os.open(full, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as problem:
                if problem.errno in (*REFUSED, *FULL):
                    self.refused = problem.strerror or "no room"
                    return
                raise explain(problem, "opening the database for work") from problem
            fcntl.flock(handle, fcntl.LOCK_SH)
            if os.fstat(handle).st_nlink:
                self._handle = handle
            else:  # a sweep, which removes a lease only under its lock, came between its creation and its lock
                os.close(handle)
        try:
            self._write()
        except OSError as problem:
            if problem.errno not in FULL:  # without room for a word a lease holds everything
                self.close()
                raise explain(problem, "opening the database for work") from problem

    def _open_remote(self) -> None:
        try:
            self._write()
        except NotPermitted as problem:
            self.refused = problem.detail or problem.message
            return
        threading.Thread(target=self._renew, name="viewkeeper-lease", daemon=True).start()

    def _body(self) -> bytes:
        about = {"entry": self.entry, "host": socket.gethostname(), "pid": os.getpid(), "renewed": now()}
        return json.dumps({**about, "machine": this_machine()}).encode()

    def _write(self) -> None:
        self._written = now()
        if not self.storage.local:
            self.storage.write(self.path, self._body(), "lease")
        elif self._handle is not None:
            body = self._body()
            os.pwrite(self._handle, body + b" " * max(0, 300 - len(body)), 0)

    def _renew(self) -> None:
        while not self._stop.wait(RENEW_SECONDS):
            with contextlib.suppress(Exception):
                self._write()

    def advance(self, oldest_in_use: int, *, at_once: bool = False) -> None:
        """Says that states before this entry are no longer read here; written now and then, or at once."""
        if not self.refused and oldest_in_use > self.entry and (at_once or now() - self._written >= 1.0):
            self.entry = oldest_in_use
            with contextlib.suppress(OSError, StorageError):  # what stands there holds more than is needed
                self._write()

    def close(self) -> None:
        """Gives the lease back; leaves it behind, unlocked, if files may be left behind."""
        self._stop.set()
        if not self.leaves_files and not self.refused:
            with contextlib.suppress(Exception):
                self.storage.delete([self.path])
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


@functools.cache
def this_machine() -> str:
    """What tells this machine, since it was started, from others that may see the same directory."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return f"{socket.gethostname()}-{uuid.getnode():x}"


def lease_of(path: str) -> str:
    """The lease under which a file was written: the first part of its name (or of its directory's)."""
    return path.split("/", 2)[-1].split("-")[0].lstrip(".")


@dataclass(frozen=True)
class Leases:
    """The leases as they were found. `alive`: id -> the oldest entry its holder may be reading.

    `dead` are those whose writers are proven to be gone, on this machine. They are held until they are removed, so that
    nobody takes one for his. Other leases of holders that are gone, whose files prove nothing, have been removed.
    """

    alive: dict[str, int] = field(default_factory=dict)
    dead: dict[str, int] = field(default_factory=dict)

    def remove_dead(self, storage: Storage) -> None:
        """Removes the leases of writers that are gone, when nothing of theirs is left."""
        storage.delete(f"leases/{name}.json" for name in self.dead)


@contextlib.contextmanager
def found_leases(storage: Storage) -> Iterator[Leases]:
    """The leases there are, for a sweep."""
    found = Leases()
    try:
        for listed in storage.list("leases"):
            name = listed.path.rsplit("/", 1)[-1].removesuffix(".json")
            data = storage.read(listed.path)
            if data is None:
                continue  # just given back
            body = _body_of(data)
            if not storage.local:
                if not _is_fresh(listed, body):
                    storage.delete([listed.path])
                    continue
            elif len(found.dead) < MOST_HELD and (handle := _taken(storage, listed.path)) is not None:
                if body.get("machine") == this_machine():
                    found.dead[name] = handle
                else:
                    storage.delete([listed.path])
                    os.close(handle)
                continue
            found.alive[name] = int(body.get("entry", 0))  # without a word, perhaps being written: holds everything
        yield found
    finally:
        for handle in found.dead.values():
            os.close(handle)


def dead_leases(storage: Storage) -> list[str]:
    """The paths of leases whose holders are gone without giving them back; nothing is removed."""
    dead: list[str] = []
    for listed in storage.list("leases"):
        if not storage.local:
            if not _is_fresh(listed, _body_of(storage.read(listed.path))):
                dead.append(listed.path)
        elif (handle := _taken(storage, listed.path)) is not None:
            os.close(handle)
            dead.append(listed.path)
    return sorted(dead)


def _body_of(data: bytes | None) -> dict[str, Any]:
    """What a lease says; nothing if it is damaged or only being written."""
    try:
        body = json.loads(data or b"")
    except ValueError:
        return {}
    return body if isinstance(body, dict) and isinstance(body.get("entry"), int) else {}


def _is_fresh(listed: Listed, body: dict[str, Any]) -> bool:
    """Whether a lease in an object store was renewed lately; one that cannot be read, by when it was written."""
    renewed = body.get("renewed")
    return bool(now() - (renewed if isinstance(renewed, float) else listed.modified) < EXPIRE_SECONDS)


def _taken(storage: Storage, path: str) -> int | None:
    """A local lease, locked: its holder is gone. None if it is held, or was just given back."""
    full = storage.url(path)
    try:
        try:
            handle = os.open(full, os.O_RDWR)
        except OSError as problem:
            if problem.errno not in REFUSED:
                raise
            handle = os.open(full, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
