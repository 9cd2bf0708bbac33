"""Turns of rules on a local path, which firing is next, and when one that failed is tried again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from viewkeeper.algebra.tuning import Tuning
from viewkeeper.catalog.active_rules import SQL, Action, ActiveRule, Waiting
from viewkeeper.catalog.settings import Settings
from viewkeeper.catalog.state import State
from viewkeeper.log.storage import LocalStorage
from viewkeeper.log.turns import sweep_turns, turn
from viewkeeper.rules.due import after_failure, next_firings


def test_one_at_a_time_has_a_turn(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path), "process")
    with turn(storage, "r", "a") as first, turn(storage, "r", "b") as second, turn(storage, "s", "b") as other:
        assert (first, second, other) == (True, False, True)
        sweep_turns(storage)
        assert len(storage.list("turns")) == 2  # both are held
    assert storage.list("turns") == []
    with turn(storage, "r", "b") as again:
        assert again


def test_the_turn_of_a_dead_process_is_free_and_swept(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path), "process")
    (tmp_path / "turns").mkdir()
    (tmp_path / "turns" / "r.json").touch()
    with turn(storage, "r", "a") as taken:
        assert taken
    (tmp_path / "turns" / "r.json").touch()
    sweep_turns(storage)
    assert storage.list("turns") == []


def rule(key: str, enabled: bool = True) -> ActiveRule:
    return ActiveRule(
        key, key, "t", "t", ("inserted",), "detached", False, 0, 1, None, False, Action(SQL, ""), enabled=enabled
    )


def test_the_oldest_firing_of_a_rule_that_is_not_parked_is_next() -> None:
    rules = {"r": rule("r"), "off": rule("off", enabled=False), "elsewhere": rule("elsewhere")}
    waiting = (
        Waiting("r", 9, 1),
        Waiting("r", 7, 1, attempts=1, due=1e12),
        Waiting("r", 5, 1, parked="broken"),
        Waiting("off", 5, 1),
        Waiting("elsewhere", 5, 1),
    )
    state = State(1, 9, Settings(engine="sail", time_zone="UTC"), 0.0, rules=rules, waiting=waiting)
    assert [firing.key for firing in next_firings(state, lambda each: each.name != "elsewhere")] == [("r", 7)]


def test_pauses_grow_until_a_firing_is_parked() -> None:
    tuning = Tuning(retry_seconds=2.0, action_attempts=4)
    firing, dues = Waiting("r", 7, 1, at=5.0), []
    while not firing.parked:
        firing = after_failure(firing, "no luck", 100.0, tuning)
        dues.append(firing.due - 100.0)
    assert dues == [2.0, 8.0, 32.0, 32.0]
    assert firing.parked == "4 attempts failed, the last one: no luck"
    assert after_failure(Waiting("r", 7, 1), "no luck", 100.0, replace(tuning, action_attempts=1)).parked == "no luck"
    assert firing.at == 5.0
