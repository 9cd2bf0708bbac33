"""Turns: one process at a time runs the firings of a rule.

On a local path the holder of a turn has a kernel lock on a file, so the turn of a killed process is free at once. In an
object store the turn is a file that says until when it is held; two processes may then, in rare cases, run the same
firing. That is allowed: they use the same idempotency key, and only one of them can record the end of the firing.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator

from viewkeeper.log.leases import EXPIRE_SECONDS
from viewkeeper.log.storage import Storage, explain, now


@contextlib.contextmanager
def turn(storage: Storage, name: str, holder: str) -> Iterator[bool]:
    """Takes a turn for the time of the block; whether nobody else has it."""
    path = f"turns/{name}.json"
    with _local(storage, path) if storage.local else _remote(storage, path, holder) as taken:
        yield taken


@contextlib.contextmanager
def _local(storage: Storage, path: str) -> Iterator[bool]:
    full = storage.url(path)
    try:
        os.makedirs(os.path.dirname(full), exist_ok=True)
        handle = os.open(full, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as problem:
        raise explain(problem, "taking the turn of a rule") from problem
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        if not os.fstat(handle).st_nlink:  # its holder removed it between opening and locking
            yield False
            return
        try:
            yield True
        finally:
            with contextlib.suppress(OSError):
                os.unlink(full)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _remote(storage: Storage, path: str, holder: str) -> Iterator[bool]:
    if _held_by(storage, path) not in ("", holder):
        yield False
        return
    body = {"holder": holder, "until": now() + EXPIRE_SECONDS}
    storage.write(path, json.dumps(body).encode(), "turn")
    if _held_by(storage, path) != holder:  # another process wrote it after this one
        yield False
        return
    try:
        yield True
    finally:
        storage.delete([path])


def _held_by(storage: Storage, path: str) -> str:
    """Who has a turn in an object store; nobody, if it has expired."""
    try:
        body = json.loads(storage.read(path) or b"{}")
    except ValueError:
        return ""
    return str(body["holder"]) if body.get("until", 0.0) > now() else ""


def sweep_turns(storage: Storage) -> None:
    """Removes the turns that killed processes have left behind."""
    for listed in storage.list("turns"):
        with turn(storage, listed.path.rsplit("/", 1)[-1].removesuffix(".json"), "vacuum"):
            pass  # one that is free is taken and given back, which removes it
