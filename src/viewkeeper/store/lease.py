"""Leases: who is at work. Files that a live process may still write or read are not swept.

A lease is a file. On a local path its holder keeps a kernel lock on it, so a killed process is seen at once and a
stopped one stays alive. In an object store the holder renews it; it is dead when it has not been renewed for a while.
Either way sweeping is safe by the ledger, not by the clock: a writer is first revoked there, and a revoked writer
cannot commit.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import threading
import uuid

from viewkeeper.store.storage import Storage, explain, now

RENEW_SECONDS = 10.0
EXPIRE_SECONDS = 120.0


class Lease:
    """The lease of one open database handle."""

    def __init__(self, storage: Storage, entry: int) -> None:
        self.storage = storage
        self.id = uuid.uuid4().hex[:16]
        self.entry = entry
        self._handle: int | None = None
        self._written = 0.0
        self._stop = threading.Event()
        if storage.local:
            self._open_local()
        else:
            self._write()
            threading.Thread(target=self._renew, name="viewkeeper-lease", daemon=True).start()

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
                raise explain(problem, "opening the database for work") from problem
            fcntl.flock(handle, fcntl.LOCK_SH)
            if os.fstat(handle).st_nlink:
                self._handle = handle
            else:  # a sweep, which removes a lease only under its lock, came between its creation and its lock
                os.close(handle)
        try:
            self._write()
        except OSError as problem:
            self.close()
            raise explain(problem, "opening the database for work") from problem

    def _body(self) -> bytes:
        about = {"entry": self.entry, "host": socket.gethostname(), "pid": os.getpid(), "renewed": now()}
        return json.dumps(about).encode()

    def _write(self) -> None:
        self._written = now()
        if self._handle is None:
            self.storage.write(self.path, self._body(), "lease")
            return
        body = self._body()
        os.pwrite(self._handle, body + b" " * max(0, 200 - len(body)), 0)

    def _renew(self) -> None:
        while not self._stop.wait(RENEW_SECONDS):
            with contextlib.suppress(Exception):
                self._write()

    def advance(self, oldest_in_use: int, *, at_once: bool = False) -> None:
        """Says that states before this entry are no longer read here; written now and then, or at once."""
        if oldest_in_use > self.entry and (at_once or now() - self._written >= 1.0):
            self.entry = oldest_in_use
            with contextlib.suppress(OSError):  # what stands there holds more than is needed
                self._write()

    def close(self) -> None:
        """Gives the lease back."""
        self._stop.set()
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
        with contextlib.suppress(Exception):
            self.storage.delete([self.path])


def lease_of(path: str) -> str:
    """The lease under which a file was written: the first part of its name (or of its directory's)."""
    return path.split("/", 2)[-1].split("-")[0].lstrip(".")


def live_leases(storage: Storage) -> dict[str, int]:
    """The live leases: id -> the oldest entry its holder may be reading. Dead leases are removed."""
    alive: dict[str, int] = {}
    for listed in storage.list("leases"):
        name = listed.path.rsplit("/", 1)[-1].removesuffix(".json")
        data = storage.read(listed.path)
        if data is None:
            continue
        if not _is_alive(storage, listed.path, sweep=True):
            continue
        try:
            alive[name] = int(json.loads(data)["entry"])
        except (ValueError, KeyError):
            alive[name] = 0  # being written at this moment: hold everything
    return alive


def dead_leases(storage: Storage) -> list[str]:
    """The paths of leases whose holders are gone without giving them back; nothing is removed."""
    return sorted(listed.path for listed in storage.list("leases") if not _is_alive(storage, listed.path))


def _is_alive(storage: Storage, path: str, *, sweep: bool = False) -> bool:
    """Whether a lease's holder is there. A dead lease is removed if asked, before anyone can take its file for his."""
    if not storage.local:
        data = storage.read(path)
        if data is not None and now() - float(json.loads(data)["renewed"]) < EXPIRE_SECONDS:
            return True
        if sweep:
            storage.delete([path])
        return False
    try:
        handle = os.open(storage.url(path), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if sweep:
            storage.delete([path])
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
