"""What rules ask of higher layers: to run statements, and to call functions of the user's."""

from __future__ import annotations

from typing import Protocol

from viewkeeper.catalog.active_rules import ActiveRule
from viewkeeper.rules.transitions import RuleChange
from viewkeeper.transaction.open_transaction import OpenTransaction

CONDITION_BEGINS = "SELECT 1 AS holds WHERE ("
"""What stands before a condition in the query that tests it."""


class Actions(Protocol):
    """Carries out the actions of rules inside a transaction."""

    def statements(self, tx: OpenTransaction, text: str) -> None:
        """Runs statements one after the other."""

    def holds(self, tx: OpenTransaction, condition: str) -> bool:
        """Whether a condition is true."""

    def call(self, tx: OpenTransaction, rule: ActiveRule, change: RuleChange) -> None:
        """Calls the function that was registered under the name of an action; raises if this process has none."""
