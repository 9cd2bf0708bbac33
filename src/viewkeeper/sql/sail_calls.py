"""Calls in a view's query on Sail: rewritten, left alone, or refused, by name and types of arguments."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol

from sqlglot import exp

from viewkeeper.algebra.types import Type
from viewkeeper.sql.dialect import render
from viewkeeper.sql.sail_agreement import MISSING, Argument, Compared, is_mixed, refused
from viewkeeper.sql.sail_rewrites import REWRITES

if TYPE_CHECKING:
    from viewkeeper.sql.aggregate_calls import Written

_FIELDS = ("extract", "date_part", "datepart")
UNITS = frozenset({*_FIELDS, "date_trunc", "trunc"})
"""Functions that take a unit of time, whose case does not matter."""
_SPARK = 'use Apache Spark: vk.connect(..., engine="spark")'


class Translating(Protocol):
    """What this module needs of a translation's context."""

    @property
    def refuses(self) -> bool:
        """Whether calls that differ are refused."""

    def syntax_type(self, node: exp.Expr) -> Type | None:
        """The type of a piece of bound syntax; None if it has none that a column can have."""

    def refuse(self, message: str, node: exp.Expr | None, hint: str | None = None) -> NoReturn:
        """Refuses a construct that cannot be maintained."""

    def is_constant(self, node: exp.Expr, variables: Container[str] = ()) -> bool:
        """Whether a piece of bound syntax names neither a column nor a variable of a lambda."""


def is_concerned(name: str) -> bool:
    """Whether the types of the arguments of a function have to be known on Sail."""
    return name in REWRITES or is_mixed("scalar", name)


def check(
    context: Translating,
    kind: str,
    name: str,
    arguments: Sequence[exp.Expr],
    kinds: Sequence[Type | None],
    at: exp.Expr,
    tags: Sequence[str] = (),
    variables: Container[str] = (),
) -> None:
    """Refuses a call that gives other results on Sail, or that Sail does not have."""
    if not context.refuses:
        return
    given: list[Argument] = []
    for argument, found in zip(arguments, kinds, strict=True):
        if found is None or (context.is_constant(argument, variables) and not isinstance(argument, exp.DataType)):
            text = render(argument)
            given.append(f"={text.upper() if name in UNITS else text}")
        else:
            given.append(found)
    if name in _FIELDS and kinds[-1] is None and not context.is_constant(arguments[-1], variables):
        context.refuse(f"{name} of an INTERVAL is another value on Sail than on Apache Spark", at, _SPARK)
    line = refused(kind, name, [*given, *(f"#{tag}" for tag in tags)])
    if line is not None:
        context.refuse(_message(line), at, _SPARK)


def _message(line: Compared) -> str:
    of = f" of {', '.join(_shown(argument) for argument in line.arguments)}" if line.arguments else ""
    if line.outcome == MISSING:
        return f"Sail cannot run {line.name}{of}"
    return f"{line.name}{of} is another value on Sail than on Apache Spark, for instance {line.example}"


def _shown(argument: str) -> str:
    return argument[1:] if argument.startswith(("=", "#")) else argument.upper() if argument != "constant" else argument


def check_aggregate(context: Translating, call: Written, at: exp.Expr, frame: str | None = None) -> None:
    """Refuses an aggregate or window function that gives other results on Sail; `frame` is that of a window."""
    kind = "aggregate" if frame is None else "window"
    if not context.refuses or not is_mixed(kind, call.name):
        return
    arguments = [*call.arguments, *(key.this for key in call.order)]
    kinds = [context.syntax_type(argument) for argument in arguments]
    base = () if frame is None else (frame,)
    said = {"DISTINCT": call.distinct, "FILTER": call.condition is not None, "IGNORE NULLS": call.ignores_nulls}
    for tags in ((), *((tag,) for tag, is_said in said.items() if is_said)):
        check(context, kind, call.name, arguments, kinds, at, (*base, *tags))
