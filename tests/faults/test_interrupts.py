"""Ctrl-C and time limits end a statement soon, whatever the engine is busy with, and leave nothing half done."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

import viewkeeper as vk
from tests.faults import interrupted, timed_out
from tests.processes import ROOT, command
from viewkeeper.engine.running import Statement, side_by_side, statement

SOON = 3.0
"""Two seconds, and one for a machine that has other things to do."""

STATEMENTS = {
    "sail": ("select", "insert", "transaction", "begin", "initial load", "commit", "verify", "recursion"),
    "spark": ("select", "transaction", "initial load"),  # a statement takes it seconds
}


def test_ctrl_c_ends_every_kind_of_statement_and_the_next_one_works(engine: str, tmp_path: Path) -> None:
    call = command(interrupted, tmp_path / "lake", engine, *STATEMENTS[engine])
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    found = {line.pop("told"): line for line in map(json.loads, done.stdout.splitlines())}
    assert tuple(found) == STATEMENTS[engine], done.stderr
    assert {told: line["ended"] for told, line in found.items()} == dict.fromkeys(found, "KeyboardInterrupt")
    assert [told for told, line in found.items() if not line["unchanged"]] == []
    assert [(told, line["seconds"]) for told, line in found.items() if line["seconds"] > SOON] == []


@pytest.mark.spark_long
def test_a_statement_has_a_time_limit(engine: str, tmp_path: Path) -> None:
    """In a process of its own: on Sail a cross join goes on after it was told to stop."""
    call = command(timed_out, tmp_path / "lake", engine)
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    said = (
        "the statement took longer than its time limit of 0.7 seconds\n"
        "detail: it was stopped, and nothing was changed\n"
        "hint: SET statement_timeout = '10 minutes' gives it more time, SET statement_timeout = 0 any"
    )
    assert report["said"] == [said, said]
    assert [seconds for seconds in report["seconds"] if seconds > 0.7 + SOON] == []
    assert report["unchanged"]


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "SET statement_timeout = 30",
            "expected a duration with its unit in quotes here",
            "write for instance SET statement_timeout = '30 s', '500 ms' or '5 minutes', or 0 for no limit",
        ),
        (
            "SET statement_timeout = '5 m'",
            "'5 m' is not a duration",
            "write for instance SET statement_timeout = '30 s', '500 ms' or '5 minutes', or 0 for no limit",
        ),
        ("SET max_rounds = 0", "'max_rounds' is a number from 1 on", "write for instance SET max_rounds = 100000"),
        ("SET speed = 1", "there is no setting 'speed'", "the settings are statement_timeout, max_rounds, max_rows"),
    ],
)
def test_settings_that_are_refused(db: vk.Database, text: str, message: str, hint: str) -> None:
    with pytest.raises(vk.errors.SqlError) as caught:
        db.sql(text)
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert caught.value.place is not None


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_settings_stand_until_they_are_set_again(db: vk.Database) -> None:
    db.sql("SET max_rounds TO 7; SET max_rows = 8; SET statement_timeout = '2 minutes'")
    limits = db._store.engine.limits
    assert (limits.max_rounds, limits.max_rows, limits.statement_timeout) == (7, 8, 120.0)
    db.sql("SET max_rounds = DEFAULT; SET max_rows = DEFAULT; SET statement_timeout = DEFAULT")
    limits = db._store.engine.limits
    assert (limits.max_rounds, limits.max_rows, limits.statement_timeout) == (10_000, 100_000_000, None)


class Session:
    """An engine that is told to stop, and does so only the second time."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def addTag(self, tag: str) -> None:  # noqa: N802
        self.tag = tag

    def removeTag(self, tag: str) -> None:  # noqa: N802
        assert tag == self.tag

    def interruptTag(self, tag: str) -> None:  # noqa: N802
        self.told.append(tag)

    def query(self) -> str:
        while len(self.told) < 2:
            time.sleep(0.01)
        return "part of the rows"


def test_rows_of_a_query_that_was_stopped_are_dropped() -> None:
    session = Session()
    running = Statement(0.1)
    with pytest.raises(vk.errors.StatementTimeout):
        running.call(session, session.query)
    assert session.told == [running.tag] * 2
    with pytest.raises(vk.errors.StatementTimeout):
        running.call(session, lambda: pytest.fail("a stopped statement asks nothing more"))


def test_work_in_other_threads_belongs_to_the_statement() -> None:
    def work(_: int) -> str:
        with statement(None) as found:
            return found.tag

    with statement(None) as outer:
        assert side_by_side(work, range(3), 2) == [outer.tag] * 3


def test_what_came_of_a_stop_is_not_the_problem() -> None:
    def fails() -> None:
        with statement(0.0) as running:
            time.sleep(0.01)
            with pytest.raises(vk.errors.StatementTimeout):
                running.check()
            raise vk.errors.SqlError("the query is not understood")

    with pytest.raises(vk.errors.StatementTimeout):
        fails()
