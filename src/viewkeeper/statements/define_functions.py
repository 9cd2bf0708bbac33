"""Python functions that the database imports by module and name: declares and drops them in a transaction."""

from __future__ import annotations

import difflib

from viewkeeper.catalog.declared_functions import Function, users_of
from viewkeeper.errors import ConstraintViolation, NotFound, Place
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.transaction.open_transaction import OpenTransaction


def declare_function(tx: OpenTransaction, function: Function) -> bool:
    """Declares a function, or replaces one that no view uses; returns whether anything changes."""
    there = tx.function(function.name)
    if there == function:
        return False
    if there is not None:
        _check_unused(tx, there, "replaced", None)
    tx.functions[function.name.lower()] = function
    return True


def drop_function(tx: OpenTransaction, statement: sql.DropFunction) -> None:
    """DROP FUNCTION; refused if a view uses it."""
    name, place = statement.name, statement.name.place
    there = tx.function(name)
    if there is None:
        if statement.if_exists:
            return
        near = difflib.get_close_matches(name.lower(), tx.function_names(), 1)
        hint = f"did you mean '{near[0]}'?" if near else "SHOW FUNCTIONS lists the declared ones"
        raise NotFound(f"there is no function named '{name}'", place=place, hint=hint)
    _check_unused(tx, there, "dropped", place)
    tx.functions[there.name.lower()] = None


def _check_unused(tx: OpenTransaction, function: Function, what: str, place: Place | None) -> None:
    users = users_of(tx.alive(), function.name)
    if users:
        raise ConstraintViolation(
            f"the function {function.name} cannot be {what}: {', '.join(users[:5])} {_use(users)} it",
            detail=f"it is {function.target}, which returns {function.returns.upper()}",
            hint=f"drop what uses it first: DROP VIEW {users[0]}; or declare another function under a name of its own",
            place=place,
        )


def _use(users: list[str]) -> str:
    return "uses" if len(users) == 1 else "use"
