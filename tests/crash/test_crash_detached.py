"""A process killed while it runs detached rules loses no firing, and no action has two keys."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import viewkeeper as vk
from tests.crash import detached_work
from tests.inventory import check_ledger, check_nothing_left_over, disk_files
from tests.marks import long
from tests.processes import child
from tests.rules.receiver import Receiver, receiver
from viewkeeper.log.failpoints import DETACHED_POINTS

ROWS = 3


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


def check_all_ended(path: Path, engine: str, hook: Receiver, least: int) -> list[int]:
    """Opens the database, runs what waits, and checks every firing; the rows that were committed, at least so many."""
    with vk.connect(path, engine=engine, tuning=detached_work.TUNING) as db:
        until = time.monotonic() + 60
        while db._store.refresh().waiting:
            assert time.monotonic() < until, db.rule_firings()
            db.wait_for_rules()
        rows = sorted(row[0] for row in db.sql("SELECT n FROM t").rows())
        assert rows == list(range(len(rows)))
        assert len(rows) >= least
        copied = sorted(db.sql("SELECT n, old FROM copied").rows())
        assert copied == [(number, number) for number in rows]  # each once, with what it saw
        check_ledger(db)
        firings = [row for row in db.rule_firings() if row["rule"] == "call"]
        assert [row["outcome"] for row in firings] == ["done"] * len(rows)
        epochs = {row["epoch"] for row in firings}
        db.vacuum(grace=0)
        check_nothing_left_over(db)
        assert disk_files(path, "turns") == set()
    assert {each.json["epoch"] for each in hook.received} == epochs
    assert len({each.key for each in hook.received}) == len(rows)  # nothing was sent under two keys
    assert len({each.body for each in hook.received}) == len(rows)  # nor another document under the same key
    order = [each.json["inserted"][0]["n"] for each in hook.received]
    assert order == sorted(order)
    return rows


def run_and_kill(path: Path, engine: str, fault: str, count: int = ROWS) -> int:
    """Runs the work until it is killed; how many rows it has said to be committed."""
    with child(detached_work, path, engine, 0, count, VIEWKEEPER_FAULT=fault) as worker:
        out, errors = worker.communicate(timeout=120)
    assert worker.returncode in (0, -signal.SIGKILL), errors
    return sum(line.isdigit() for line in out.splitlines())


@pytest.mark.parametrize("time_reached", [1, *long(2)])
@pytest.mark.parametrize("point", DETACHED_POINTS)
def test_a_kill_loses_no_firing(tmp_path: Path, hook: Receiver, point: str, time_reached: int) -> None:
    detached_work.prepare(tmp_path / "lake", "sail", hook.url())
    said = run_and_kill(tmp_path / "lake", "sail", f"kill:{point}:{time_reached}")
    rows = check_all_ended(tmp_path / "lake", "sail", hook, said)
    assert len(rows) in (said, said + 1)


@pytest.mark.long
@pytest.mark.parametrize("point", ["entry-before", "entry-written", "entry-linked", "batch-written"])
@pytest.mark.parametrize("time_reached", [2, 3, 5])
def test_a_kill_at_an_entry_loses_no_firing(tmp_path: Path, hook: Receiver, point: str, time_reached: int) -> None:
    detached_work.prepare(tmp_path / "lake", "sail", hook.url())
    said = run_and_kill(tmp_path / "lake", "sail", f"kill:{point}:{time_reached}")
    check_all_ended(tmp_path / "lake", "sail", hook, said)


@pytest.mark.long
def test_kills_at_any_time_lose_no_firing(tmp_path: Path, hook: Receiver) -> None:
    chance = random.Random(13)
    detached_work.prepare(tmp_path / "lake", "sail", hook.url())
    said = 0
    for _ in range(6):
        with child(detached_work, tmp_path / "lake", "sail", said, 50) as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline().strip() == "start"
            time.sleep(chance.uniform(0.05, 2.0))
            worker.kill()
            worker.communicate()
        with vk.connect(tmp_path / "lake", engine="sail", tuning=detached_work.TUNING) as db:
            said = len(db.sql("SELECT * FROM t").rows())
    check_all_ended(tmp_path / "lake", "sail", hook, said)


@pytest.mark.long
def test_a_kill_on_apache_spark_loses_no_firing(tmp_path: Path, hook: Receiver) -> None:
    detached_work.prepare(tmp_path / "lake", "spark", hook.url())
    said = run_and_kill(tmp_path / "lake", "spark", "kill:detached-acted:1")
    check_all_ended(tmp_path / "lake", "spark", hook, said)


def test_two_processes_run_each_firing_once_and_another_one_takes_over(tmp_path: Path, hook: Receiver) -> None:
    """Both insert and both look for firings. Nobody is killed, so nothing is sent twice."""
    path = tmp_path / "lake"
    detached_work.prepare(path, "sail", hook.url())
    with child(detached_work, path, "sail", 0, 4) as first, child(detached_work, path, "sail", 4, 4) as second:
        for worker in (first, second):
            out, errors = worker.communicate(timeout=120)
            assert worker.returncode == 0, errors
            assert out.splitlines()[-1] == "done"
    with vk.connect(path, engine="sail") as db:
        assert sorted(row[0] for row in db.sql("SELECT n FROM copied").rows()) == list(range(8))
        assert db._store.state.waiting == ()
        check_ledger(db)
    assert sorted(each.json["inserted"][0]["n"] for each in hook.received) == list(range(8))
    assert [each.json["epoch"] for each in hook.received] == sorted(each.json["epoch"] for each in hook.received)


def test_firings_of_a_process_that_died_are_run_after_a_restart(tmp_path: Path, hook: Receiver) -> None:
    path = tmp_path / "lake"
    detached_work.prepare(path, "sail", hook.url())
    hook.answers["/hook"] = [503] * 3
    run_and_kill(path, "sail", "kill:entry-synced:1", 1)
    assert hook.received == []
    with child(detached_work, path, "sail", 1, 0) as worker:
        out, errors = worker.communicate(timeout=120)
        assert (worker.returncode, out.splitlines()) == (0, ["start", "done"]), errors
    assert len(hook.received) == 4
    assert check_all_ended(path, "sail", hook, 1) == [0]
