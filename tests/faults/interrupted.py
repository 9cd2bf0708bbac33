"""A process that interrupts itself, as Ctrl-C would, in one long statement after the other; prints what came of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import viewkeeper as vk

BUSY = 1.0
"""Seconds after which a statement is sure to be with the engine."""

LONG = "FROM t AS a, t AS b, t AS c, t AS d WHERE a.x + b.x * c.x > d.x % 5"


def main(path: str, engine: str, *wanted: str) -> None:
    """Prints one JSON object per wanted statement: how long the interrupt took, and what is there afterwards."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background may ignore the signal
    db = vk.connect(path, engine=engine)
    db.sql("CREATE TABLE empty (x BIGINT); CREATE TABLE t (x BIGINT); INSERT INTO t SELECT id FROM range(3000)")
    db.sql(f"CREATE VIEW wide AS SELECT count(*) AS n {LONG}")
    long_commit = LONG.replace("FROM t AS a", "FROM empty AS a")
    for name in ("one", "two") if "commit" in wanted else ():  # a commit works on both at once
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT a.x, count(*) AS {name} {long_commit} GROUP BY a.x")

    def transaction() -> None:
        with db.transaction() as tx:
            tx.insert("t", [(-1,)])
            tx.sql(f"INSERT INTO t SELECT count(*) {LONG}")

    def begun() -> None:
        db.sql("BEGIN; INSERT INTO t VALUES (-1)")
        try:
            db.sql(f"INSERT INTO t SELECT count(*) {LONG}")
        finally:
            db.sql("ROLLBACK")

    counted = "WITH RECURSIVE r AS (SELECT 0 AS n UNION SELECT n + 1 FROM r WHERE n < 100000) SELECT * FROM r"
    actions: dict[str, Callable[[], object]] = {
        "select": lambda: db.sql(f"SELECT count(*) {LONG}").rows(),
        "insert": lambda: db.sql(f"INSERT INTO t SELECT count(*) {LONG}"),
        "transaction": transaction,
        "begin": begun,
        "initial load": lambda: db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n {LONG}"),
        "commit": lambda: db.sql("INSERT INTO empty SELECT x FROM t"),
        "verify": lambda: db.verify("wide"),
        "recursion": lambda: db.sql(counted).rows(),
    }
    for told in wanted:
        print(json.dumps({"told": told, **interrupted(db, actions[told])}), flush=True)
    os._exit(0)


def interrupted(db: vk.Database, action: Callable[[], object]) -> dict[str, object]:
    before = db.epoch, len(db.ls())
    pressed: list[float] = []

    def press() -> None:
        time.sleep(BUSY)
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    ended = "by itself"
    try:
        action()
    except KeyboardInterrupt:
        ended = "KeyboardInterrupt"
    took = time.monotonic() - pressed[0]
    with contextlib.suppress(KeyboardInterrupt):
        left = db.sql("SELECT count(*), min(x) FROM t").rows()
    unchanged = (db.epoch, len(db.ls())) == before and left == [(3000, 0)]
    return {"ended": ended, "seconds": took, "unchanged": unchanged}


if __name__ == "__main__":
    main(*sys.argv[1:])
