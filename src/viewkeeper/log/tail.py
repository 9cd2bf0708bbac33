"""The end of the ledger: what the newest commits changed, whichever process made them."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.catalog.state import State
from viewkeeper.log.ledger import Ledger


@dataclass(frozen=True)
class Committed:
    """A commit as the ledger records it: when it was made, and the ids of the stored relations that it changed.

    `defines`: it created, dropped or redefined relations.
    """

    epoch: int
    at: float
    changed: frozenset[str]
    defines: bool


def commits_after(ledger: Ledger, state: State, epoch: int) -> list[Committed]:
    """The commits after an epoch, up to that of a state, in order."""
    found: list[Committed] = []
    if state.epoch <= epoch:
        return found
    for entry in ledger.entries(state.number):
        if entry["kind"] != "commit":
            continue
        if entry["epoch"] <= epoch:
            break
        defines = any(entry.get(part) for part in ("created", "defined", "dropped"))
        found.append(Committed(entry["epoch"], entry["at"], frozenset(entry.get("files", {})), defines))
    found.reverse()
    return found
