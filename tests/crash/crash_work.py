"""The work that is interrupted: every epoch touches three tables and writes its serial into each of them.

The contents after serial n are a function of n, so a torn, lost or repeated epoch shows. As a program:
`crash_work.py <database> <engine> <how many serials> entry|files` goes on from the serial it finds, and says each one
when its commit has returned. Commits write their rows into the ledger entry, and flush them often, or to files.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import viewkeeper as vk
from tests.inventory import FILES
from viewkeeper.errors import StorageError
from viewkeeper.store.file_reading import read_files

TABLES = ("checking", "savings", "newest")
Rows = Counter[tuple[int, ...]]

TUNING = {"entry": vk.Tuning(flushed_batches=2), "files": FILES}

COMPACT_EVERY = 3
VACUUM_EVERY = 4


def prepare(path: str | Path, engine: str, entries: int) -> None:
    """A database whose ledger has about so many entries."""
    with vk.connect(path, engine=engine, durability="process") as db:
        db.sql(
            """BEGIN;
            CREATE TABLE checking (account BIGINT NOT NULL, amount BIGINT, serial BIGINT);
            CREATE TABLE savings (account BIGINT NOT NULL, amount BIGINT, serial BIGINT);
            CREATE TABLE newest (name BIGINT PRIMARY KEY, serial BIGINT);
            COMMIT"""
        )
        serial = 0
        while db._store.state.number < entries:
            serial += 1
            commit_serial(db, serial)


def commit_serial(db: vk.Database, serial: int) -> None:
    """One epoch: an amount moves from one table to the other, and both, and a third, get the serial."""
    with db.transaction() as tx:
        tx.insert("checking", [(serial % 5, -serial, serial)])
        tx.insert("savings", [(serial % 5, serial, serial)])
        tx.upsert("newest", [(0, serial)])


def contents_after(serial: int) -> dict[str, Rows]:
    """What the tables hold after a serial."""
    return {
        "checking": Counter((n % 5, -n, n) for n in range(1, serial + 1)),
        "savings": Counter((n % 5, n, n) for n in range(1, serial + 1)),
        "newest": Counter([(0, serial)] if serial else []),
    }


def contents(db: vk.Database, epoch: int | None = None) -> dict[str, Rows]:
    """What the engine reads, now or at an epoch."""
    return {name: Counter(db.table(name).read(epoch).rows()) for name in TABLES}


def contents_of_all_epochs(db: vk.Database) -> dict[int, dict[str, Rows]]:
    """What the files the ledger names hold, for every epoch, without the engine."""
    store = db._store
    state = store.refresh()
    stored = {}
    for name in TABLES:
        relation = state.find(name)
        assert relation is not None
        stored[name] = [
            tuple(row.values()) for row in read_files(store.storage, relation.files, relation.schema).to_pylist()
        ]
    found: dict[int, dict[str, Rows]] = {}
    for epoch in range(1, state.epoch + 1):
        found[epoch] = {}
        for name, rows in stored.items():
            bag: Rows = Counter()
            for *row, weight, row_epoch in rows:
                if row_epoch <= epoch:
                    bag[tuple(row)] += weight
            found[epoch][name] = Counter({row: weight for row, weight in bag.items() if weight})
    return found


def jvms() -> list[int]:
    """The processes below this one."""
    found, level = [], [os.getpid()]
    while level:
        level = [child for child, parent in _parents().items() if parent in level]
        found += level
    return found


def _parents() -> dict[int, int]:
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parents[int(name)] = int(Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    return parents


def main(path: str, engine: str, count: int, form: str) -> None:
    """Goes on from where the database is."""
    db = vk.connect(path, engine=engine, tuning=TUNING[form])
    (found,) = db.sql("SELECT coalesce(max(serial), 0) FROM newest").rows()
    start = int(found[0])
    print("start", start, *(jvms() if engine == "spark" else []), flush=True)
    for serial in range(start + 1, start + count + 1):
        commit_serial(db, serial)
        print(serial, flush=True)
        try:
            if serial % COMPACT_EVERY == 0:
                db.compact()
            if serial % VACUUM_EVERY == 0:
                db.vacuum(grace=0)
        except StorageError as problem:
            print("failed", problem, flush=True)
            raise
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
