"""Functions that the driver computes as the engines do. Names and types decide; a few look at the values too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra import expressions as e
from viewkeeper.algebra.expressions import BOOLEAN, INT, STRING, VOID
from viewkeeper.algebra.types import Type
from viewkeeper.driver.numbers import LeftToEngine, as_values, with_sign

Kinds = Sequence[Type]


@dataclass(frozen=True)
class Function:
    """One function: the types it takes, the type it returns, and how it is computed from the rows and the call."""

    takes: Callable[[Kinds, e.Call], bool]
    type: Callable[[Kinds], Type | None]
    compute: Callable[[Any, e.Call], Any]


def _known(kinds: Kinds) -> Type | None:
    found = {kind.ddl: kind for kind in kinds if kind != VOID}
    return next(iter(found.values())) if len(found) == 1 else None


def _alike(*names: str) -> Callable[[Kinds, e.Call], bool]:
    """Takes values of one type with one of these names."""

    def takes(kinds: Kinds, node: e.Call) -> bool:
        kind = _known(kinds)
        return kind is not None and (kind.name in names or (not names and not kind.is_nested))

    return takes


def _exactly(*wanted: str) -> Callable[[Kinds, e.Call], bool]:
    """Takes values of just these types."""
    return lambda kinds, node: [kind.name for kind in kinds] == list(wanted)


def _of(function: Callable[..., Any]) -> Callable[[Any, e.Call], Any]:
    """A function of arrays."""
    return lambda rows, node: function(*(rows.of(argument) for argument in node.arguments))


def _coalesced(rows: Any, node: e.Call) -> Any:
    found = as_values(rows.of(node.arguments[0]), rows.count)
    for argument in node.arguments[1:]:
        more = rows.if_reached(pc.is_null(found), argument)
        if pa.types.is_null(found.type):
            found = as_values(more, rows.count)
        elif not pa.types.is_null(more.type):
            found = pc.coalesce(found, more)
    return found


def _positive(rows: Any, node: e.Call) -> Any:
    return with_sign(pc.abs_checked, rows.of(node.arguments[0]))


def _extreme(function: Callable[..., Any]) -> Callable[[Any, e.Call], Any]:
    def compute(rows: Any, node: e.Call) -> Any:
        values = [rows.of(argument) for argument in node.arguments]
        return function(*[value for value in values if not pa.types.is_null(value.type)], skip_nulls=True)

    return compute


def _ascii(function: Callable[[Any], Any]) -> Callable[[Any, e.Call], Any]:
    """A function of strings in which engines agree for ASCII only."""

    def compute(rows: Any, node: e.Call) -> Any:
        found = as_values(rows.of(node.arguments[0]), rows.count)
        if not pc.all(pc.string_is_ascii(found), min_count=0).as_py():
            raise LeftToEngine("letters beyond ASCII")
        return function(found)

    return compute


def _joined(rows: Any, node: e.Call) -> Any:
    values = [rows.of(argument) for argument in node.arguments]
    return pc.binary_join_element_wise(*values, pa.scalar(""), null_handling="emit_null")


def _chosen(rows: Any, node: e.Call) -> Any:
    test, one, other = node.arguments
    return rows.case(e.Case(((test, one),), other))


def _has_pattern(kinds: Kinds, node: e.Call) -> bool:
    pattern = node.arguments[1] if len(node.arguments) == 2 else None
    return (
        [kind.name for kind in kinds] == ["string", "string"]
        and isinstance(pattern, e.Literal)
        and "\\" not in str(pattern.value)
    )


def _like(rows: Any, node: e.Call) -> Any:
    pattern = node.arguments[1]
    assert isinstance(pattern, e.Literal)
    return pc.match_like(as_values(rows.of(node.arguments[0]), rows.count), pattern=str(pattern.value))


def _date_part(function: Callable[[Any], Any]) -> Callable[[Any, e.Call], Any]:
    return lambda rows, node: function(rows.of(node.arguments[0])).cast(pa.int32())


_CHOICE = Function(_alike(), _known, _coalesced)
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_ORDERED = ("tinyint", "smallint", "int", "bigint", "decimal", "date", "timestamp", "timestamp_ntz")


def _boolean(kinds: Kinds) -> Type:
    return BOOLEAN


def _int(kinds: Kinds) -> Type:
    return INT


def _string(kinds: Kinds) -> Type:
    return STRING


def _first(kinds: Kinds) -> Type:
    return kinds[0]


FUNCTIONS: dict[str, Function] = {
    "coalesce": _CHOICE,
    "ifnull": _CHOICE,
    "nvl": _CHOICE,
    "abs": Function(lambda kinds, node: len(kinds) == 1 and kinds[0].name in _NUMBERS, _first, _positive),
    "greatest": Function(_alike(*_ORDERED), _known, _extreme(pc.max_element_wise)),
    "least": Function(_alike(*_ORDERED), _known, _extreme(pc.min_element_wise)),
    "if": Function(
        lambda kinds, node: len(kinds) == 3 and kinds[0] == BOOLEAN and _alike()(kinds[1:], node),
        lambda kinds: _known(kinds[1:]),
        _chosen,
    ),
    "isnull": Function(lambda kinds, node: len(kinds) == 1, _boolean, _of(pc.is_null)),
    "isnotnull": Function(lambda kinds, node: len(kinds) == 1, _boolean, _of(pc.is_valid)),
    "upper": Function(_exactly("string"), _string, _ascii(pc.utf8_upper)),
    "lower": Function(_exactly("string"), _string, _ascii(pc.utf8_lower)),
    "length": Function(_exactly("string"), _int, _of(lambda found: pc.utf8_length(found).cast(pa.int32()))),
    "char_length": Function(_exactly("string"), _int, _of(lambda found: pc.utf8_length(found).cast(pa.int32()))),
    "concat": Function(lambda kinds, node: bool(kinds) and _alike("string")(kinds, node), _string, _joined),
    "like": Function(_has_pattern, _boolean, _like),
    "year": Function(_exactly("date"), _int, _date_part(pc.year)),
    "month": Function(_exactly("date"), _int, _date_part(pc.month)),
    "day": Function(_exactly("date"), _int, _date_part(pc.day)),
    "quarter": Function(_exactly("date"), _int, _date_part(pc.quarter)),
}
"""The functions by name."""
