"""Errors about names of relations (taken, missing, or of another kind), each with a hint that can be typed."""

from __future__ import annotations

import difflib

from viewkeeper.algebra.schema import RESERVED, RESERVED_PREFIX, is_reserved
from viewkeeper.algebra.types import spelled
from viewkeeper.catalog.relations import AssertionView, Relation, Table
from viewkeeper.errors import AlreadyExists, NotFound, Place, SqlError, ViewkeeperError, place_of


def refuse_reserved(name: str, place: Place | None = None) -> None:
    """Raises for the name of a relation that only relations of the system can have."""
    if is_reserved(name):
        raise SqlError(
            f"'{name}' is a reserved name",
            place=place or place_of(name),
            detail=f"reserved are {', '.join(RESERVED)} and names that begin with {RESERVED_PREFIX}",
            hint=f"call it for instance '{name.lstrip('_')}'",
        )


def already_exists(there: Relation, name: str, wanted: type[Relation]) -> AlreadyExists:
    """The error for a name that is taken."""
    kind, new = there.kind_words, wanted.kind_words.upper()
    again = ""
    if isinstance(there, wanted) and wanted is not AssertionView:
        again = (
            f", or CREATE {new} IF NOT EXISTS" if wanted is Table else f", or CREATE OR REPLACE {new} {spelled(name)}"
        )
    hint = f"DROP {kind.upper()} {spelled(name)}{again}"
    return AlreadyExists(f"there is already {_article(kind)} {kind} named '{name}'", hint=hint)


def wrong_kind(there: Relation, verb: str, place: Place | None = None) -> SqlError:
    """The error for a statement such as DROP TABLE that names another kind of relation."""
    kind = there.kind_words
    hint = f"{verb} {kind.upper()} {spelled(there.name)}"
    if verb == "ALTER":
        change = "ON VIOLATION ABORT or WARN" if isinstance(there, AssertionView) else "AS SELECT ..."
        hint = "SHOW VIEWS lists the views" if isinstance(there, Table) else f"{hint} {change}"
    return SqlError(f"{there.name} is {_article(kind)} {kind}", place=place, hint=hint)


def _article(kind: str) -> str:
    return "an" if kind[0] in "aeiou" else "a"


def no_such_table(name: str, names: list[str], place: Place | None, what: str = "table") -> ViewkeeperError:
    """NotFound for a table (or a view), with the nearest name."""
    near = difflib.get_close_matches(name.lower(), [n.lower() for n in names], 1)
    if near:
        hint = f"did you mean '{next(n for n in names if n.lower() == near[0])}'?"
    else:
        hint = (
            f"the {what}s are {', '.join(names)}" if names else f"there are no {what}s yet: CREATE {what.upper()} ..."
        )
    return NotFound(f"there is no {what} named '{name}'", place=place, hint=hint)
