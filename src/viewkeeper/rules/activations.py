"""How often rules with parameters are activated."""

from __future__ import annotations

from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.catalog.state import State
from viewkeeper.log.storage import Storage
from viewkeeper.store.file_reading import read_files


def activation_counts(storage: Storage, state: State) -> dict[str, int]:
    """The number of activations of every rule with parameters, by its id; read from the files, without an engine."""
    found: dict[str, int] = {}
    for rule in state.rules.values():
        if rule.activations is not None:
            table = state.relations[rule.activations]
            found[rule.id] = sum(read_files(storage, table.files, table.schema)[WEIGHT].to_pylist())
    return found
