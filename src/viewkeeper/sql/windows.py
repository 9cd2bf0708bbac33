"""Window functions: one Window per partition and order, arguments computed below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.algebra.expressions import Attribute, Expression
from viewkeeper.algebra.nodes import Node, Order, Window, WindowCall
from viewkeeper.sql.aggregate_calls import Written, inner_call, take_apart, unique
from viewkeeper.sql.context import Context
from viewkeeper.sql.functions import AGGREGATES, ORDER_DEPENDENT, WINDOW_ONLY
from viewkeeper.sql.placing import Placing

_FULL = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
_ONE_OF_A_TIE = frozenset(
    ["row_number", "ntile", "lag", "lead", "first_value", "last_value", "nth_value", "first", "last", "any_value"]
)
_FRAMED = frozenset(["first_value", "last_value", "nth_value", "first", "last", "any_value"])
_WITH_NULLS = frozenset(["first_value", "last_value", "nth_value", "first", "last", "any_value", "lag", "lead"])


def resolve_named_windows(context: Context, tree: exp.Select) -> exp.Select:
    """The query with each OVER w written out. A copy, if there is anything to do."""
    named = {window.name.lower(): window for window in tree.args.get("windows") or ()}
    if not any(isinstance(node.args.get("alias"), exp.Identifier) for node in tree.find_all(exp.Window)):
        return tree
    copy = tree.copy()
    for node in list(copy.find_all(exp.Window)):
        alias = node.args.get("alias")
        if not isinstance(alias, exp.Identifier) or node.find_ancestor(exp.Query) is not copy:
            continue
        found = named.get(alias.name.lower())
        if found is None:
            context.wrong(f"there is no window '{alias.name}'", node, "define it with WINDOW name AS (...)")
        for part in ("partition_by", "order", "spec"):
            if not node.args.get(part) and found.args.get(part):
                value = found.args[part]
                node.set(part, [one.copy() for one in value] if isinstance(value, list) else value.copy())
        node.set("alias", None)
    return copy


@dataclass(frozen=True)
class _Function:
    """A window function with its parts as expressions."""

    node: exp.Window
    pieces: tuple[str | Expression, ...]
    partition: tuple[Expression, ...]
    order: tuple[tuple[Expression, bool, bool], ...]
    frame: str
    tie_break: bool


class Windows:
    """Adds window functions to a node."""

    def __init__(self, context: Context, placing: Placing) -> None:
        self.context = context
        self.placing = placing

    def add(self, node: Node, found: Sequence[exp.Expr]) -> tuple[Node, list[tuple[exp.Expr, exp.Expr]]]:
        """The node with the functions, and what stands for each of them."""
        functions: list[_Function] = []
        for window in unique(found):
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
            known += [(f.node, self.context.marked(c.output, f.node)) for f, c in zip(members, calls, strict=True)]
        return node, known

    def _computed(self, node: Node, functions: Sequence[_Function]) -> tuple[Node, dict[Expression, Attribute]]:
        wanted = [
            part
            for f in functions
            for part in (*f.pieces, *f.partition, *(key for key, _, _ in f.order))
            if isinstance(part, Expression)
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
        texts = [
            Expression(tuple(columns[p] if isinstance(p, Expression) else p for p in f.pieces), raises=True)
            for f in members
        ]
        asked = [
            Expression((*told.parts, *_over(partition, order, f.frame, needs_order=f.tie_break)), raises=True)
            for told, f in zip(texts, members, strict=True)
        ]
        kinds = self.context.types(asked, [f.node for f in members])
        return [
            WindowCall(self.context.numbers.attribute(_name(f), kind), told, f.frame, f.tie_break)
            for f, told, kind in zip(members, texts, kinds, strict=True)
        ]

    # reading ---------------------------------------------------------------------------------------

    def _read(self, node: Node, window: exp.Window) -> tuple[Node, _Function]:
        call = inner_call(window.this)
        if call is None or call.name.lower() not in AGGREGATES | WINDOW_ONLY:
            self.context.wrong("this is not a window function", window, "use an aggregate, or for instance row_number")
        written = take_apart(window.this)
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
        frame = frame_text(self.context, window.args.get("spec"))
        frame, tie_break = self._determined(window, written.name, bool(order), frame)
        return node, _Function(window, tuple(pieces), tuple(partition), tuple(order), frame, tie_break)

    def _determined(self, window: exp.Window, name: str, ordered: bool, frame: str) -> tuple[str, bool]:
        """The frame, and whether ties must be broken so that the function has one answer."""
        if name in _ONE_OF_A_TIE:
            return (_FULL if name in _FRAMED and not ordered and not frame else frame), True
        if name in ORDER_DEPENDENT:
            if ordered and not frame.startswith("ROWS"):
                self.context.refuse(
                    f"{name} over an order with ties has no definite answer",
                    window,
                    "write ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                )
            return frame or _FULL, True
        if name not in AGGREGATES:
            return frame, False
        return frame, frame.startswith("ROWS") and frame != _FULL

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
            if expression.attributes:
                pieces.append(expression)
            else:
                pieces.append(expression.sql)
        if written.condition is not None and written.name in _WITH_NULLS:
            self.context.refuse("FILTER is for aggregates", written.node, "use CASE WHEN")
        pieces.append(")")
        if written.ignores_nulls:
            pieces.append(" IGNORE NULLS")
        return node, pieces


def _name(function: _Function) -> str:
    call = inner_call(function.node.this)
    return call.name.lower() if call is not None else "window"


def _over(
    partition: tuple[Attribute, ...], order: tuple[Order, ...], frame: str, *, needs_order: bool
) -> list[str | Attribute]:
    """OVER (...) with the attributes cut out."""
    parts: list[str | Attribute] = [" OVER ("]
    for index, attribute in enumerate(partition):
        parts += [", " if index else "PARTITION BY ", attribute]
    for index, key in enumerate(order):
        nulls = "FIRST" if key.nulls_first else "LAST"
        direction_text = f" {'DESC' if key.descending else 'ASC'} NULLS {nulls}"
        parts += [", " if index else " ORDER BY ", key.attribute, direction_text]
    if not order and needs_order:
        parts.append(" ORDER BY 1")
    parts.append(f" {frame})")
    return parts


def direction(key: exp.Ordered) -> tuple[bool, bool]:
    """Whether a sort key is descending, and whether NULLs come first (Spark: first in ascending order)."""
    descending = bool(key.args.get("desc"))
    first = key.args.get("nulls_first")
    return descending, (not descending) if first is None else bool(first)


def frame_text(context: Context, spec: exp.Expr | None) -> str:
    """The text of a frame; empty for none."""
    if spec is None:
        return ""
    if spec.args.get("exclude"):
        context.refuse("EXCLUDE in a window frame is not supported", spec, None)

    def bound(which: str, default: str) -> str:
        value, side = spec.args.get(which), spec.args.get(f"{which}_side")
        if value is None:
            return default
        told = value.upper() if isinstance(value, str) else context.template(value).sql
        return f"{told} {side.upper()}" if side and told != "CURRENT ROW" else told

    kind = str(spec.args.get("kind") or "ROWS").upper()
    return f"{kind} BETWEEN {bound('start', 'UNBOUNDED PRECEDING')} AND {bound('end', 'CURRENT ROW')}"
