"""Odd seeds look up every deletion in the stored views; even ones run as users do."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _odd_seeds_are_checked(request: pytest.FixtureRequest) -> None:
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if isinstance(params.get("seed"), int) and params["seed"] % 2:
        request.getfixturevalue("every_change_is_checked")
