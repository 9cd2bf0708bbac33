"""PIVOT as aggregates with FILTER, UNPIVOT as a table function that stacks columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.nodes import Node
from viewkeeper.algebra.types import Type
from viewkeeper.sql.aggregate_calls import inner_call, is_aggregate, outermost
from viewkeeper.sql.catalog import Query
from viewkeeper.sql.coercion import common_type
from viewkeeper.sql.functions import EMPTY_VALUE
from viewkeeper.sql.naming import column_name
from viewkeeper.sql.scopes import Scope

if TYPE_CHECKING:
    from viewkeeper.sql.translation import Translation

_SOURCE = "_vk_pivoted"
Names = list[tuple[str, Attribute]]


def pivoted(translation: Translation, node: Node, names: Names, pivot: exp.Pivot, scope: Scope) -> tuple[Node, Names]:
    """The result of PIVOT or UNPIVOT of a table, and its columns."""
    fields = pivot.args.get("fields") or []
    if len(fields) != 1 or not isinstance(fields[0], exp.In):
        translation.context.refuse("PIVOT needs one list of values", pivot, "write FOR column IN (values)")
    around = Scope(parent=scope, named={_SOURCE: Query(node, tuple(name for name, _ in names))})
    if pivot.args.get("unpivot"):
        tree = _unpivot(translation, names, pivot, fields[0])
    else:
        tree = _pivot(names, pivot, fields[0])
    made = translation.query(tree, Scope(parent=around))
    return made.node, list(zip(made.names, made.node.outputs, strict=True))


def _named(node: exp.Expr) -> tuple[exp.Expr, str | None]:
    """A listed value and its alias."""
    if isinstance(node, exp.PivotAlias):
        return node.this, node.args["alias"].name
    if isinstance(node, exp.Alias):
        return node.this, node.alias
    return node, None


def _parts(node: exp.Expr) -> list[exp.Expr]:
    """The members of a parenthesized list, or the single member."""
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    return [node.this if isinstance(node, exp.Paren) else node]


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _alias(node: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def _select(items: Sequence[exp.Expr]) -> exp.Select:
    return exp.Select(expressions=list(items), from_=exp.From(this=exp.Table(this=exp.to_identifier(_SOURCE))))


# PIVOT ------------------------------------------------------------------------------------------


def _pivot(names: Names, pivot: exp.Pivot, listed: exp.In) -> exp.Select:
    """PIVOT: one row per value of the columns it does not name, one column per listed value and aggregate."""
    keys = _parts(listed.this)
    used = {part.name.lower() for node in (*pivot.expressions, *keys) for part in node.find_all(exp.Column)}
    rest = [name for name, _ in names if name.lower() not in used]
    items: list[exp.Expr] = [_column(name) for name in rest]
    for value in listed.expressions:
        inside, given = _named(value)
        values = _parts(inside)
        test = exp.and_(
            *(exp.NullSafeEQ(this=k.copy(), expression=v.copy()) for k, v in zip(keys, values, strict=True))
        )
        label = given or _label(values)
        for aggregate in pivot.expressions:
            body, name = _named(aggregate)
            shown = label if len(pivot.expressions) == 1 else f"{label}_{name or column_name(body)}"
            items.append(_alias(_only_where(body, test), shown))
    select = _select(items)
    if rest:
        select.set("group", exp.Group(expressions=[_column(name) for name in rest]))
    return select


def _label(values: Sequence[exp.Expr]) -> str:
    shown = [column_name(value) for value in values]
    return shown[0] if len(shown) == 1 else "{" + ", ".join(shown) + "}"


def _only_where(body: exp.Expr, test: exp.Expr) -> exp.Expr:
    """An expression of aggregates over the rows of one listed value; NULL, not 0, where there are none."""
    holder = exp.Paren(this=body.copy())
    counted = False
    for call in list(outermost(holder, is_aggregate)):
        function = inner_call(call)
        counted = counted or (function is not None and function.name.lower() in EMPTY_VALUE)
        call.replace(exp.Filter(this=call.copy(), expression=exp.Where(this=test.copy())))
    inside: exp.Expr = holder.this
    if not counted:
        return inside
    rows = exp.Filter(
        this=exp.Anonymous(this="count", expressions=[exp.Star()]), expression=exp.Where(this=test.copy())
    )
    return exp.Case(ifs=[exp.If(this=exp.GT(this=rows, expression=exp.Literal.number(0)), true=inside)])


# UNPIVOT ----------------------------------------------------------------------------------------


def _unpivot(translation: Translation, names: Names, pivot: exp.Pivot, listed: exp.In) -> exp.Select:
    """UNPIVOT: one row per listed group of columns, with the other columns, the group's name and its values."""
    context = translation.context
    values = [part.name for part in _parts(pivot.expressions[0])]
    kinds = {name.lower(): attribute.type for name, attribute in names}
    groups = [_named(value) for value in listed.expressions]
    used: set[str] = set()
    columns: list[list[str]] = []
    for inside, _ in groups:
        members = [part.name for part in _parts(inside)]
        for member in members:
            if member.lower() not in kinds:
                context.wrong(f"there is no column '{member}' to unpivot", inside, None)
        if len(members) != len(values):
            context.wrong(f"{len(values)} values are asked for and {len(members)} columns listed", inside, None)
        used |= {member.lower() for member in members}
        columns.append(members)
    common = [_common(translation, [kinds[group[i].lower()] for group in columns], pivot) for i in range(len(values))]
    arguments: list[exp.Expr] = [exp.Literal.number(len(groups))]
    for (_, given), members in zip(groups, columns, strict=True):
        arguments.append(exp.Literal.string(given or "_".join(members)))
        arguments += [
            exp.Cast(this=_column(member), to=exp.DataType.build(kind.ddl, dialect="spark"))
            for member, kind in zip(members, common, strict=True)
        ]
    made = [exp.to_identifier(name, quoted=True) for name in (listed.this.name, *values)]
    stack = exp.Aliases(this=exp.Anonymous(this="stack", expressions=arguments), expressions=made)
    others = [_column(name) for name, _ in names if name.lower() not in used]
    inner = _select([*others, stack])
    if pivot.args.get("include_nulls"):
        return inner
    kept = exp.or_(*(exp.Is(this=_column(name), expression=exp.Null()).not_() for name in values))
    source = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("_vk_stacked")))
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=source), where=exp.Where(this=kept))


def _common(translation: Translation, kinds: Sequence[Type], at: exp.Expr) -> Type:
    kind = kinds[0]
    for other in kinds[1:]:
        found = common_type(kind, other)
        if found is None:
            return translation.context.wrong(f"{kind} and {other} cannot stand in one column", at, "write a CAST")
        kind = found
    return kind
