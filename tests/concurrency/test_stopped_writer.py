"""A writer that sleeps between its batch and its entry wakes up to a changed database: nothing torn, nothing lost."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from pathlib import Path

import pytest

import viewkeeper as vk
from tests.concurrency import stopping_writer
from tests.inventory import check_ledger, check_nothing_left_over, disk_files
from tests.processes import child
from viewkeeper.log import storage

ALL = tuple(itertools.product(("insert", "update"), ("live", "dead"), ("files",)))
SHORT = {"batch-synced": ALL[3:], "entry-before": ALL, "entry-written": (ALL[0], ALL[3])}
"""What is tried at each point in the normal run."""

INLINED = tuple(itertools.product(("insert", "update"), ("live", "dead"), ("entry",)))
"""Rows in the entry itself: there is no batch that could be swept."""

CASES = [
    *(
        pytest.param(point, *case, marks=() if case in SHORT[point] else pytest.mark.long)
        for point in SHORT
        for case in ALL
    ),
    *(("entry-before", *case) for case in INLINED),
    *(pytest.param("entry-written", *case, marks=pytest.mark.long) for case in INLINED),
]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        db.sql(
            """CREATE TABLE events (who STRING, number BIGINT);
            CREATE TABLE mirror (who STRING, number BIGINT);
            CREATE TABLE counters (id BIGINT PRIMARY KEY, n BIGINT);
            INSERT INTO counters VALUES (1, 0), (2, 0);
            INSERT INTO events VALUES ('before', 0)"""
        )
    return tmp_path / "lake"


def wait_until_stopped(writer: subprocess.Popen[str]) -> None:
    _, status = os.waitpid(writer.pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        assert writer.stderr is not None
        raise AssertionError(f"the writer ended before it came to the point: {writer.stderr.read()}")


def others_work(db: vk.Database, times: int) -> None:
    """What B does while A sleeps: commits that touch the same and other rows, compaction, and a sweep."""
    for number in range(1, times + 1):
        with db.transaction() as tx:
            tx.insert("events", [("B", number)])
            tx.insert("mirror", [("B", number)])
        db.sql("UPDATE counters SET n = n + 1 WHERE id = 1")
    db.compact()
    db.vacuum(grace=0)


def rows_of(db: vk.Database, table: str, who: str) -> list[int]:
    return sorted(number for (number,) in db.sql(f"SELECT number FROM {table} WHERE who = '{who}'").rows())


@pytest.mark.parametrize(("point", "action", "lease", "form"), CASES)
def test_a_stopped_writer_wakes_up(
    lake: Path, monkeypatch: pytest.MonkeyPatch, point: str, action: str, lease: str, form: str
) -> None:
    monkeypatch.setattr(storage, "LOCK_SECONDS", 0.2)  # the sleeper holds the lock, so everyone waits that long
    with (
        vk.connect(lake, engine="sail") as db,
        child(stopping_writer, lake, action, form, VIEWKEEPER_FAULT=f"stop:{point}") as writer,
    ):
        wait_until_stopped(writer)
        before = db.epoch
        if lease == "dead":
            for path in disk_files(lake, "leases") - {db._store.lease.path}:
                (lake / path).unlink()
        others_work(db, 3)
        assert db.epoch == before + 6
        writer.send_signal(signal.SIGCONT)
        said, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
        told = [line.split()[0] for line in said.splitlines()]

        swept = lease == "dead" and form == "files"
        if not swept and action == "insert":
            assert told == ["committed"], "nothing it has read was changed, and its batch was not swept"
        else:
            assert told == ["conflict", "committed"]
        if swept:
            assert "taken for dead" in said.splitlines()[0]
        attempt = len(told)
        assert db.epoch == before + 7 == int(said.splitlines()[-1].split()[1])
        check_ledger(db)
        assert rows_of(db, "events", "B") == rows_of(db, "mirror", "B") == [1, 2, 3]
        if action == "insert":
            assert rows_of(db, "events", "A") == rows_of(db, "mirror", "A") == [attempt]
        else:
            assert rows_of(db, "mirror", "A") == [4]
        counters = dict(db.sql("SELECT id, n FROM counters").rows())
        assert counters == {1: 3 if action == "insert" else 4, 2: 0}
        db.compact()
        db.vacuum(grace=0)
        check_nothing_left_over(db)
        assert rows_of(db, "mirror", "A") == ([attempt] if action == "insert" else [4])


def test_a_sweep_spares_the_batch_of_a_sleeping_writer(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "LOCK_SECONDS", 0.2)
    with (
        vk.connect(lake, engine="sail") as db,
        child(stopping_writer, lake, "insert", "files", VIEWKEEPER_FAULT="stop:entry-before") as writer,
    ):
        wait_until_stopped(writer)
        state = db._store.refresh()
        named = {file.path for relation in state.relations.values() for file in relation.files}
        unnamed = disk_files(lake, "relations") - named
        assert len(unnamed) == 2
        db.vacuum(grace=0)
        assert unnamed <= disk_files(lake, "relations")
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        db.vacuum(grace=0)
        check_nothing_left_over(db)
        assert rows_of(db, "events", "A") == []


def test_two_transactions_of_a_revoked_handle(lake: Path) -> None:
    """Both have written under the lease that was taken for dead; renewing it for one must not let the other pass."""
    with vk.connect(lake, engine="sail") as first, vk.connect(lake, engine="sail") as second:
        rows = [("A", number) for number in range(150_000)]
        one, two = first.transaction(), first.transaction()
        one.insert("events", rows)
        two.insert("mirror", rows)
        (lake / first._store.lease.path).unlink()
        assert second.vacuum(grace=0).files > 0
        for transaction in (one, two):
            with pytest.raises(vk.errors.Conflict, match="taken for dead"):
                transaction.commit()
        assert rows_of(second, "events", "A") == rows_of(second, "mirror", "A") == []
        with first.transaction() as again:
            again.insert("mirror", rows)
        assert len(rows_of(second, "mirror", "A")) == 150_000
        second.vacuum(grace=0)
        assert len(rows_of(first, "mirror", "A")) == 150_000
