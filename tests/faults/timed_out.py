"""A process whose statements take longer than their time limit; prints what came of it."""

from __future__ import annotations

import json
import os
import sys
import time

import viewkeeper as vk
from tests.faults.interrupted import LONG


def main(path: str, engine: str) -> None:
    """Prints one JSON object: what two statements were told, how long they took, whether nothing was changed."""
    db = vk.connect(path, engine=engine, statement_timeout="300 s")
    db.sql("CREATE TABLE t (x BIGINT); INSERT INTO t SELECT id FROM range(3000)")
    before = db.epoch, db.sql("SELECT count(*) FROM t").rows()
    db.sql("SET statement_timeout = '700 ms'")
    said, seconds = [], []
    for text in (f"SELECT count(*) {LONG}", f"INSERT INTO t SELECT count(*) {LONG}"):
        began = time.monotonic()
        try:
            db.sql(text).rows()
        except vk.errors.StatementTimeout as problem:
            said.append(str(problem))
        seconds.append(time.monotonic() - began)
    db.sql("SET statement_timeout = 0")
    after = db.epoch, db.sql("SELECT count(*) FROM t").rows()
    print(json.dumps({"said": said, "seconds": seconds, "unchanged": before == after}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
