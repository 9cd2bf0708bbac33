"""Statements about Python functions: DROP FUNCTION, as a frozen value. They are declared in Python."""

from __future__ import annotations

from dataclasses import dataclass

from viewkeeper.errors import Name
from viewkeeper.sql.tokens import Cursor


@dataclass(frozen=True)
class DropFunction:
    """DROP FUNCTION [IF EXISTS] name."""

    name: Name
    if_exists: bool


def read_drop_function(cursor: Cursor) -> DropFunction:
    """Reads DROP FUNCTION, after DROP."""
    cursor.expect("FUNCTION")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("the name of a function")
    cursor.finish()
    return DropFunction(name, if_exists)
