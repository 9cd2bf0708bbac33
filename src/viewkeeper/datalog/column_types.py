"""Types of declared columns: Souffle's four, and those of SQL by name."""

from __future__ import annotations

from viewkeeper.algebra.types import Type, parse_type
from viewkeeper.errors import DatalogError, Place, TypeMismatch

_SOUFFLE = {
    "number": Type("bigint"),
    "unsigned": Type("bigint"),
    "float": Type("double"),
    "symbol": Type("string"),
}
"""Souffle's types in 64 bits. SQL's FLOAT is spelled `real`."""

NESTED = "the type {word} is not supported in Datalog: no term can name the parts of a value"
TAKE_APART = "take it apart in a view first: CREATE VIEW v AS SELECT id, explode(items) AS item FROM t"


def column_type(word: str, sizes: tuple[int, ...], place: Place) -> tuple[str, Type]:
    """The canonical spelling of a type, and the type."""
    lowered = word.lower()
    if lowered in _SOUFFLE and not sizes:
        return lowered, _SOUFFLE[lowered]
    if lowered in _SOUFFLE:
        raise DatalogError(f"the type {lowered} takes no size", hint=f"write {lowered}", place=place)
    if lowered in ("array", "map", "struct"):
        raise DatalogError(NESTED.replace("{word}", word), hint=TAKE_APART, place=place)
    try:
        kind = parse_type(f"{word}({','.join(map(str, sizes))})" if sizes else word)
    except TypeMismatch as problem:
        hint = "use number, float, symbol, or a type of SQL such as bigint, decimal(10,2), date, timestamp, boolean"
        refused = problem.message.endswith("not supported") or problem.message.startswith("the type ")
        raise DatalogError(problem.message, hint=problem.hint if refused else hint, place=place) from None
    return ("real" if kind.name == "float" else str(kind).lower()), kind
