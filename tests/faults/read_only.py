"""A process that may read a database but write nothing in it: says what the verbs of the command line answer.

`read_only.py <database> <warm-up database> <engine>` gives up the rights of root after everything is loaded.
"""

from __future__ import annotations

import json
import os
import sys

from click.testing import CliRunner

from viewkeeper.cli.app import cli

NOBODY = 65534


def run(lake: str, engine: str, *arguments: str) -> dict[str, object]:
    """What one verb says."""
    done = CliRunner().invoke(cli, ["--engine", engine, "--db", lake, "--format", "json", *arguments])
    return {"code": done.exit_code, "out": done.stdout, "err": done.stderr, "raised": repr(done.exception)}


VERBS = (
    ("sql", "SELECT k, s FROM t ORDER BY k"),
    ("sql", "SELECT k, s FROM t ORDER BY k AS OF EPOCH 2"),
    ("ls",),
    ("history",),
    ("verify",),
    ("doctor", "--quick"),
    ("sql", "INSERT INTO t VALUES (9, named_struct('a', 9))"),
    ("sql", "CREATE TABLE made (x INT)"),
    ("compact",),
    ("vacuum",),
)


def main(lake: str, warm: str, engine: str) -> None:
    """Every verb once with all rights, so that nothing has to be loaded later, then without."""
    for verb in VERBS:
        run(warm, engine, *verb)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    for verb in VERBS:
        print(json.dumps(run(lake, engine, *verb)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
