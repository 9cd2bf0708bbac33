"""Calls rewritten for Sail so that they give Apache Spark's results.

A rewrite is chosen by the name of the function and the types of its arguments; `{0}` stands for the first of them.
Names that begin with vk_ are the Python functions of `engine/functions_on_sail.py`. Calls that still differ are
in `sail_agreement.txt`, and refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.algebra.types import INTEGERS, Type
from viewkeeper.sql.dialect import Verbatim
from viewkeeper.sql.syntax import integer

if TYPE_CHECKING:
    from viewkeeper.sql.aggregate_calls import Written

Kinds = Sequence[Type | None]
"""The types of arguments; None for one without a column type, such as a lambda or an interval."""

Rewrite = Callable[[Sequence[exp.Expr], Kinds], str | None]
"""The template for a call with these arguments; None to leave it as it is."""


def _always(template: str) -> Rewrite:
    return lambda arguments, kinds: template


def _only(wanted: Container[str], template: str) -> Rewrite:
    """A rewrite where the first argument is of some types."""
    return lambda arguments, kinds: template if _name(kinds) in wanted else None


def _name(kinds: Kinds, place: int = 0) -> str:
    kind = kinds[place] if place < len(kinds) else None
    return kind.name if kind is not None else ""


# numbers ----------------------------------------------------------------------------------------

_WIDER = {"tinyint": "BIGINT", "smallint": "BIGINT", "int": "BIGINT", "bigint": "DECIMAL(38,0)"}


def _rounding(function: str) -> Rewrite:
    """round and bround of floats: by their shortest decimal digits."""

    def rewrite(arguments: Sequence[exp.Expr], kinds: Kinds) -> str | None:
        digits = "{1}" if len(kinds) > 1 else "0"
        if _name(kinds) == "double":
            return f"vk_{function}({{0}}, {digits})"
        if _name(kinds) == "float":
            return f"CAST(vk_{function}(CAST({{0}} AS DOUBLE), {digits}) AS FLOAT)"
        if _name(kinds) == "decimal" and function == "round" and kinds[0] is not None:
            wanted = _rounded_type(kinds[0], integer(arguments[1]) if len(arguments) > 1 else 0)
            return None if wanted is None else f"CAST(round({{0}}, {digits}) AS {wanted.ddl})"
        return None

    return rewrite


def _rounded_type(kind: Type, digits: int | None) -> Type | None:
    """The type of a decimal rounded to this many digits after the point."""
    if digits is None:
        return None
    whole = kind.precision - kind.scale + 1
    scale = max(0, min(digits, kind.scale))
    return Type("decimal", min(38, max(whole, 1 - digits) + scale), scale)


def _even(arguments: Sequence[exp.Expr], kinds: Kinds) -> str | None:
    """bround; an integer has nothing after the point."""
    digits = arguments[1] if len(arguments) > 1 else exp.Literal.number(0)
    if _name(kinds) in _WIDER and isinstance(digits, exp.Literal) and not digits.is_string:
        return "{0}"
    return _rounding("bround")(arguments, kinds)


def _logarithm(arguments: Sequence[exp.Expr], kinds: Kinds) -> str | None:
    """log(base, x) is NULL unless both are above 0."""
    return "CASE WHEN {0} > 0 AND {1} > 0 THEN log({0}, {1}) END" if len(arguments) == 2 else None


def _to_digits(function: str) -> Rewrite:
    """floor and ceil of floats to a number of digits: Apache Spark converts to decimals first. A decimal without a
    fraction stays as it is, with its type."""

    def rewrite(arguments: Sequence[exp.Expr], kinds: Kinds) -> str | None:
        if len(kinds) == 1 and kinds[0] is not None and kinds[0].name == "decimal" and kinds[0].scale == 0:
            return "{0}"
        if len(kinds) < 2 or _name(kinds) not in ("float", "double"):
            return None
        kind = "DECIMAL(14,7)" if _name(kinds) == "float" else "DECIMAL(30,15)"
        return f"{function}(CAST(vk_digits(CAST({{0}} AS DOUBLE)) AS {kind}), {{1}})"

    return rewrite


def _tried(sign: str) -> Rewrite:
    """try_add and similar functions of integers: NULL where the result does not fit."""

    def rewrite(arguments: Sequence[exp.Expr], kinds: Kinds) -> str | None:
        names = [_name(kinds, place) for place in (0, 1)]
        if len(kinds) != 2 or not all(name in _WIDER for name in names):
            return None
        kind = max(names, key=INTEGERS.__getitem__)
        wide = _WIDER[kind]
        return f"TRY_CAST(CAST({{0}} AS {wide}) {sign} CAST({{1}} AS {wide}) AS {kind})"

    return rewrite


# strings ----------------------------------------------------------------------------------------


def _end(function: str) -> Rewrite:
    """left and right: the empty string for a length below 1."""

    def rewrite(arguments: Sequence[exp.Expr], kinds: Kinds) -> str | None:
        if _name(kinds) not in ("string", *_TEXT_OF):
            return None
        text = _TEXT_OF.get(_name(kinds), "{}").format("{0}")
        return f"CASE WHEN {{1}} > 0 THEN {function}({text}, {{1}}) WHEN {{1}} <= 0 AND {{0}} IS NOT NULL THEN '' END"

    return rewrite


_CHARACTER = _only(_WIDER, "CASE WHEN {0} < 0 THEN '' ELSE chr(CAST({0} AS BIGINT) & 255) END")


def _from_json(arguments: Sequence[exp.Expr], kinds: Kinds) -> str | None:
    """from_json of an empty string: NULL."""
    given = ", ".join(f"{{{place}}}" for place in range(len(arguments)))
    return f"CASE WHEN length(trim({{0}})) > 0 THEN from_json({given}) END" if arguments else None


_TEXT_OF = {
    "float": "vk_float_text({})",
    "double": "vk_double_text({})",
    "timestamp": "CAST({} AS STRING)",
    "timestamp_ntz": "CAST({} AS STRING)",
}
"""The conversion of a value to a string for functions of strings."""


def _of_texts(name: str, most: int | None = None) -> Rewrite:
    """A function of strings that is called with numbers or times."""

    def rewrite(arguments: Sequence[exp.Expr], kinds: Kinds) -> str | None:
        last = len(kinds) if most is None else most
        parts = [_TEXT_OF.get(_name(kinds, place), "{}") if place < last else "{}" for place in range(len(kinds))]
        if all(part == "{}" for part in parts):
            return None
        return f"{name}({', '.join(part.format(f'{{{place}}}') for place, part in enumerate(parts))})"

    return rewrite


_OF_TEXTS = """
    ascii base64 bit_length btrim char_length character_length contains endswith initcap instr lcase len length
    levenshtein locate lower lpad ltrim md5 octet_length position regexp_count regexp_extract regexp_instr
    regexp_like regexp_replace repeat replace reverse right rlike rpad rtrim sha sha1 sha2 soundex split
    split_part startswith substr substring substring_index translate trim ucase upper url_encode
"""


# arrays -----------------------------------------------------------------------------------------

_CONTAINS = (
    "CASE WHEN array_contains({0}, {1}) THEN true WHEN {1} IS NULL OR size(array_compact({0})) < size({0}) THEN NULL "
    "WHEN {0} IS NOT NULL THEN false END"
)
_OVERLAP = (
    "CASE WHEN (size({0}) = 0 AND {1} IS NOT NULL) OR (size({1}) = 0 AND {0} IS NOT NULL) THEN false "
    "ELSE arrays_overlap({0}, {1}) END"
)


# times ------------------------------------------------------------------------------------------


def _field(first: int) -> Rewrite:
    """The day of the week, which Sail counts from 0."""

    def rewrite(arguments: Sequence[exp.Expr], kinds: Kinds) -> str | None:
        unit = arguments[first].name.lower() if isinstance(arguments[first], (exp.Var, exp.Literal)) else ""
        return "dayofweek({1})" if unit in ("dow", "dayofweek") else None

    return rewrite


def _days_between(arguments: Sequence[exp.Expr], kinds: Kinds) -> str | None:
    """datediff(end, start), an INT; with a unit it is another function."""
    return "CAST(datediff({0}, {1}) AS INT)" if len(arguments) == 2 else None


def _start_of_day(arguments: Sequence[exp.Expr], kinds: Kinds) -> str | None:
    """date_trunc gives a TIMESTAMP, of a DATE too."""
    return "date_trunc({0}, CAST({1} AS TIMESTAMP))" if _name(kinds, 1) not in ("timestamp", "") else None


_STARTS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "make_date(year({0}), 1, 1)"),
    **dict.fromkeys(("month", "mon", "mm"), "make_date(year({0}), month({0}), 1)"),
    "quarter": "make_date(year({0}), quarter({0}) * 3 - 2, 1)",
    "week": "date_sub({0}, (dayofweek({0}) + 5) % 7)",
}


def _start_of(arguments: Sequence[exp.Expr], kinds: Kinds) -> str | None:
    """trunc of a DATE, also outside the range of nanosecond timestamps."""
    unit = arguments[1].name.lower() if len(arguments) > 1 and isinstance(arguments[1], exp.Literal) else ""
    return _STARTS.get(unit) if _name(kinds) == "date" else None


def _seconds(arguments: Sequence[exp.Expr], kinds: Kinds) -> str | None:
    """timestamp_seconds of a number with a fraction."""
    kind = kinds[0] if kinds else None
    if kind is None or kind.name != "decimal" or kind.scale > 6 or kind.precision > 31:
        return None
    return "timestamp_micros(CAST({0} * CAST(1000000 AS DECIMAL(7,0)) AS BIGINT))"


# casts ------------------------------------------------------------------------------------------


def _cast(arguments: Sequence[exp.Expr], kinds: Kinds) -> str | None:
    to = str(arguments[1].meta.get("source") or arguments[1].sql("spark")).lower()
    name = _name(kinds)
    if to == "string" and name in ("float", "double"):
        return f"vk_{name}_text({{0}})"
    if to.startswith("decimal") and name in ("float", "double"):  # by its shortest digits, as Java converts to decimals
        return f"CAST(vk_digits(CAST({{0}} AS DOUBLE)) AS {to})"
    return None


REWRITES: dict[str, Rewrite] = {
    **{name: _of_texts(name, 1) for name in _OF_TEXTS.split()},
    "array_contains": _always(_CONTAINS),
    "arrays_overlap": _always(_OVERLAP),
    "bround": _even,
    "cast": _cast,
    "ceil": _to_digits("ceil"),
    "ceiling": _to_digits("ceil"),
    "char": _CHARACTER,
    "chr": _CHARACTER,
    "concat": _of_texts("concat"),
    "concat_ws": _of_texts("concat_ws"),
    "date_diff": _days_between,
    "date_part": _field(0),
    "date_trunc": _start_of_day,
    "datediff": _days_between,
    "datepart": _field(0),
    "extract": _field(0),
    "floor": _to_digits("floor"),
    "from_json": _from_json,
    "initcap": _only(("string",), "vk_initcap({0})"),
    "is_valid_utf8": _always("CASE WHEN {0} IS NOT NULL THEN is_valid_utf8({0}) END"),
    "isnan": _always("coalesce(isnan({0}), false)"),
    "json_array_length": _always("CASE WHEN ltrim({0}) LIKE '[%' THEN json_array_length({0}) END"),
    "left": _end("left"),
    "log": _logarithm,
    "rint": _always("vk_rint(CAST({0} AS DOUBLE))"),
    "right": _end("right"),
    "round": _rounding("round"),
    "timestamp_seconds": _seconds,
    "trunc": _start_of,
    "try_add": _tried("+"),
    "try_cast": _cast,
    "try_multiply": _tried("*"),
    "try_subtract": _tried("-"),
    "unix_seconds": _always("(unix_micros({0}) - pmod(unix_micros({0}), 1000000)) div 1000000"),
    "weekday": _always("(dayofweek({0}) + 5) % 7"),
}
"""The rewrites of calls by name."""


def rewritten(name: str, arguments: Sequence[exp.Expr], kinds: Kinds) -> exp.Expr | None:
    """The rewritten call for Sail; None if it can stay as it is."""
    rewrite = REWRITES.get(name)
    template = rewrite(arguments, kinds) if rewrite is not None else None
    return None if template is None else exp.Paren(this=filled(template, arguments))


# aggregates -------------------------------------------------------------------------------------


def mended_aggregate(call: Written) -> Written:
    """An aggregate rewritten for Sail."""
    if call.name == "percentile_cont" and len(call.arguments) == 1 and len(call.order) == 1:
        part, key = call.arguments[0], call.order[0]
        if key.args.get("desc"):
            part = exp.Sub(this=exp.Literal.number(1), expression=exp.Paren(this=part))
        return replace(call, name="percentile", arguments=(key.this, part), order=())
    return call


def filled(template: str, arguments: Sequence[exp.Expr]) -> exp.Expr:
    """A template with syntax in place of its parameters."""

    def put(node: exp.Expr) -> exp.Expr:
        found = re.fullmatch(r"_given(\d+)", node.name) if isinstance(node, exp.Column) else None
        return exp.Paren(this=arguments[int(found[1])].copy()) if found else node

    made: exp.Expr = _parsed(template).copy().transform(put, copy=False)
    return made


@lru_cache(maxsize=1_000)
def _parsed(template: str) -> exp.Expr:
    select = Verbatim().parse("SELECT " + re.sub(r"\{(\d+)\}", r"_given\1", template))[0]
    assert isinstance(select, exp.Select)
    found: exp.Expr = select.expressions[0]
    return found
