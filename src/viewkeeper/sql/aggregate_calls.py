"""Aggregate calls as they are written: name, arguments, DISTINCT, FILTER, WITHIN GROUP, IGNORE NULLS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.sql.conditions import unwrapped
from viewkeeper.sql.context import Context
from viewkeeper.sql.functions import AGGREGATES, GROUPINGS

_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
Mapping = Sequence[tuple[exp.Expr, exp.Expr]]


@dataclass(frozen=True)
class Written:
    """The parts of an aggregate call, as bound syntax."""

    node: exp.Expr
    name: str
    arguments: tuple[exp.Expr, ...]
    distinct: bool = False
    condition: exp.Expr | None = None
    order: tuple[exp.Ordered, ...] = ()
    ignores_nulls: bool = False
    respects_nulls: bool = False


def inner_call(node: exp.Expr) -> exp.Anonymous | None:
    """The function call inside FILTER, WITHIN GROUP and IGNORE NULLS."""
    while isinstance(node, _WRAPPERS):
        node = node.this
    return node if isinstance(node, exp.Anonymous) else None


def is_aggregate(node: exp.Expr) -> bool:
    """Whether bound syntax is an aggregate call."""
    call = inner_call(node)
    return call is not None and call.name.lower() in AGGREGATES


def is_grouping(node: exp.Expr) -> bool:
    """Whether bound syntax is grouping(...) or grouping_id(...)."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in GROUPINGS


def outermost(node: exp.Expr, wanted: Callable[[exp.Expr], bool]) -> Iterator[exp.Expr]:
    """The outermost parts for which `wanted` holds. The function of a window is skipped, its arguments are not."""
    if isinstance(node, exp.Window):
        call = inner_call(node.this)
        parts: list[exp.Expr] = list(call.iter_expressions()) if call is not None else [node.this]
        wrapper = node.this
        while isinstance(wrapper, _WRAPPERS):
            if isinstance(wrapper, exp.Filter):
                parts.append(wrapper.expression)
            wrapper = wrapper.this
        for name in ("partition_by", "order"):
            found = node.args.get(name)
            parts += found if isinstance(found, list) else [found] if found is not None else []
        for part in parts:
            yield from outermost(part, wanted)
    elif wanted(node):
        yield node
    else:
        for part in node.iter_expressions():
            yield from outermost(part, wanted)


def take_apart(node: exp.Expr) -> Written:
    """The parts of an aggregate call."""
    condition: exp.Expr | None = None
    order: tuple[exp.Ordered, ...] = ()
    ignores = respects = False
    inside = node
    while isinstance(inside, _WRAPPERS):
        if isinstance(inside, exp.Filter):
            condition = inside.expression.this
        elif isinstance(inside, exp.WithinGroup):
            order = tuple(inside.expression.expressions)
        elif isinstance(inside, exp.IgnoreNulls):
            ignores = True
        elif isinstance(inside, exp.RespectNulls):
            respects = True
        inside = inside.this
    arguments = list(inside.expressions)
    distinct = False
    if arguments and isinstance(arguments[0], exp.Distinct):
        distinct = True
        arguments = [*arguments[0].expressions, *arguments[1:]]
    return Written(node, inside.name.lower(), tuple(arguments), distinct, condition, order, ignores, respects)


def separator(context: Context, call: Written) -> exp.Expr | None:
    """The separator of listagg; None if it is missing or NULL, which mean the same."""
    if not call.arguments:
        context.wrong(f"{call.name} takes a value", call.node, None)
    if len(call.arguments) == 1:
        return None
    given = call.arguments[1]
    inside = given
    while isinstance(inside, (exp.Paren, exp.Cast)):
        inside = inside.this
    if isinstance(inside, exp.Null):
        return None
    if context.attributes_in(given):
        context.refuse(f"the separator of {call.name} is a constant", call.node, "write it as a string")
    if isinstance(given, (exp.Literal, exp.HexString)):
        return given.copy()
    return exp.Anonymous(this="coalesce", expressions=[given.copy(), exp.Literal.string("")])


_EITHER_WAY = (exp.Add, exp.Mul, exp.EQ, exp.NEQ, exp.And, exp.Or)
"""Operators whose sides can change places."""


def same(one: exp.Expr, other: exp.Expr) -> bool:
    """Whether two pieces of bound syntax are the same, or differ in the order of what an operator takes either way."""
    one, other = unwrapped(one), unwrapped(other)
    if one == other:
        return True
    if type(one) is not type(other) or not isinstance(one, _EITHER_WAY):
        return False
    left, right, first, second = one.this, one.expression, other.this, other.expression
    return (same(left, first) and same(right, second)) or (same(left, second) and same(right, first))


def replaced(node: exp.Expr, known: Mapping) -> exp.Expr:
    """Bound syntax with computed pieces replaced by what `known` has for them, the outermost first."""
    if not known:
        return node

    pieces = [(unwrapped(piece), instead) for piece, instead in known]

    def change(part: exp.Expr) -> exp.Expr:
        for piece, instead in pieces:
            if type(part) is type(piece) and same(part, piece):
                return instead.copy()
        return part

    result: exp.Expr = node.copy().transform(change, copy=False)
    return result


def unique(nodes: Iterable[exp.Expr]) -> list[exp.Expr]:
    """Pieces of syntax, each once."""
    found: list[exp.Expr] = []
    for node in nodes:
        if not any(same(node, other) for other in found):
            found.append(node)
    return found
