"""A process that may write no large files, as if the disk were full: says what happens to its writes.

`full_disk.py <database> rows|inlined|load|snapshot|compact` tries something under a limit, says the error, lifts the
limit and does it again; rows are written to files, or `inlined` in the ledger entry. `full_disk.py <database> insert`
writes without a limit, for a fault to end it. `full_disk.py <database> vacuum|entry` opens the database when nothing at
all can be written, and sweeps, or tries to commit first.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

import viewkeeper as vk
from tests.inventory import FILES
from viewkeeper.errors import ViewkeeperError

SMALL = 4_000


@contextlib.contextmanager
def limit(size: int) -> Iterator[None]:
    """No file may grow beyond this size."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def noise(rows: int) -> pa.Table:
    """Rows that do not compress."""
    return pa.table({"x": list(range(rows)), "s": [os.urandom(16).hex() for _ in range(rows)]})


def attempt(action: Callable[[], object]) -> dict[str, str | None] | None:
    """The error of ours that an action ends with, if any."""
    try:
        action()
    except ViewkeeperError as problem:
        return {"class": type(problem).__name__, "message": problem.message, "hint": problem.hint}
    return None


def insert(db: vk.Database, rows: int) -> None:
    """One transaction over both tables."""
    with db.transaction() as tx:
        tx.insert("small", [(rows,)])
        tx.insert("t", noise(rows))


def load(db: vk.Database) -> None:
    """A bulk load, which the engine writes."""
    db.load("t", os.path.join(os.path.dirname(db.path), "bulk.parquet"))


def commit_until_snapshot(db: vk.Database) -> None:
    """Commits that end with the hundredth entry."""
    while db._store.state.number % 100 or db._store.state.number < 100:
        with db.transaction() as tx:
            tx.insert("small", [(1,)])
        db._store.housekeeping.wait()  # it makes entries too


def main(path: str, what: str) -> None:
    """Tries under a limit, then without; the error, and the epochs after each."""
    with vk.connect(path, engine="sail", tuning=None if what == "inlined" else FILES) as db:
        actions: dict[str, Callable[[], object]] = {
            "rows": lambda: insert(db, 1_000),
            "inlined": lambda: insert(db, 1_000),
            "load": lambda: load(db),
            "snapshot": lambda: commit_until_snapshot(db),
            "compact": lambda: db.compact("t"),
        }
        sizes = {"rows": SMALL, "inlined": SMALL, "load": 100_000, "snapshot": SMALL, "compact": SMALL}
        db.sql("SELECT * FROM small").rows()  # the engine is up before the limit is
        with limit(sizes[what]):
            problem = attempt(actions[what])
            epoch = db.epoch
        files = sum(file.suffix == ".parquet" for file in Path(path, "relations").rglob("*"))
        print(json.dumps({"problem": problem, "epoch": epoch, "files": files}), flush=True)
        again = attempt(actions[what])
        print(json.dumps({"problem": again, "epoch": db.epoch}), flush=True)


def without_room(path: str, what: str) -> None:
    """Opens, perhaps tries to commit, reads and sweeps, all without being able to write a byte."""
    with limit(0), vk.connect(path, engine="sail") as db:
        tried = attempt(lambda: db.sql("CREATE TABLE made (x INT)")) if what == "entry" else None
        before = db._store.state.number
        swept = db.vacuum()
        rows = [len(db.table(name).read().rows()) for name in ("t", "small")]
        said = {"problem": tried, "entries": db._store.state.number - before, "files": swept.files, "rows": rows}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    if sys.argv[2] in ("vacuum", "entry"):
        without_room(sys.argv[1], sys.argv[2])
    elif sys.argv[2] == "insert":
        with vk.connect(sys.argv[1], engine="sail", tuning=FILES) as db:
            insert(db, 1_000)
    else:
        main(sys.argv[1], sys.argv[2])
