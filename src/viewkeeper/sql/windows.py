"""Window functions: one Window per partition and order, arguments computed below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.algebra.expressions import Attribute, Expression, Over, column, integer
from viewkeeper.algebra.expressions import cast as algebra_cast
from viewkeeper.algebra.nodes import Node, Order, Window, WindowCall
from viewkeeper.algebra.types import Type
from viewkeeper.sql.aggregate_calls import Written, inner_call, replaced, take_apart, unique
from viewkeeper.sql.clauses import only
from viewkeeper.sql.coercion import MOST_DIGITS
from viewkeeper.sql.context import Context
from viewkeeper.sql.functions import AGGREGATES, ORDER_DEPENDENT, WINDOW_ONLY
from viewkeeper.sql.placing import Placing
from viewkeeper.sql.sail_calls import check_aggregate
from viewkeeper.sql.sail_rewrites import mended_aggregate
from viewkeeper.sql.syntax import cast
from viewkeeper.sql.templates import templated
from viewkeeper.sql.window_frames import UNBOUNDED, WHOLE, direction, frame_of
from viewkeeper.sql.window_rules import canonical

_ONE_OF_A_TIE = frozenset(
    ["row_number", "ntile", "lag", "lead", "first_value", "last_value", "nth_value", "first", "last", "any_value"]
)
_FRAMED = frozenset(["first_value", "last_value", "nth_value", "first", "last", "any_value"])
_SUMS = frozenset(["sum", "avg", "mean"])
_WITH_NULLS = frozenset(["first_value", "last_value", "nth_value", "first", "last", "any_value", "lag", "lead"])


@dataclass(frozen=True)
class _Function:
    """A window function with its parts as expressions."""

    node: exp.Window
    template: str
    parts: tuple[Expression, ...]
    """The expressions in the template."""
    partition: tuple[Expression, ...]
    order: tuple[tuple[Expression, bool, bool], ...]
    frame: str
    tie_break: bool
    result: Type | None = None
    """The type that the value is cast to; the function is computed in a wider one."""


class Windows:
    """Adds window functions to a node."""

    def __init__(self, context: Context, placing: Placing) -> None:
        self.context = context
        self.placing = placing

    def add(self, node: Node, found: Sequence[exp.Expr]) -> tuple[Node, list[tuple[exp.Expr, exp.Expr]]]:
        """The node with the functions, and the syntax that replaces each of them."""
        waiting: list[tuple[exp.Expr, exp.Expr]] = []
        for window in unique(found):
            assert isinstance(window, exp.Window)
            self._check(window)
            node, ready = self.placing.joined(node, window)
            assert isinstance(ready, exp.Window)
            waiting.append((window, canonical(self.context, ready)))
        while inner := unique(part for _, ready in waiting for part in _innermost(ready)):
            node, known = self._add(node, inner)
            waiting = [(window, replaced(ready, known)) for window, ready in waiting]
        return node, waiting

    def _check(self, window: exp.Window) -> None:
        only(self.context, window, "this", "partition_by", "order", "spec", "over")
        call = inner_call(window.this)
        if call is None or call.name.lower() not in AGGREGATES | WINDOW_ONLY:
            self.context.wrong("this is not a window function", window, "use an aggregate, or for instance row_number")

    def _add(self, node: Node, found: Sequence[exp.Expr]) -> tuple[Node, list[tuple[exp.Expr, exp.Expr]]]:
        """The node with functions that have no other functions inside, and the syntax that replaces each of them."""
        functions: list[_Function] = []
        for window in found:
            assert isinstance(window, exp.Window)
            node, function = self._read(node, window)
            functions.append(function)
        node, columns = self._computed(node, functions)
        known: list[tuple[exp.Expr, exp.Expr]] = []
        groups: dict[tuple[tuple[Attribute, ...], tuple[Order, ...]], list[_Function]] = {}
        for function in functions:
            partition = tuple(dict.fromkeys(columns[e] for e in function.partition))
            order = tuple(Order(columns[e], desc, first) for e, desc, first in function.order)
            groups.setdefault((partition, order), []).append(function)
        for (partition, order), members in groups.items():
            calls = self._calls(members, columns, partition, order)
            node = Window(node, partition, order, tuple(calls))
            for f, c in zip(members, calls, strict=True):
                value = self.context.marked(c.output, f.node)
                known.append((f.node, value if f.result is None else cast(value, f.result)))
        return node, known

    def _computed(self, node: Node, functions: Sequence[_Function]) -> tuple[Node, dict[Expression, Attribute]]:
        wanted = [
            part
            for f in functions
            for part in (*(p for p in f.parts if p.attributes), *f.partition, *(key for key, _, _ in f.order))
        ]
        node, made = self.context.extend(node, [("value", part) for part in wanted])
        return node, dict(zip(wanted, made, strict=True))

    def _calls(
        self,
        members: Sequence[_Function],
        columns: dict[Expression, Attribute],
        partition: tuple[Attribute, ...],
        order: tuple[Order, ...],
    ) -> list[WindowCall]:
        texts = [templated(f.template, *(columns.get(part, part) for part in f.parts), raises=True) for f in members]
        asked = [
            Over(call, tuple(map(column, partition)), _keys(order, needed=f.tie_break), f.frame)
            for call, f in zip(texts, members, strict=True)
        ]
        kinds = self.context.types(asked, [f.node for f in members])
        return [
            WindowCall(self.context.numbers.attribute(_name(f), kind), call, f.frame, f.tie_break)
            for f, call, kind in zip(members, texts, kinds, strict=True)
        ]

    # reading ---------------------------------------------------------------------------------------

    def _read(self, node: Node, window: exp.Window) -> tuple[Node, _Function]:
        written = take_apart(window.this)
        if not self.context.typer.coerces:
            check_aggregate(self.context, written, window, _frame_word(self.context, window))
            written = mended_aggregate(written)
        node, pieces = self._pieces(node, written)
        partition: list[Expression] = []
        for key in window.args.get("partition_by") or ():
            node, expression = self.placing.value(node, key)
            if expression.attributes:
                partition.append(expression)
        order: list[tuple[Expression, bool, bool]] = []
        for ordered in window.args["order"].expressions if window.args.get("order") else ():
            node, expression = self.placing.value(node, ordered.this)
            order.append((expression, *direction(ordered)))
        frame, tie_break = self._determined(window, written.name, bool(order))
        pieces, result = self._wider(written, pieces)
        template = "".join(piece if isinstance(piece, str) else "{}" for piece in pieces)
        parts = tuple(piece for piece in pieces if isinstance(piece, Expression))
        return node, _Function(window, template, parts, tuple(partition), tuple(order), frame, tie_break, result)

    def _wider(self, written: Written, pieces: list[str | Expression]) -> tuple[list[str | Expression], Type | None]:
        """Sums of integers and averages of decimals over a wider type, and the type of the value. Sail would not notice
        that a sum overflows, and would truncate an average."""
        value = next((piece for piece in pieces if isinstance(piece, Expression)), None)
        if self.context.typer.coerces or written.name not in _SUMS or value is None or not value.attributes:
            return pieces, None
        kind = self.context.type_of(value)
        if written.name == "sum" and kind.is_integer:
            wide, result = Type("decimal", 20, 0), Type("bigint")
        elif written.name != "sum" and kind.name == "decimal" and kind.precision + 5 <= MOST_DIGITS:
            wide = Type("decimal", kind.precision + 1, kind.scale + 1)
            result = Type("decimal", kind.precision + 4, kind.scale + 4)
        else:
            return pieces, None
        made = algebra_cast(value, wide)
        return [made if piece is value else piece for piece in pieces], result

    def _determined(self, window: exp.Window, name: str, ordered: bool) -> tuple[str, bool]:
        """The frame, and whether ties must be broken so that the function has a definite result."""
        frame = frame_of(self.context, window)
        said = frame.text if window.args.get("spec") else ""
        if name in _ONE_OF_A_TIE:
            return (WHOLE.text if name in _FRAMED and not ordered and not said else said), True
        if name in ORDER_DEPENDENT:
            if ordered and frame.kind != "ROWS":
                self.context.refuse(
                    f"{name} over an order with ties has no definite answer",
                    window,
                    "write ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                )
            return said or WHOLE.text, True
        if name not in AGGREGATES:
            return said, False
        return said, bool(said) and frame.kind == "ROWS" and not frame.is_whole

    def _pieces(self, node: Node, written: Written) -> tuple[Node, list[str | Expression]]:
        """The text of the function, with its arguments as expressions."""
        pieces: list[str | Expression] = [f"{written.name}({'DISTINCT ' if written.distinct else ''}"]
        for index, argument in enumerate(written.arguments):
            if index:
                pieces.append(", ")
            if isinstance(argument, exp.Star):
                argument = exp.Literal.number(1)
            if index == 0 and written.condition is not None:
                argument = exp.Case(ifs=[exp.If(this=written.condition.copy(), true=argument.copy())])
            node, expression = self.placing.value(node, argument)
            pieces.append(expression)
        if written.condition is not None and written.name in _WITH_NULLS:
            self.context.refuse("FILTER is for aggregates", written.node, "use CASE WHEN")
        pieces.append(")")
        for index, key in enumerate(written.order):
            node, expression = self.placing.value(node, key.this)
            down, first = direction(key)
            pieces += [", " if index else " WITHIN GROUP (ORDER BY ", expression]
            pieces.append(f" {'DESC' if down else 'ASC'} NULLS {'FIRST' if first else 'LAST'}")
        pieces += [")"] if written.order else []
        pieces += [" IGNORE NULLS"] if written.ignores_nulls else []
        pieces += [" RESPECT NULLS"] if written.respects_nulls else []
        return node, pieces


def _innermost(node: exp.Expr) -> Iterator[exp.Window]:
    """The window functions in bound syntax that have no others inside."""
    for part in node.find_all(exp.Window):
        if not any(other is not part for other in part.find_all(exp.Window)):
            yield part


def _frame_word(context: Context, window: exp.Window) -> str:
    """The class of a frame in the table of agreement. Over a whole partition, ORDER BY changes no value."""
    frame = frame_of(context, window)
    if frame.is_whole:
        return "WHOLE"
    if window.args.get("spec") is None:
        return "RUNNING"
    return frame.kind if frame.start.distance == -UNBOUNDED else f"SLIDING {frame.kind}"


def _name(function: _Function) -> str:
    call = inner_call(function.node.this)
    return call.name.lower() if call is not None else "window"


def _keys(order: tuple[Order, ...], *, needed: bool) -> tuple[tuple[Expression, bool, bool], ...]:
    """The sort keys of a window; a constant where the function needs some order."""
    if not order and needed:
        return ((integer(1), False, True),)
    return tuple((column(key.attribute), key.descending, key.nulls_first) for key in order)
