"""Rules and assertions do what the model says, on both engines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.rules.machine import RuleMachine, make_template
from tests.rules.model import LIMIT

EXAMPLES = {"sail": 6, "spark": 1}
STEPS = {"sail": 8, "spark": 4}
MANY = {"sail": 300, "spark": 25}


@pytest.fixture
def machine(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> type[RuleMachine]:
    monkeypatch.setattr("viewkeeper.rules.processing.MOST_FIRINGS", LIMIT)
    make_template(tmp_path / "template", engine)
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


def test_rules_do_what_the_model_says(machine: type[RuleMachine], engine: str) -> None:
    run(machine, EXAMPLES[engine], STEPS[engine], Phase.generate)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_rules_do_what_the_model_says_at_length(machine: type[RuleMachine], engine: str) -> None:
    run(machine, MANY[engine], 15, Phase.generate, Phase.shrink, derandomize=False)
