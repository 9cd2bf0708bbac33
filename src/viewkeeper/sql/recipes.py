"""How each aggregate is computed: from stored counts, sums and extrema, or by an order-independent expression.

A recipe lists the values it needs of each row. From the columns of those values it makes the calls of the algebra and,
from their results, the value of the aggregate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.algebra.expressions import (
    BIGINT,
    DOUBLE,
    TRUE,
    Attribute,
    Expression,
    case,
    column,
    comparison,
    integer,
    plain,
)
from viewkeeper.algebra.expressions import call as call_of
from viewkeeper.algebra.expressions import cast as algebra_cast
from viewkeeper.algebra.extrema import extremum
from viewkeeper.algebra.nodes import Share
from viewkeeper.algebra.types import Type
from viewkeeper.sql.aggregate_calls import Written, separator
from viewkeeper.sql.conditions import unwrapped
from viewkeeper.sql.context import Context
from viewkeeper.sql.functions import ORDERED
from viewkeeper.sql.sail_calls import check_aggregate
from viewkeeper.sql.sail_rewrites import mended_aggregate
from viewkeeper.sql.syntax import cast
from viewkeeper.sql.templates import templated

Columns = Sequence[Attribute]


@dataclass(frozen=True)
class Needed:
    """A call of the algebra to make: a storable aggregate (count, sum, min, max) of a column, or an expression."""

    function: str
    argument: Attribute | None = None
    text: Expression | None = None
    share: Share | None = None


@dataclass(frozen=True)
class Plan:
    """The calls of a recipe, and its value from their results; `step` computes a value first that is used often."""

    calls: tuple[Needed, ...]
    result: Callable[[Columns], Expression] = lambda made: column(made[0])
    step: Callable[[Columns], Expression] | None = None


@dataclass(frozen=True)
class Recipe:
    """The values an aggregate needs of each row, and what to do with their columns."""

    values: tuple[exp.Expr, ...]
    plan: Callable[[Columns], Plan]


def recipe(context: Context, call: Written) -> Recipe:
    """The recipe of an aggregate call."""
    if (asked := _asked_share(context, call)) is not None:
        return _percentile(context, call, *asked)
    if not context.typer.coerces:
        check_aggregate(context, call, call.node)
        call = mended_aggregate(call)
        if call.name == "regr_r2" and not call.distinct and len(call.arguments) == 2:
            return _fit(call)
    name = _SYNONYMS.get(call.name, call.name)
    if call.order and call.name not in ORDERED:
        context.wrong(f"{call.name} takes no WITHIN GROUP", call.node, "leave it out")
    if not call.distinct and name in _KEPT:
        return _KEPT[name](context, call)
    if not call.distinct and name in _CANONICAL:
        return _CANONICAL[name](context, call)
    if call.distinct and name in ("min", "max", "bool_and", "bool_or"):
        return _KEPT[name](context, call)
    if call.distinct and name in ("sum", "avg"):
        return _distinct_total(context, call)
    if call.distinct and name in ("collect_set", "collect_list"):
        return _sorted_list(context, call)
    if call.distinct and name == "listagg":
        return _listagg(context, call)
    return _as_written(context, call)


_SYNONYMS = {
    "mean": "avg",
    "every": "bool_and",
    "any": "bool_or",
    "some": "bool_or",
    "array_agg": "collect_list",
    "string_agg": "listagg",
    "first_value": "first",
    "last_value": "last",
    "any_value": "first",
}


# values of rows ---------------------------------------------------------------------------------


def _given(call: Written, value: exp.Expr) -> exp.Expr:
    """The value where FILTER holds, else NULL: for aggregates that ignore NULLs."""
    if call.condition is None:
        return value
    return exp.Case(ifs=[exp.If(this=call.condition.copy(), true=value.copy())])


def _one_if(condition: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))])


def _single(context: Context, call: Written) -> exp.Expr:
    if len(call.arguments) != 1 or isinstance(call.arguments[0], exp.Star):
        context.wrong(f"{call.name} takes one value", call.node, None)
    return call.arguments[0]


# storable aggregates ----------------------------------------------------------------------------


def _count(context: Context, call: Written) -> Recipe:
    given = [exp.cast(a, "INT") if isinstance(unwrapped(a), exp.Null) else a for a in call.arguments]
    tests: list[exp.Expr] = [exp.Is(this=exp.paren(a), expression=exp.Null()).not_() for a in given if _may_be_null(a)]
    if call.condition is None and len(given) == 1 and tests:
        return Recipe((given[0],), lambda made: Plan((Needed("count", made[0]),)))
    if call.condition is not None:
        tests.insert(0, exp.paren(call.condition))
    if not tests:
        return Recipe((), lambda made: Plan((Needed("count"),)))
    return Recipe((_one_if(exp.and_(*tests)),), lambda made: Plan((Needed("count", made[0]),)))


def _may_be_null(node: exp.Expr) -> bool:
    return not isinstance(node, (exp.Star, exp.Literal, exp.Boolean))


def _count_if(context: Context, call: Written) -> Recipe:
    value = _one_if(_given(call, _single(context, call)))
    return Recipe((value,), lambda made: Plan((Needed("count", made[0]),)))


def _extremum(function: str) -> Callable[[Context, Written], Recipe]:
    def make(context: Context, call: Written) -> Recipe:
        def plan(made: Columns) -> Plan:
            if made[0].type.has_map():
                context.refuse(f"{call.name} of a MAP is not possible: it has no order", call.node, None)
            return Plan((Needed(function, made[0]),))

        value = _single(context, call)
        if function != call.name and getattr(context.syntax_type(value), "name", "") == "string":
            value = exp.Cast(this=value, to=exp.DataType.build("BOOLEAN", dialect="spark"))  # bool_and and its kind
        return Recipe((_given(call, value),), plan)

    return make


def _sum(context: Context, call: Written) -> Recipe:
    def plan(made: Columns) -> Plan:
        kind = made[0].type
        if kind.is_integer:
            return Plan((Needed("sum", made[0]),), lambda sums: algebra_cast(sums[0], BIGINT))
        if kind.name == "decimal":
            return Plan((Needed("sum", made[0]),), lambda sums: _narrowed(sums[0], min(38, kind.precision + 10)))
        if kind.is_float and context.repeatable:
            return Plan((Needed("sum", None, _float_sum(made[0])),))
        return Plan((Needed("sum", None, call_of("sum", made[0], fallible=True)),))

    return Recipe((_given(call, _single(context, call)),), plan)


def _narrowed(total: Attribute, precision: int) -> Expression:
    if precision == 38:
        return column(total)
    return algebra_cast(total, Type("decimal", precision, total.type.scale))


def _float_sum(value: Attribute, collect: str = "collect_list") -> Expression:
    """A sum of floats, added in the order of their values, so that the order of rows does not matter."""
    template = (
        "CASE WHEN count({}) > 0 THEN "
        f"aggregate(array_sort({collect}(CAST({{}} AS DOUBLE))), CAST(0 AS DOUBLE), (a, b) -> a + b) END"
    )
    return templated(template, value, value)


def _float_average(value: Attribute, distinct: str = "") -> Expression:
    total = _float_sum(value, "collect_set" if distinct else "collect_list")
    return templated(f"{{}} / nullif(CAST(count({distinct}{{}}) AS DOUBLE), 0D)", total, value)


def _distinct_total(context: Context, call: Written) -> Recipe:
    """sum(DISTINCT x) and avg(DISTINCT x)."""
    name = _SYNONYMS.get(call.name, call.name)

    def plan(made: Columns) -> Plan:
        if not made[0].type.is_float or not context.repeatable:
            total = templated(f"{name}(DISTINCT {{}})", made[0], raises=True)
            if wide:
                return Plan((Needed(name, None, total),), lambda sums: algebra_cast(sums[0], BIGINT))
            return Plan((Needed(name, None, total),))
        if name == "sum":
            return Plan((Needed(name, None, _float_sum(made[0], "collect_set")),))
        return Plan((Needed(name, None, _float_average(made[0], "DISTINCT ")),))

    value = _single(context, call)
    wide = name == "sum" and not context.typer.coerces and getattr(context.syntax_type(value), "name", "") == "bigint"
    if wide:  # Sail does not notice that a sum of BIGINT overflows
        value = cast(value, Type("decimal", 20, 0))
    return Recipe((_given(call, value),), plan)


def _avg(context: Context, call: Written) -> Recipe:
    def plan(made: Columns) -> Plan:
        kind = made[0].type
        pair = (Needed("sum", made[0]), Needed("count", made[0]))
        if kind.is_integer:
            return Plan(pair, lambda kept: _mean(*kept))
        if kind.name == "decimal" and kind.precision <= 15:  # room for 9 digits more than asked for
            return Plan(pair, lambda kept: _Average(kind).by_digits(*kept))
        if kind.name == "decimal" and kind.precision <= 19:  # beyond, a remainder would not fit 38 digits
            exact = _Average(kind)
            return Plan(pair, lambda kept: exact.rounded(*kept), lambda kept: exact.quotient(*kept))
        if kind.is_float and context.repeatable:
            return Plan((Needed("avg", None, _float_average(made[0])),))
        return Plan((Needed("avg", None, call_of("avg", made[0], fallible=True)),))

    return Recipe((_given(call, _single(context, call)),), plan)


def _mean(total: Attribute, count: Attribute) -> Expression:
    """The average of integers; NULL for no rows."""
    quotient = plain("/", algebra_cast(total, DOUBLE), algebra_cast(count, DOUBLE), DOUBLE)
    return case((comparison(">", count, integer(0)), quotient))


class _Average:
    """The average of decimals, rounded half away from zero, exactly, whatever an engine's division does.

    An engine's quotient is off by less than one unit of the last digit; the remainder says in which direction.
    """

    def __init__(self, kind: Type) -> None:
        self.kind = kind
        scale = kind.scale + 4
        self.result = f"DECIMAL({kind.precision + 4},{scale})"
        self.total = f"CAST({{}} AS DECIMAL({kind.precision + 10},{kind.scale}))"
        self.count = "CAST({} AS DECIMAL(12,0))"
        self.unit = f"CAST('0.{'0' * (scale - 1)}1' AS DECIMAL({scale},{scale}))"

    def quotient(self, total: Attribute, count: Attribute) -> Expression:
        """The engine's own quotient; NULL for no rows."""
        template = f"CASE WHEN {{}} > 0 THEN CAST({self.total} / {self.count} AS {self.result}) END"
        return templated(template, count, total, count, raises=True)

    def by_digits(self, total: Attribute, count: Attribute) -> Expression:
        """The quotient with 9 extra digits, then rounded. An engine may truncate or round the last of them. That is
        harmless as long as a group has n < 10^9 rows, because a quotient is a tie or at least 1/2n away from one."""
        wide = f"CAST({{}} AS DECIMAL({self.kind.precision + 19},{self.kind.scale + 9}))"
        template = f"CASE WHEN {{}} > 0 THEN CAST({wide} / {self.count} AS {self.result}) END"
        return templated(template, count, total, count, raises=True)

    def rounded(self, total: Attribute, count: Attribute, quotient: Attribute) -> Expression:
        """The quotient, plus or minus one unit where the remainder requires it."""
        rest = templated(f"{self.total} - {{}} * {self.count}", total, quotient, count, raises=True)
        one = templated(f"{self.count} * {self.unit}", count, raises=True)
        up = templated("{} + {} > {} OR ({} + {} = {} AND {} > 0)", rest, rest, one, rest, rest, one, total)
        down = templated("{} + {} < -{} OR ({} + {} = -{} AND {} < 0)", rest, rest, one, rest, rest, one, total)
        template = f"CASE WHEN {{}} THEN CAST({{}} + {self.unit} AS {self.result}) "
        template += f"WHEN {{}} THEN CAST({{}} - {self.unit} AS {self.result}) ELSE {{}} END"
        return templated(template, up, quotient, down, quotient, quotient, raises=True)


_KEPT: dict[str, Callable[[Context, Written], Recipe]] = {
    "count": _count,
    "count_if": _count_if,
    "min": _extremum("min"),
    "max": _extremum("max"),
    "bool_and": _extremum("min"),
    "bool_or": _extremum("max"),
    "sum": _sum,
    "avg": _avg,
}


# aggregates that depend on the order of rows, made independent of it -------------------------------


def _orderable(context: Context, call: Written, columns: Columns) -> None:
    for value in columns:
        if value.type.has_map():
            context.refuse(f"{call.name} of a MAP is not possible here: it has no order", call.node, None)


def _chosen(function: str) -> Callable[[Context, Written], Recipe]:
    """first, any_value: the smallest value; last: the largest. NULL is the smallest, unless NULLs are ignored."""

    def make(context: Context, call: Written) -> Recipe:
        arguments, ignores = list(call.arguments), call.ignores_nulls
        if len(arguments) == 2 and isinstance(arguments[1], exp.Boolean):
            ignores = ignores or bool(arguments.pop().this)
        if len(arguments) != 1:
            context.wrong(f"{call.name} takes one value", call.node, None)
        values = (_given(call, arguments[0]), *((call.condition,) if call.condition is not None else ()))

        def plan(made: Columns) -> Plan:
            _orderable(context, call, made)
            if ignores or function == "max":
                return Plan((Needed(function, made[0]),))
            rows = call_of("count_if", made[1]) if len(made) > 1 else call_of("count", integer(1))
            least = extremum("min", column(made[0]), made[0].type)
            first = case((comparison("=", call_of("count", made[0]), rows), least))
            return Plan((Needed("first", None, first),))

        return Recipe(values, plan)

    return make


def _sorted_list(context: Context, call: Written) -> Recipe:
    """collect_list and collect_set: sorted by value."""
    function = "collect_set" if call.distinct or call.name == "collect_set" else "collect_list"
    nulls = " RESPECT NULLS" if call.respects_nulls else ""
    if nulls and call.condition is not None:
        context.refuse(f"{call.name} RESPECT NULLS with FILTER is not supported", call.node, "use WHERE")

    def plan(made: Columns) -> Plan:
        _orderable(context, call, made)
        return Plan((Needed(function, None, templated(f"array_sort({function}({{}}){nulls})", made[0])),))

    return Recipe((_given(call, _single(context, call)),), plan)


def _listagg(context: Context, call: Written) -> Recipe:
    """listagg: in the requested order, then by value."""
    apart = separator(context, call)
    separators = [] if apart is None else [context.tree(apart)]
    values = (_given(call, call.arguments[0]), *(_given(call, key.this) for key in call.order))

    def plan(made: Columns) -> Plan:
        _orderable(context, call, made)
        keys = [f"{{}} {_direction(key)}" for key in call.order]
        order = ", ".join([*keys, "{}"] if made[0] not in made[1:] else keys)
        named = [*made[1:], made[0]] if made[0] not in made[1:] else list(made[1:])
        word = "DISTINCT " if call.distinct else ""
        template = f"listagg({word}{{}}{', {}' if separators else ''}) WITHIN GROUP (ORDER BY {order})"
        listed = templated(template, made[0], *separators, *named)
        return Plan((Needed("listagg", None, listed),))

    return Recipe(values, plan)


def _direction(key: exp.Ordered) -> str:
    descending = bool(key.args.get("desc"))
    first = key.args.get("nulls_first")
    nulls = (not descending) if first is None else bool(first)
    return f"{'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls else 'LAST'}"


def _by(function: str) -> Callable[[Context, Written], Recipe]:
    """min_by, max_by: among the rows with the extreme key, the smallest or largest value."""

    def make(context: Context, call: Written) -> Recipe:
        if len(call.arguments) != 2:
            context.wrong(f"{call.name} takes a value and a key", call.node, None)
        value, key = call.arguments

        def plan(made: Columns) -> Plan:
            _orderable(context, call, made)
            key, value = made[1], made[0]
            template = "CASE WHEN {} IS NOT NULL THEN named_struct('k', {}, 'n', {} IS NOT NULL, 'v', {}) END"
            pair = templated(template, key, key, value, value)  # n: engines order NULLs in structs differently
            return Plan((Needed(call.name, None, templated(f"{function}({{}})['v']", pair)),))

        return Recipe((value, _given(call, key)), plan)

    return make


def _mode(context: Context, call: Written) -> Recipe:
    """mode: the smallest of the most frequent values."""
    arguments = call.arguments or tuple(key.this for key in call.order)
    if not arguments:
        context.wrong("mode takes a value", call.node, None)

    def plan(made: Columns) -> Plan:
        _orderable(context, call, made)
        largest = len(arguments) > 1 or bool(call.order and call.order[0].args.get("desc"))
        if largest:
            context.refuse("mode with an order or a flag is not supported", call.node, "write mode(x)")
        return Plan((Needed("mode", None, call_of("mode", made[0], TRUE)),))

    return Recipe((_given(call, arguments[0]), *arguments[1:]), plan)


_CANONICAL: dict[str, Callable[[Context, Written], Recipe]] = {
    "first": _chosen("min"),
    "last": _chosen("max"),
    "collect_list": _sorted_list,
    "collect_set": _sorted_list,
    "listagg": _listagg,
    "min_by": _by("min"),
    "max_by": _by("max"),
    "mode": _mode,
}


# percentiles --------------------------------------------------------------------------------------


def _asked_share(context: Context, call: Written) -> tuple[exp.Expr, Share] | None:
    """The value as a DOUBLE and the share of a percentile, if the value is a number and the share is written as one."""
    given: tuple[exp.Expr, ...] = ()
    descending = False
    if call.name == "median":
        given = (*call.arguments, exp.Literal.number("0.5"))
    elif call.name == "percentile":
        given = call.arguments
    elif call.name in ("percentile_cont", "percentile_disc") and len(call.order) == 1:
        given = (call.order[0].this, *call.arguments)
        descending = bool(call.order[0].args.get("desc"))
    if call.distinct or len(given) != 2 or not isinstance(given[1], exp.Literal) or given[1].is_string:
        return None
    value, part = given
    kind = context.syntax_type(value)
    if kind is None or not (kind.is_integer or kind.is_float or kind.name == "decimal"):
        return None
    if not 0 <= float(part.name) <= 1:
        return None
    wide = value if kind == DOUBLE else cast(value, DOUBLE)
    return wide, Share(part.name, descending, call.name == "percentile_disc")


def _percentile(context: Context, call: Written, value: exp.Expr, share: Share) -> Recipe:
    """percentile, percentile_cont, percentile_disc and median, of values as DOUBLE, which have the same order."""

    def plan(made: Columns) -> Plan:
        template = share.shown("{}")
        if not context.typer.coerces:
            template = share.shown(_ONE_NAN) if share.discrete else _from_sorted_values(share)
        text = templated(template, *[made[0]] * template.count("{}"))
        return Plan((Needed("percentile", made[0], text, share),))

    return Recipe((_given(call, value),), plan)


_ONE_NAN = "CASE WHEN isnan({}) THEN CAST('NaN' AS DOUBLE) ELSE {} END"
"""A value as Sail orders it in the right place: it has NaN that was negated before all numbers."""


def _from_sorted_values(share: Share) -> str:
    """An interpolated percentile as Apache Spark has it: Sail's own misplaces NaN, and rounds in another way."""
    place = f"CAST(count({{}}) - 1 AS DOUBLE) * CAST({share.part} AS DOUBLE)"
    sorted_values = f"array_sort(collect_list({_ONE_NAN}))"
    first = "CAST(count({}) AS INT) - " if share.descending else "1 + "
    low, high = (f"element_at({sorted_values}, {first}CAST({end}({place}) AS INT))" for end in ("floor", "ceil"))
    rest = f"({place} - floor({place}))"
    between = f"(1 - {rest}) * {low} + {rest} * {high}"
    exact = f"WHEN {rest} = 0 THEN {low} WHEN {low} = {high} THEN {low}"
    return f"CASE WHEN count({{}}) = 0 THEN NULL {exact} ELSE {between} END"


def _fit(call: Written) -> Recipe:
    """regr_r2 from its parts, because Sail swaps y and x: NULL if x does not vary, 1 if y does not."""
    template = (
        "CASE WHEN regr_sxx({0}, {1}) <> 0 THEN CASE WHEN regr_syy({0}, {1}) = 0 THEN CAST(1 AS DOUBLE) ELSE "
        "regr_sxy({0}, {1}) * regr_sxy({0}, {1}) / regr_sxx({0}, {1}) / regr_syy({0}, {1}) END END"
    )

    def plan(made: Columns) -> Plan:
        named = [made[int(place)] for place in re.findall(r"\{(\d)\}", template)]
        return Plan((Needed("regr_r2", None, templated(re.sub(r"\{\d\}", "{}", template), *named)),))

    return Recipe((_given(call, call.arguments[0]), call.arguments[1]), plan)


# all others -------------------------------------------------------------------------------------


def _as_written(context: Context, call: Written) -> Recipe:
    """Any other aggregate as it is written, over computed columns; constants stay in the text."""
    slots: list[exp.Expr] = []
    parts: list[int | Expression] = []
    pieces = [call.name, "(DISTINCT " if call.distinct else "("]

    def put(node: exp.Expr) -> None:
        pieces.append("{}")
        if context.attributes_in(node) or node.find(exp.Placeholder):
            parts.append(len(slots))
            slots.append(node)
        else:
            parts.append(context.tree(node))

    for index, argument in enumerate(call.arguments):
        pieces.append(", " if index else "")
        put(argument)
    pieces.append(")")
    for index, key in enumerate(call.order):
        pieces.append(", " if index else " WITHIN GROUP (ORDER BY ")
        put(key.this)
        pieces.append(f" {_direction(key)}{')' if index == len(call.order) - 1 else ''}")
    if call.ignores_nulls:
        pieces.append(" IGNORE NULLS")
    if call.condition is not None:
        pieces.append(" FILTER (WHERE ")
        put(call.condition)
        pieces.append(")")

    def plan(made: Columns) -> Plan:
        given = [made[part] if isinstance(part, int) else part for part in parts]
        return Plan((Needed(call.name, None, templated("".join(pieces), *given, raises=True)),))

    return Recipe(tuple(slots), plan)
