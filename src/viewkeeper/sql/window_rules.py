"""Window functions rewritten so that their results do not depend on the order in which an engine reads rows.

Each rewrite rule gives the value of the function in terms of window functions that do not depend on the order of peers
(rows that are equal in ORDER BY), and on which the engines agree. All work on bound syntax without subqueries; a rule
may nest one window function in another.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeeper.algebra.types import Type
from viewkeeper.sql.aggregate_calls import Written, separator, take_apart
from viewkeeper.sql.context import Context
from viewkeeper.sql.functions import ORDERED, SUMS_OF_FLOATS
from viewkeeper.sql.sail_rewrites import filled
from viewkeeper.sql.window_frames import SO_FAR, WHOLE, Frame, direction, frame_of

_ROWS_HINT = "write ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_EDGES = {"first": -1, "first_value": -1, "any_value": -1, "last": 1, "last_value": 1}
_LISTS = frozenset({"collect_list", "array_agg", "collect_set"})
_TOTALS = frozenset({"sum", "try_sum", "avg", "mean", "try_avg"})
_NO_FRAME = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"})


def canonical(context: Context, window: exp.Window) -> exp.Expr:
    """A window function with a definite result; the same one if it has that already."""
    rule = _Rule(context, window)
    name = rule.written.name
    if window.args.get("spec") and name in _NO_FRAME and (rule.frame != SO_FAR or name in ("lag", "lead")):
        context.wrong(f"{name} takes no frame", window, f"leave out {rule.frame.kind} BETWEEN")
    if rule.written.order and name not in ORDERED:
        context.wrong(f"{name} takes no WITHIN GROUP", window, "leave it out")
    if name in _EDGES:
        return rule.edge()
    if name == "nth_value":
        return rule.nth()
    if name in ("listagg", "string_agg"):
        return rule.joined()
    if name in _LISTS:
        return rule.listed()
    if name in ("min_by", "max_by"):
        return rule.by_key()
    if name in ("sum", "avg", "mean") and not context.typer.coerces and rule.is_lossy():
        return rule.added()
    if name in SUMS_OF_FLOATS and context.repeatable and rule.is_inexact():
        return rule.steady()
    return window


class _Rule:
    def __init__(self, context: Context, window: exp.Window) -> None:
        self.context = context
        self.window = window
        self.written: Written = take_apart(window.this)
        self.frame: Frame = frame_of(context, window)
        self.partition: list[exp.Expr] = list(window.args.get("partition_by") or ())
        order = window.args.get("order")
        self.order: list[exp.Ordered] = list(order.expressions) if order is not None else []

    # building --------------------------------------------------------------------------------------

    def _over(
        self,
        call: exp.Expr,
        *,
        peers: bool = False,
        order: Sequence[exp.Expr] | None = None,
        frame: Frame | None = None,
    ) -> exp.Window:
        """A call over the same window, over the peers of a row, or in another order or frame."""
        partition = [*self.partition, *((key.this for key in self.order) if peers else ())]
        keys = order if order is not None else () if peers else self.order
        window = exp.Window(this=call, partition_by=[part.copy() for part in partition], over="OVER")
        if keys:
            window.set("order", exp.Order(expressions=[_key(key) for key in keys]))
        chosen = frame or (WHOLE if peers else self.frame)
        window.set("spec", _spec(chosen) if frame or peers else _copy(self.window.args.get("spec")))
        return window

    def _given(self, value: exp.Expr) -> exp.Expr:
        """The value where FILTER holds."""
        if self.written.condition is None:
            return value.copy()
        return exp.Case(ifs=[exp.If(this=self.written.condition.copy(), true=value.copy())])

    def _values(self) -> list[exp.Expr]:
        first, *rest = self.written.arguments
        return [self._given(first), *(part.copy() for part in rest)]

    def _type(self, value: exp.Expr) -> Type:
        return self.context.type_of(self.context.expression(value), self.window)

    # first, last, nth ------------------------------------------------------------------------------

    def edge(self) -> exp.Expr:
        """first_value, last_value over RANGE: the smallest or largest value of the rows at the edge of the frame.

        Where the frame reaches the edge of the partition, it stays as it is: the order of rows decides, and the whole
        row breaks ties. Elsewhere all peers see the same frame, and must get the same value.
        """
        side = _EDGES[self.written.name]
        at = self.frame.start if side < 0 else self.frame.end
        if self.frame.kind == "ROWS" or (at.distance is not None and abs(at.distance) == float("inf")):
            return self.window
        value, ignores = self._chosen_value()
        self._refuse_without_order(value)
        last = [exp.Literal.string("w"), _is_null(value, negated=True), exp.Literal.string("v"), value.copy()]
        if at.distance == 0 and not ignores:
            return _field(self._over(_call("min" if side < 0 else "max", _call("named_struct", *last)), peers=True))
        descending = {direction(key)[0] for key in self.order}
        if len(descending) > 1:
            self._refuse_ties()
        fields: list[exp.Expr] = []
        for index, key in enumerate(self.order):
            down, nulls_first = direction(key)
            fields += [exp.Literal.string(f"n{index}"), _is_null(key.this, negated=nulls_first != down)]
            fields += [exp.Literal.string(f"k{index}"), key.this.copy()]
        struct: exp.Expr = _call("named_struct", *fields, *last)
        if ignores:
            struct = exp.Case(ifs=[exp.If(this=_is_null(value, negated=True), true=struct)])
        function = "min" if (side < 0) != descending.pop() else "max"
        return _field(self._over(_call(function, struct)))

    def _chosen_value(self) -> tuple[exp.Expr, bool]:
        """The argument of first_value and similar functions, and whether NULLs are skipped."""
        arguments, ignores = list(self.written.arguments), self.written.ignores_nulls
        if len(arguments) == 2 and isinstance(arguments[1], exp.Boolean):
            ignores = ignores or bool(arguments.pop().this)
        if len(arguments) != 1:
            self.context.wrong(f"{self.written.name} takes one value", self.window, None)
        return arguments[0], ignores

    def _refuse_without_order(self, value: exp.Expr) -> None:
        kind = self._type(value)
        if kind.name in ("array", "map", "struct", "variant"):
            self.context.refuse(
                f"{self.written.name} of {kind} in a window is not supported: ties cannot be broken by its order",
                self.window,
                _ROWS_HINT,
            )

    def _refuse_ties(self) -> None:
        self.context.refuse(
            f"{self.written.name} over an order with ties has no definite answer", self.window, _ROWS_HINT
        )

    def nth(self) -> exp.Expr:
        """nth_value over RANGE from the start of the partition: the nth row, where the frame reaches that far."""
        if self.frame.kind == "ROWS" or self.frame.is_whole:
            return self.window
        place = self.written.arguments[1] if len(self.written.arguments) == 2 else None
        if self.frame.start.distance != -float("inf") or place is None:
            self._refuse_ties()
        assert place is not None
        counted = self.written.arguments[0] if self.written.ignores_nulls else exp.Literal.number(1)
        reached = exp.GTE(this=self._over(_call("count", counted.copy())), expression=place.copy())
        whole = self._over(self.window.this.copy(), frame=WHOLE)
        return exp.Case(ifs=[exp.If(this=reached, true=whole)])

    def by_key(self) -> exp.Expr:
        """min_by, max_by: among the rows with the extreme key, the smallest or largest value, as in a GROUP BY."""
        if len(self.written.arguments) != 2 or self.written.distinct:
            self.context.wrong(f"{self.written.name} takes a value and a key", self.window, None)
        value, key = self.written.arguments
        self._refuse_without_order(value)
        fields = [exp.Literal.string("k"), key.copy(), exp.Literal.string("n"), _is_null(value, negated=True)]
        struct = _call("named_struct", *fields, exp.Literal.string("v"), value.copy())
        given = exp.Case(ifs=[exp.If(this=_is_null(self._given(key), negated=True), true=struct)])
        return _field(self._over(_call(self.written.name[:3], given)))

    # lists -----------------------------------------------------------------------------------------

    def joined(self) -> exp.Expr:
        """listagg: the values in the order of WITHIN GROUP, then of themselves, joined by the separator."""
        window = self.window.copy()
        call = take_apart(window.this)
        apart = separator(self.context, call)
        if self.order or self.window.args.get("spec"):
            if call.order:
                self.context.wrong(
                    f"{call.name} WITHIN GROUP takes neither ORDER BY nor a frame in OVER", self.window, "leave it out"
                )
            return self.window
        value = self._given(call.arguments[0])
        kind = self._type(value)
        if kind.name == "binary" or call.distinct:
            what = "DISTINCT" if call.distinct else "of BINARY"
            self.context.refuse(f"{call.name} {what} is not supported in a window", self.window, "use GROUP BY")
        if kind.name != "string":
            value = exp.cast(value, "string", dialect="spark")
        order = [*(_ordered(self._given(key.this), key) for key in call.order), value]
        rows = self._over(_call("collect_list", value), order=order, frame=WHOLE)
        some = exp.GT(this=self._over(_call("count", value.copy())), expression=exp.Literal.number(0))
        text = _call("array_join", rows, apart or exp.Literal.string(""))
        return exp.Case(ifs=[exp.If(this=some, true=text)])

    def listed(self) -> exp.Expr:
        """collect_list, collect_set: without NULLs, which one engine keeps; sorted by value if no order is given."""
        name = self.written.name
        if self.order and self.frame.kind != "ROWS":
            self._refuse_ties()
        value = self._given(_only_value(self))
        call = _call("collect_list", value)
        made: exp.Expr = self._over(exp.RespectNulls(this=call) if self.written.respects_nulls else call)
        if not self.written.respects_nulls:
            made = _call("array_compact", made)
        if name == "collect_set" or self.written.distinct:
            made = _call("array_distinct", made)
        if not self.order or name == "collect_set":
            made = _call("array_sort", made)
        return made

    # sums of floats --------------------------------------------------------------------------------

    def is_inexact(self) -> bool:
        """Whether the last digits of the value may depend on the order of rows."""
        if self.written.name not in _TOTALS:
            return True
        kind = self._type(_only_value(self))
        return kind.is_float or (kind.name == "bigint" and self.written.name in ("avg", "mean", "try_avg"))

    def is_lossy(self) -> bool:
        """Whether Sail would subtract floats from a running sum: the frame slides by ROWS."""
        slides = self.frame.kind == "ROWS" and self.frame.start.distance != -float("inf")
        return slides and not self.written.distinct and self.is_inexact()

    def added(self) -> exp.Expr:
        """sum, avg over a sliding ROWS frame: the values of the frame are added up. Sail would subtract the values that
        leave the frame: an infinity would leave NaN, and a large number would cancel the digits of the others."""
        value = exp.cast(self._given(_only_value(self)), "double", dialect="spark")
        listed = _call("array_compact", self._over(_call("collect_list", value)))
        count = self._over(_call("count", value.copy()))
        total = filled("aggregate({0}, CAST(0 AS DOUBLE), (a, b) -> a + b)", [listed])
        if self.written.name != "sum":
            total = exp.Div(this=total, expression=exp.cast(count.copy(), "double", dialect="spark"))
        some = exp.GT(this=count, expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=some, true=total)])

    def steady(self) -> exp.Expr:
        """An aggregate of floats, added in the order of their values, with one value for all peers."""
        values = self._values()
        inside: exp.Expr = _call(self.written.name, *(value.copy() for value in values))
        if self.written.distinct:
            inside.set("expressions", [exp.Distinct(expressions=inside.expressions)])
        if self.frame.is_whole:
            return self._over(inside, order=values, frame=WHOLE)
        if self.frame.kind == "ROWS":
            return self.window
        if self.written.distinct:
            self._refuse_ties()
        if self.written.name in _TOTALS:
            return self._total(values[0])
        if not self.frame.is_so_far:
            self._refuse_ties()
        order = [*self.order, *values]
        number = self._over(_call("row_number"), order=order)
        number.set("spec", None)
        fields = [
            exp.Literal.string("n"),
            number,
            exp.Literal.string("v"),
            self._over(inside, order=order, frame=SO_FAR),
        ]
        return _field(self._over(_call("max", _call("named_struct", *fields)), peers=True))

    def _total(self, value: exp.Expr) -> exp.Expr:
        """sum, avg over RANGE: peers are summed first, so that the order of peers does not matter."""
        peers = self._over(_call("sum", value.copy()), peers=True, order=[value])
        number = self._over(_call("row_number"), peers=True, order=[value])
        number.set("spec", None)
        first = exp.EQ(this=number, expression=exp.Literal.number(1))
        total = self._over(_call("sum", exp.Case(ifs=[exp.If(this=first, true=peers)])))
        if self.written.name in ("sum", "try_sum"):
            return total
        count = self._over(_call("count", value.copy()))
        some = exp.GT(this=count.copy(), expression=exp.Literal.number(0))
        quotient = exp.Div(this=total, expression=exp.cast(count, "double", dialect="spark"))
        return exp.Case(ifs=[exp.If(this=some, true=quotient)])


def _only_value(rule: _Rule) -> exp.Expr:
    if len(rule.written.arguments) != 1:
        rule.context.wrong(f"{rule.written.name} takes one value", rule.window, None)
    return rule.written.arguments[0]


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _field(struct: exp.Expr) -> exp.Expr:
    return exp.Bracket(this=struct, expressions=[exp.Literal.string("v")])


def _is_null(value: exp.Expr, *, negated: bool) -> exp.Expr:
    test = exp.Is(this=exp.paren(value.copy()), expression=exp.Null())
    return exp.Paren(this=exp.Not(this=test) if negated else test)


def _key(key: exp.Expr) -> exp.Ordered:
    return key.copy() if isinstance(key, exp.Ordered) else exp.Ordered(this=key.copy(), nulls_first=True)


def _ordered(value: exp.Expr, like: exp.Ordered) -> exp.Ordered:
    key = like.copy()
    key.set("this", value)
    return key


def _copy(node: exp.Expr | None) -> exp.Expr | None:
    return node.copy() if node is not None else None


def _spec(frame: Frame) -> exp.WindowSpec:
    """A frame between the ends of a partition and the current row as syntax."""

    def words(text: str) -> tuple[str, str | None]:
        first, _, side = text.partition(" ")
        return ("CURRENT ROW", None) if text == "CURRENT ROW" else (first, side)

    (start, start_side), (end, end_side) = words(frame.start.text), words(frame.end.text)
    return exp.WindowSpec(kind=frame.kind, start=start, start_side=start_side, end=end, end_side=end_side)
