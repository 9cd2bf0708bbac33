"""Writers and readers that race on one database, each in a process of its own.

`racing.py write <database> <log> <writer> <operations>` notes every commit it was told of, as a line of JSON: the
epoch and the weights. `racing.py read <database> <stop file> <seed>` looks on until the stop file is there.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from typing import Any

import viewkeeper as vk
from viewkeeper.errors import Conflict, ConstraintViolation

ACCOUNTS = 6
EACH = 100
COUNTERS = 3
KEYS = 40

SETUP = f"""
CREATE TABLE cash (id BIGINT PRIMARY KEY, amount BIGINT);
CREATE TABLE debt (id BIGINT PRIMARY KEY, amount BIGINT);
CREATE TABLE counters (id BIGINT PRIMARY KEY, n BIGINT);
CREATE TABLE keyed (k BIGINT PRIMARY KEY, writer BIGINT);
CREATE TABLE journal (writer BIGINT, number BIGINT);
INSERT INTO cash SELECT id, {EACH} FROM range({ACCOUNTS});
INSERT INTO debt SELECT id, {EACH} FROM range({ACCOUNTS});
INSERT INTO counters SELECT id, 0 FROM range({COUNTERS});
"""
TABLES = ("cash", "debt", "counters", "keyed", "journal")
TOTAL = 2 * ACCOUNTS * EACH


TUNINGS = (vk.Tuning(flushed_batches=3), vk.Tuning(inlined_rows=1, flushed_batches=2), vk.Tuning())
"""Writers that flush often in the background; some of them write most rows to files."""


class Writer:
    """Does things at random, and notes what it was told was committed."""

    def __init__(self, db: vk.Database, log: str, number: int) -> None:
        self.db = db
        self.number = number
        self.chance = random.Random(number)
        self.written = 0
        self.log = open(log, "w")  # noqa: SIM115

    def note(self, commit: vk.Commit | None, what: str) -> None:
        """Writes a commit down."""
        if commit is None:
            return
        changes = {name: [[list(row), w] for row, w in c.weights().items()] for name, c in commit.changes.items()}
        print(json.dumps({"epoch": commit.epoch, "changes": changes, "what": what}), file=self.log, flush=True)

    def step(self) -> None:
        """One thing."""
        actions = (self.count, self.count, self.write, self.erase, self.transfer, self.transfer, self.key, self.upkeep)
        self.chance.choice(actions)()

    def count(self) -> None:
        """A lost update would show here."""
        row = self.chance.randrange(COUNTERS)
        self.note(self.db.sql(f"UPDATE counters SET n = n + 1 WHERE id = {row}").commit, "count")

    def write(self) -> None:
        """Rows of one's own, without a key."""
        self.written += 1
        self.note(self.db.sql(f"INSERT INTO journal VALUES ({self.number}, {self.written})").commit, "write")

    def erase(self) -> None:
        """An earlier row of one's own."""
        if self.written:
            row = self.chance.randint(1, self.written)
            text = f"DELETE FROM journal WHERE writer = {self.number} AND number = {row}"
            self.note(self.db.sql(text).commit, "erase")

    def transfer(self) -> None:
        """Two tables at once; the total stays the same. May conflict, and is tried again."""
        source, target = self.chance.randrange(ACCOUNTS), self.chance.randrange(ACCOUNTS)
        amount = self.chance.randint(1, 9)
        for _ in range(5):
            try:
                with self.db.transaction() as tx:
                    tx.sql(f"UPDATE cash SET amount = amount - {amount} WHERE id = {source}")
                    tx.sql(f"UPDATE debt SET amount = amount + {amount} WHERE id = {target}")
                self.note(tx.commit_info, "transfer")
                return
            except Conflict:
                continue

    def key(self) -> None:
        """A key that another writer may have taken, or a row that another may have removed."""
        key = self.chance.randrange(KEYS)
        try:
            with self.db.transaction() as tx:
                if self.chance.random() < 0.6:
                    tx.insert("keyed", [(key, self.number)])
                elif self.chance.random() < 0.5:
                    tx.upsert("keyed", [(key, self.number)])
                else:
                    tx.delete_by_key("keyed", [key], missing="ignore")
            self.note(tx.commit_info, "key")
        except (Conflict, ConstraintViolation):
            pass

    def upkeep(self) -> None:
        """Compaction or a sweep, in the middle of everything."""
        if self.chance.random() < 0.5:
            self.db.compact(self.chance.choice(TABLES))
        else:
            self.db.vacuum(grace=0)


def read(db: vk.Database, stop: str, seed: int) -> None:
    """Checks that what is seen is always one epoch, and that an epoch once seen stays as it was."""
    chance = random.Random(seed)
    seen: dict[int, Any] = {}
    looks = 0
    total = "SELECT sum(amount) FROM (SELECT amount FROM cash UNION ALL SELECT amount FROM debt) AS money"
    past = (
        "SELECT 'c' AS what, id, amount FROM cash UNION ALL SELECT 'd' AS what, id, amount FROM debt "
        "UNION ALL SELECT 'n' AS what, id, n FROM counters"
    )
    newest = 0
    while not os.path.exists(stop):
        assert db.sql(total).rows() == [(TOTAL,)]
        epoch = db.epoch
        assert epoch >= newest
        newest = epoch
        chosen = chance.choice([epoch, *seen])
        rows = Counter(db.sql(f"{past} AS OF EPOCH {chosen}").rows())
        assert sum(row[2] for row in rows if row[0] in "cd") == TOTAL
        assert seen.setdefault(chosen, rows) == rows
        late = db.sql("SELECT id, amount FROM cash")  # its files stay until it is looked at
        db.table("counters").read().rows()
        assert len(late.rows()) == ACCOUNTS
        looks += 1
    print("looks", looks, "epochs", len(seen), flush=True)


def main() -> None:
    """Plays the part that the arguments name."""
    role, path, file, number, *rest = sys.argv[1:]
    with vk.connect(path, engine="sail", tuning=TUNINGS[int(number) % len(TUNINGS)]) as db:
        if role == "read":
            read(db, file, int(number))
            return
        writer = Writer(db, file, int(number))
        for _ in range(int(rest[0])):
            writer.step()
        writer.log.close()


if __name__ == "__main__":
    main()
