"""Leases show which processes are alive. Files that a live process may still write or read are not swept.

A lease is a file. On a local path its holder has a kernel lock on it, so a killed process is noticed at once and a
stopped one counts as alive. In an object store the holder renews it; it is dead when it has not been renewed for a
while.

A local lease that exists, was written on this machine and is not locked proves that its writer is dead. A missing lease
proves nothing: sweeping is then safe because of the ledger, where the writer is revoked first, and a revoked writer
cannot commit. So a handle that may leave files behind leaves its lease behind too.

Where nothing can be written there is no lease: the database can be read, but nothing protects the files being read.
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
"""The most dead leases that one sweep handles: each is a file that stays open meanwhile."""


class Lease:
    """The lease of one open database handle. `refused` says why there is none; it is empty if there is one.

    `leaves_files`: files that no entry names may be left behind, so the lease has to stay to identify their writer.
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
        """The path of the lease."""
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
            else:  # a sweep locked and removed the lease between its creation and our lock
                os.close(handle)
        try:
            self._write()
        except OSError as problem:
            if problem.errno not in FULL:  # an empty lease protects all files
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
        """Records that states before this entry are no longer read here; written about once a second, or at once."""
        if not self.refused and oldest_in_use > self.entry and (at_once or now() - self._written >= 1.0):
            self.entry = oldest_in_use
            with contextlib.suppress(OSError, StorageError):  # the older lease protects more than is needed
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
    """An id of this machine since its last boot, different from others that may share the directory."""
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

    `dead`: id -> the open, locked lease file of a writer that is proven to be dead, on this machine. Leases of dead
    holders that prove nothing have been removed.
    """

    alive: dict[str, int] = field(default_factory=dict)
    dead: dict[str, int] = field(default_factory=dict)

    def remove_dead(self, storage: Storage) -> None:
        """Removes the leases of dead writers, after their files."""
        storage.delete(f"leases/{name}.json" for name in self.dead)


@contextlib.contextmanager
def found_leases(storage: Storage) -> Iterator[Leases]:
    """The leases that exist, for a sweep."""
    found = Leases()
    try:
        for listed in storage.list("leases"):
            name = listed.path.rsplit("/", 1)[-1].removesuffix(".json")
            data = storage.read(listed.path)
            if data is None:
                continue  # just removed
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
            found.alive[name] = int(body.get("entry", 0))  # an empty one, perhaps being written, protects all files
        yield found
    finally:
        for handle in found.dead.values():
            os.close(handle)


def dead_leases(storage: Storage) -> list[str]:
    """The paths of leases whose holders died without removing them; nothing is removed."""
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
    """The contents of a lease; empty if it is damaged or being written."""
    try:
        body = json.loads(data or b"")
    except ValueError:
        return {}
    return body if isinstance(body, dict) and isinstance(body.get("entry"), int) else {}


def _is_fresh(listed: Listed, body: dict[str, Any]) -> bool:
    """Whether a lease in an object store was renewed lately; for one that cannot be read, written lately."""
    renewed = body.get("renewed")
    return bool(now() - (renewed if isinstance(renewed, float) else listed.modified) < EXPIRE_SECONDS)


def _taken(storage: Storage, path: str) -> int | None:
    """A local lease, locked here because its holder is dead; None if it is held, or was just removed."""
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
