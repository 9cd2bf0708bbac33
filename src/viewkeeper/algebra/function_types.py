"""Result types of functions, where those of the arguments say enough: what Apache Spark answers for them.

A function that is not here, or has other arguments, has a type that only an engine knows. `tests/driver/test_values.py`
compares every function here with both engines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viewkeeper.algebra.expressions import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, VOID
from viewkeeper.algebra.types import Type

Kinds = Sequence[Type]
Rule = Callable[[Kinds], Type | None]

_ORDERED = ("tinyint", "smallint", "int", "bigint", "decimal", "date", "timestamp", "timestamp_ntz")
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def result_type(name: str, kinds: Sequence[Type | None]) -> Type | None:
    """The type of a function of arguments of these types; None if only an engine knows it."""
    rule = RULES.get(name)
    known = [kind for kind in kinds if kind is not None]
    return rule(known) if rule is not None and len(known) == len(kinds) else None


def _known(kinds: Kinds) -> Type | None:
    """The one type that values have, NULL literals aside."""
    found = {kind.ddl: kind for kind in kinds if kind != VOID}
    return next(iter(found.values())) if len(found) == 1 else None


def _alike(*names: str) -> Rule:
    """That of the arguments, which all have one type, with one of these names; without names, one without parts."""

    def rule(kinds: Kinds) -> Type | None:
        kind = _known(kinds)
        return kind if kind is not None and (kind.name in names or (not names and not kind.is_nested)) else None

    return rule


def _given(result: Type, *signatures: str) -> Rule:
    """A type, if the arguments have types with the names of a signature."""
    wanted = [signature.split() for signature in signatures]
    return lambda kinds: result if [kind.name for kind in kinds] in wanted else None


def _of_any(result: Type) -> Rule:
    """A type, for one argument of any type."""
    return lambda kinds: result if len(kinds) == 1 else None


def _strings(kinds: Kinds) -> Type | None:
    return STRING if kinds and all(kind.name == "string" for kind in kinds) else None


def _first(*names: str) -> Rule:
    """That of the only argument, whose type has one of these names."""
    return lambda kinds: kinds[0] if len(kinds) == 1 and kinds[0].name in names else None


def _chosen(kinds: Kinds) -> Type | None:
    """That of if(condition, value, value)."""
    return _alike()(kinds[1:]) if len(kinds) == 3 and kinds[0] == BOOLEAN else None


def _by_null(kinds: Kinds) -> Type | None:
    """That of nvl2(any, value, value)."""
    return _alike()(kinds[1:]) if len(kinds) == 3 else None


def _null_if(kinds: Kinds) -> Type | None:
    return kinds[0] if len(kinds) == 2 and kinds[0].ddl == kinds[1].ddl and not kinds[0].is_nested else None


def _whole(kinds: Kinds) -> Type | None:
    """That of floor and ceil."""
    if len(kinds) != 1:
        return None
    kind = kinds[0]
    if kind.name == "decimal":
        return Type("decimal", min(38, kind.precision - kind.scale + 1), 0)
    return BIGINT if kind.is_integer else None


def _sign(kinds: Kinds) -> Type | None:
    return DOUBLE if len(kinds) == 1 and (kinds[0].is_integer or kinds[0].name == "decimal") else None


def _remainder(kinds: Kinds) -> Type | None:
    return kinds[0] if len(kinds) == 2 and kinds[0] == kinds[1] and kinds[0].is_integer else None


RULES: dict[str, Rule] = {
    **dict.fromkeys(("coalesce", "ifnull", "nvl"), _known),
    **dict.fromkeys(("greatest", "least"), _alike(*_ORDERED)),
    "if": _chosen,
    "nvl2": _by_null,
    "nullif": _null_if,
    **dict.fromkeys(("isnull", "isnotnull"), _of_any(BOOLEAN)),
    # numbers
    "abs": _first(*_NUMBERS),
    **dict.fromkeys(("floor", "ceil", "ceiling"), _whole),
    **dict.fromkeys(("sign", "signum"), _sign),
    **dict.fromkeys(("mod", "pmod"), _remainder),
    # strings
    **dict.fromkeys(("upper", "lower", "ucase", "lcase", "reverse"), _given(STRING, "string")),
    **dict.fromkeys(("trim", "ltrim", "rtrim", "btrim"), _given(STRING, "string")),
    **dict.fromkeys(("length", "char_length", "character_length", "len", "octet_length"), _given(INT, "string")),
    **dict.fromkeys(("concat", "concat_ws"), _strings),
    **dict.fromkeys(("substring", "substr"), _given(STRING, "string int", "string int int")),
    **dict.fromkeys(("left", "right", "repeat"), _given(STRING, "string int")),
    **dict.fromkeys(("lpad", "rpad"), _given(STRING, "string int", "string int string")),
    **dict.fromkeys(("replace", "translate"), _given(STRING, "string string string")),
    "split_part": _given(STRING, "string string int"),
    **dict.fromkeys(("instr", "locate"), _given(INT, "string string")),
    **dict.fromkeys(("startswith", "endswith", "contains", "like", "ilike"), _given(BOOLEAN, "string string")),
    # dates
    **dict.fromkeys(("year", "month", "quarter", "day", "dayofmonth"), _given(INT, "date")),
    **dict.fromkeys(("dayofweek", "weekday", "dayofyear", "weekofyear"), _given(INT, "date")),
    **dict.fromkeys(("date_add", "dateadd", "date_sub", "add_months"), _given(DATE, "date int")),
    **dict.fromkeys(("datediff", "date_diff"), _given(INT, "date date")),
    "last_day": _given(DATE, "date"),
    "trunc": _given(DATE, "date string"),
    "make_date": _given(DATE, "int int int"),
    "to_date": _given(DATE, "date"),
}
"""How the type of each function follows from those of its arguments."""
