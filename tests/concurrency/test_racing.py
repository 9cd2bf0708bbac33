"""Writers and readers in many processes: every commit that was reported is there once, and nobody sees half of one."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from pathlib import Path

import pytest

import viewkeeper as vk
from tests.concurrency import racing
from tests.inventory import check_ledger, check_nothing_left_over
from tests.processes import child


def race(tmp_path: Path, writers: int, readers: int, operations: int) -> None:
    lake, stop = tmp_path / "lake", tmp_path / "stop"
    with vk.connect(lake, engine="sail") as db:
        db.sql(racing.SETUP)
        before = {name: Counter(db.table(name).read().rows()) for name in racing.TABLES}
        first = db.epoch
    logs = [tmp_path / f"{number}.log" for number in range(writers)]
    with contextlib.ExitStack() as stack:
        looking = [stack.enter_context(child(racing, "read", lake, stop, number)) for number in range(readers)]
        writing = [
            stack.enter_context(child(racing, "write", lake, log, number, operations))
            for number, log in enumerate(logs)
        ]
        for process in writing:
            _, errors = process.communicate(timeout=1800)
            assert process.returncode == 0, errors
        stop.touch()
        for process in looking:
            said, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors
            print(said.strip())
    told = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    print(Counter(commit["what"] for commit in told))
    check_outcome(lake, before, first, told)


def check_outcome(lake: Path, before: dict[str, Counter[tuple[object, ...]]], first: int, told: list[dict]) -> None:
    """The contents are the sum of the commits told of, and every epoch has exactly one owner."""
    expected = {name: Counter(rows) for name, rows in before.items()}
    for commit in told:
        for name, weights in commit["changes"].items():
            for row, weight in weights:
                expected[name][tuple(row)] += weight
    with vk.connect(lake, engine="sail") as db:
        assert sorted(commit["epoch"] for commit in told) == list(range(first + 1, db.epoch + 1))
        for _ in range(2):
            for name in racing.TABLES:
                assert Counter(db.table(name).read().rows()) == +expected[name], name
                assert min(expected[name].values(), default=0) >= 0
            db.compact()
            db.vacuum(grace=0)
        counted = sum(commit["what"] == "count" for commit in told)
        assert db.sql("SELECT sum(n) FROM counters").rows() == [(counted,)]
        check_ledger(db)
        check_nothing_left_over(db)


def test_four_writers_and_four_readers(tmp_path: Path) -> None:
    race(tmp_path, writers=4, readers=4, operations=14)


@pytest.mark.long
def test_four_writers_and_four_readers_for_long(tmp_path: Path) -> None:
    race(tmp_path, writers=4, readers=4, operations=800)
