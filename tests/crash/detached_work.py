"""Work whose detached rules are interrupted: every epoch inserts a row, which one rule copies and another one sends.

As a program: `detached_work.py <database> <engine> <first> <count>` inserts so many rows, says each one when its
commit has returned, and then waits until nothing is left to run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import viewkeeper as vk

TUNING = vk.Tuning(retry_seconds=0.05, action_attempts=1000)


def prepare(path: str | Path, engine: str, url: str) -> None:
    """A database with the two rules."""
    with vk.connect(path, engine=engine) as db:
        db.sql("CREATE TABLE t (n INT PRIMARY KEY); CREATE TABLE copied (n INT, old BIGINT)")
        before = "(SELECT count(*) FROM t AS OF OLD)"
        db.sql(f"CREATE RULE copy DETACHED ON t DO INSERT INTO copied SELECT n, {before} FROM inserted")
        db.sql(f"CREATE RULE call DETACHED ON t DO WEBHOOK '{url}' WITH (allow_private = true)")


def main(path: str, engine: str, first: int, count: int) -> None:
    """Inserts, and runs what is waiting."""
    with vk.connect(path, engine=engine, tuning=TUNING) as db:
        print("start", flush=True)
        for number in range(first, first + count):
            db.sql(f"INSERT INTO t VALUES ({number})")
            print(number, flush=True)
        while db._store.refresh().waiting:
            db.wait_for_rules()
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
