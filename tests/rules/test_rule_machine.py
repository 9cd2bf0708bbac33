"""Rules and assertions do what the model says, on both engines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.rules.machine import RuleMachine, make_template
from tests.rules.model import LIMIT, Rule
from tests.rules.steps import CHECK, PREVIEW, Step, activating, asserting, creating, insert, update
from viewkeeper.algebra.tuning import Tuning

pytestmark = pytest.mark.filterwarnings("ignore:the rules? .* (may trigger|have the same priority)")

EXAMPLES = 6
MANY = {"sail": 200, "spark": 15}
FILES = Tuning(small_rows=1)
"""Changes are written to files at once, as those of many rows are."""


@pytest.fixture
def machine(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> type[RuleMachine]:
    """The machine for an engine; Sail makes the tables and views, which is faster."""
    monkeypatch.setattr("viewkeeper.rules.processing.MOST_FIRINGS", LIMIT)
    make_template(tmp_path / "template", "sail")
    return type("Machine", (RuleMachine,), {"template": tmp_path / "template", "engine": engine})


def run(machine: type[RuleMachine], examples: int, steps: int, *phases: Phase, derandomize: bool = True) -> None:
    how = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=derandomize,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=how)


RULES = [
    Rule("r1", "part", ("inserted", "deleted", "updated"), "immediate", effect="UPDATE part SET q = 0 WHERE q < 0"),
    Rule("r2", "totals", ("inserted", "updated"), priority=1, effect="UPDATE item SET v = v + 1 WHERE v < 4"),
    Rule("r3", "supplied", nervous=True, each_row=True, condition="(SELECT count(*) FROM reach) > 1"),
    Rule("r4", "parts_of", ("inserted", "deleted")),
    Rule("r5", "kinds", coupling="detached", effect="INSERT INTO bag SELECT count(*), 'more' FROM inserted"),
]


def test_one_rule_of_each_kind(machine: type[RuleMachine]) -> None:
    """A repair before an assertion, a cascade that ends, a row that goes from one activation to another.

    The detached rule triggers itself once.
    """
    here = machine()
    try:
        made = [creating(rule) for rule in RULES]
        active = [activating("r4", value, True) for value in (1, 3)]
        asserted = [asserting("enough", "abort", "CREATE"), asserting("few", "warn", "CREATE")]
        here.transaction([*made, *active, *asserted], True)
        here.transaction(
            [
                insert("part", [(5, 1, -1)]),
                update("part", "item", 3, "id", 1),
                update("item", "v", 2, "id", 1),
                Step(CHECK),
                insert("bag", [(3, "y"), (4, "z")]),
                Step(PREVIEW),
            ],
            True,
        )
        assert {fired["name"] for fired in here.last["fired"]} == {"r1", "r2", "r3", "r4"}
        assert len(here.last["waiting"]) == 1
        while here.model.waiting:
            here.detached(2)
        assert {row[3] for row in here.model.rows["audit"] if row[0] == "r5"} == {"y", "z", "more"}
    finally:
        here.teardown()


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_rules_do_what_the_model_says(machine: type[RuleMachine]) -> None:
    run(machine, EXAMPLES, 8, Phase.generate)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("tuning", [None, FILES], ids=["rows", "files"])
def test_rules_do_what_the_model_says_at_length(machine: type[RuleMachine], engine: str, tuning: Tuning | None) -> None:
    machine.tuning = tuning
    run(machine, MANY[engine], 15, Phase.generate, Phase.shrink, derandomize=False)
