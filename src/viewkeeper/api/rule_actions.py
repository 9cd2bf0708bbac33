"""Functions of the user's as actions of rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from viewkeeper.api.transaction import ActionTransaction
from viewkeeper.catalog.active_rules import ActiveRule
from viewkeeper.errors import NotFound, SqlError
from viewkeeper.rules.transitions import RuleChange
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.sql.tokens import split
from viewkeeper.statements.dispatch import StatementActions
from viewkeeper.transaction.open_transaction import OpenTransaction

if TYPE_CHECKING:
    from viewkeeper.api.database import Database

RuleFunction: TypeAlias = Callable[[RuleChange, ActionTransaction], Any]
"""The action of a rule in Python: it is given the change, and a transaction to change tables in."""


class RuleActions(StatementActions):
    """The actions of a database object's rules: SQL, and the functions that were registered with it."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._functions: dict[str, RuleFunction] = {}

    def register(self, name: str, function: RuleFunction) -> None:
        """Registers the function of a rule."""
        self._functions[name.lower()] = function

    def has(self, rule: ActiveRule) -> bool:
        """Whether the function of a rule was registered here."""
        return rule.action.text.lower() in self._functions

    def call(self, tx: OpenTransaction, rule: ActiveRule, change: RuleChange) -> None:
        """Calls the function of a rule."""
        function = self._functions.get(rule.action.text.lower())
        if function is None:
            raise NotFound(
                f"the rule {rule.name} calls a Python function that this process has not registered",
                detail="nothing was changed",
                hint=f"run its @db.rule(...) again after connect(), or ALTER RULE {rule.name} DISABLE",
            )
        function(change, ActionTransaction(self._db, tx))


def rule_statement(
    name: str,
    on: str,
    when: str,
    nervous: bool,
    coupling: str,
    priority: int,
    condition: str | None,
    each_row: bool,
) -> sql.CreateRule:
    """The statement of a rule that is made in Python, read from its parts as if it had been typed."""
    words = ["CREATE OR REPLACE RULE", f"`{name}`", "NERVOUS" if nervous else "STRICT", coupling.upper()]
    words += [f"PRIORITY {priority}", "ON", on, "WHEN", when.upper()]
    words += [f"IF ({condition})"] if condition else []
    words += ["FOR EACH ROW"] if each_row else []
    text = " ".join([*words, "DO PYTHON", f"`{name}`"])
    parsed = sql.parse(split(text)[0])
    if not isinstance(parsed, sql.CreateRule):
        raise SqlError(f"'{name}' is not the name of a rule", hint="use letters, digits and _")
    return parsed
