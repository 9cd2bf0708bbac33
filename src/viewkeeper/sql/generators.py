"""Table functions: explode and its kind, in FROM, LATERAL VIEW and SELECT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.algebra.expressions import Attribute, Expression
from viewkeeper.algebra.nodes import Generate, Node, Rows
from viewkeeper.algebra.types import parse_type
from viewkeeper.errors import ViewkeeperError
from viewkeeper.sql.context import Context
from viewkeeper.sql.functions import GENERATORS
from viewkeeper.sql.scopes import Visible

if TYPE_CHECKING:
    from viewkeeper.sql.binding import Binder
    from viewkeeper.sql.placing import Placing

_OUTER = "_outer"
_MAY_BE_EMPTY = frozenset({"explode", "posexplode", "inline", "variant_explode"})


def is_generator(node: exp.Expr) -> bool:
    """Whether a call is a table function."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in GENERATORS


def generated(
    context: Context, node: Node, call: exp.Anonymous, names: list[str], *, outer: bool
) -> tuple[Node, list[Attribute]]:
    """A node with the columns that a table function returns for each row. The call is bound and has no subqueries."""
    name = call.name.lower()
    outer = outer or name.endswith(_OUTER)
    name = name.removesuffix(_OUTER)
    arguments = [part.copy() for part in call.expressions]
    if name == "explode" and len(arguments) == 1 and _is_map(context, arguments[0]):  # not every engine explodes maps
        name, arguments = "inline", [exp.Anonymous(this="map_entries", expressions=arguments)]
    spelled = f"{name}{_OUTER}" if outer and name in _MAY_BE_EMPTY else name
    rendered = context.expression(exp.Anonymous(this=spelled, expressions=arguments))
    found = _columns(context, rendered, call)
    if names and len(names) != len(found):
        context.wrong(f"{name} gives {len(found)} columns and {len(names)} names are given", call, None)
    made = [
        context.numbers.attribute(names[i] if names else column, parse_type(ddl))
        for i, (column, ddl) in enumerate(found)
    ]
    return Generate(node, rendered, tuple(made), outer), made


def _is_map(context: Context, argument: exp.Expr) -> bool:
    return context.type_of(context.expression(argument), argument).name == "map"


def _columns(context: Context, rendered: Expression, call: exp.Anonymous) -> list[tuple[str, str]]:
    try:
        return context.typer.columns([rendered])
    except ViewkeeperError as problem:
        problem.place = problem.place or context.place(call)
        raise


def generate(
    context: Context, placing: Placing, node: Node, item: exp.Lateral, *, outer: bool
) -> tuple[Node, list[Visible]]:
    """LATERAL VIEW f(...) t AS a, b, or LATERAL f(...) AS t(a, b)."""
    call = item.this
    if not is_generator(call):
        context.refuse("only a table function such as explode can stand here", item, None)
    node, bound = placing.joined(node, placing.binder.bind(call))
    assert isinstance(bound, exp.Anonymous)
    alias = item.args.get("alias")
    names = [part.name for part in alias.columns] if isinstance(alias, exp.TableAlias) else []
    qualifier = alias.name if isinstance(alias, exp.TableAlias) and alias.this is not None else None
    node, made = generated(context, node, bound, names, outer=outer or bool(item.args.get("outer")))
    return node, [Visible(a.name, qualifier or None, a) for a in made]


def table_function(context: Context, binder: Binder, item: exp.Table) -> tuple[Node, list[tuple[str, Attribute]]]:
    """A table function in FROM."""
    call = item.this
    one = Rows((), ((),))
    if isinstance(call, exp.Anonymous) and call.name.lower() == "range":
        call = _range(context, call)
        node, made = generated(context, one, call, ["id"], outer=False)
        return node, [("id", made[0])]
    if not is_generator(call):
        context.refuse("this cannot stand in FROM of a view", item, "name a table, a view or a query")
    bound = binder.bind(call)
    assert isinstance(bound, exp.Anonymous)
    node, made = generated(context, one, bound, [], outer=False)
    return node, [(a.name, a) for a in made]


def _range(context: Context, call: exp.Anonymous) -> exp.Anonymous:
    """range(start, end, step) as explode(sequence(...)); an empty range has no rows."""
    numbers: list[int] = []
    for part in call.expressions:
        literal = part.this if isinstance(part, exp.Neg) else part
        if not isinstance(literal, exp.Literal) or literal.is_string:
            context.refuse("range() with anything but plain numbers is not supported in a view", call, None)
        numbers.append(int(part.sql().replace(" ", "")))
    if not 1 <= len(numbers) <= 3:
        context.wrong("range() takes a start, an end and a step", call, None)
    start, end, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    values = range(start, end, step)
    last = values[-1] if values else start
    whole = f"sequence({start}L, {last}L, {step}L)" if values else "filter(array(0L), x -> false)"
    return exp.Anonymous(this="explode", expressions=[exp.var(whole)])
