"""A writer that is stopped by VIEWKEEPER_FAULT between its batch and its ledger entry, and goes on later.

`stopping_writer.py <database> insert|update files|entry` makes one explicit transaction, and another like it if that
one conflicts. It says what became of each. Its rows are written to files, or into the ledger entry.
"""

from __future__ import annotations

import sys

import viewkeeper as vk
from tests.inventory import FILES
from viewkeeper.errors import Conflict


def transact(db: vk.Database, action: str, attempt: int) -> int:
    """One transaction over two tables; its epoch."""
    with db.transaction() as tx:
        if action == "insert":
            tx.insert("events", [("A", attempt)])
            tx.insert("mirror", [("A", attempt)])
        else:
            tx.sql("UPDATE counters SET n = n + 1 WHERE id = 1")
            tx.sql("INSERT INTO mirror SELECT 'A', n FROM counters WHERE id = 1")
    assert tx.commit_info is not None
    return tx.commit_info.epoch


def main(path: str, action: str, form: str) -> None:
    """Says 'conflict' and 'committed <epoch>' as they happen."""
    with vk.connect(path, engine="sail", tuning=FILES if form == "files" else None) as db:
        for attempt in range(1, 4):
            try:
                print("committed", transact(db, action, attempt), flush=True)
                break
            except Conflict as problem:
                print("conflict", problem.message, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
