"""Conditions of shapes: written as for Postgres, with parameters $1, $2 and so on; used as Spark SQL.

A parameter is a string that has the type of the column it is compared with. What comes out is read again as a condition
on one row, so that nothing but an expression over the columns of the relation gets through.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import re
from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import Type, quote
from viewkeeper.errors import SqlError
from viewkeeper.server.row_conditions import LONGEST, read_condition

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)


def read_postgres_condition(text: str, params: Mapping[str, str], name: str, schema: Schema) -> str:
    """A condition on the rows of a relation, in Spark SQL. Raises SqlError for anything else."""
    tree = _parsed(text, "a condition")
    if tree.find(exp.Query) is not None:
        raise SqlError("the condition has a query inside", hint=f"define a view with that condition over {name}")
    tree = _with_lists(tree, params, schema)
    used: set[str] = set()
    for part in list(tree.find_all(exp.Parameter)):
        number = part.name
        if number not in params:
            raise SqlError(f"the condition uses ${number}, which has no value", hint=f"send params[{number}]")
        used.add(number)
        literal = _literal(params[number], _type_beside(part, schema), number)
        if part is tree:
            tree = literal
        else:
            part.replace(literal)
    for column in tree.find_all(exp.Column):
        found = schema.find(column.name)
        if found is None or column.table:
            raise SqlError(f"{name} has no column '{column.sql()}'", hint=f"its columns are {', '.join(schema.names)}")
        column.set("this", exp.to_identifier(found.name, quoted=True))
    try:
        return read_condition(tree.sql(dialect="spark"), name, schema)
    except RecursionError:
        raise SqlError("the condition is nested too deep", hint="use a simpler one") from None


def read_order(text: str, name: str, schema: Schema) -> str:
    """An ORDER BY list over the columns of a relation, in Spark SQL."""
    tree = _parsed(f"1 ORDER BY {text}", "an order", select=True)
    order = tree.args.get("order")
    others = [key for key, value in tree.args.items() if value and key not in ("order", "expressions", "kind")]
    if order is None or others:
        raise SqlError(f"this is not a list of columns to order by: {text}")
    parts = []
    for one in order.expressions:
        found = schema.find(one.this.name) if isinstance(one.this, exp.Column) and not one.this.table else None
        if found is None:
            hint = f"the columns of {name} are {', '.join(schema.names)}"
            raise SqlError(f"'{one.this.sql()}' is not a column of {name}", hint=hint)
        down = bool(one.args.get("desc"))
        nulls = "FIRST" if one.args.get("nulls_first") else "LAST"  # by Postgres's rules where it is not written
        parts.append(f"{quote(found.name)} {'DESC' if down else 'ASC'} NULLS {nulls}")
    return ", ".join(parts)


def _parsed(text: str, what: str, *, select: bool = False) -> exp.Expr:
    if len(text) > LONGEST:
        raise SqlError(f"{what} has more than {LONGEST:,} letters", hint="use a shorter one")
    try:
        found = sqlglot.parse(f"SELECT {text}" if select else f"SELECT 1 WHERE {text}", read="postgres")
    except SqlglotError as problem:
        detail = str(problem).split("\n")[0]
        raise SqlError(f"this is not {what}: {text}", detail=detail, hint="use for instance region = 'EU'") from None
    except RecursionError:
        raise SqlError(f"{what} is nested too deep", hint="use a simpler one") from None
    tree = found[0] if len(found) == 1 else None
    if not isinstance(tree, exp.Select):
        raise SqlError(f"this is not {what}: {text}")
    if select:
        return tree
    others = [key for key, value in tree.args.items() if value and key not in ("where", "expressions", "kind")]
    where = tree.args.get("where")
    if where is None or others:
        raise SqlError(f"this is not {what}: {text}", hint="use for instance region = 'EU'")
    return where.this.copy()  # type: ignore[no-any-return]


def _with_lists(tree: exp.Expr, params: Mapping[str, str], schema: Schema) -> exp.Expr:
    """`x = ANY($1)` and `x <> ALL($1)` as `x IN (...)` and `x NOT IN (...)`."""
    for part in list(tree.find_all(exp.EQ, exp.NEQ)):
        wanted = "ANY" if isinstance(part, exp.EQ) else "ALL"
        side = part.expression
        inside = _list_inside(side, wanted)
        if inside is None:
            continue
        kind = _type_of(part.this, schema)
        if isinstance(inside, exp.Parameter):
            number = inside.name
            if number not in params:
                raise SqlError(f"the condition uses ${number}, which has no value", hint=f"send params[{number}]")
            listed = [exp.null() if t is None else _literal(t, kind, number) for t in _elements(params[number])]
        elif isinstance(inside, exp.Array):
            listed = [each.copy() for each in inside.expressions]
        else:
            raise SqlError(f"{wanted} is used with a parameter or an ARRAY here")
        new: exp.Expr = exp.In(this=part.this.copy(), expressions=listed) if listed else exp.false()
        if wanted == "ALL":
            new = exp.Not(this=exp.Paren(this=new))
        if part is tree:
            tree = new
        else:
            part.replace(new)
    return tree


def _list_inside(side: exp.Expr, wanted: str) -> exp.Expr | None:
    """What stands in the brackets of ANY or ALL."""
    if wanted == "ANY" and isinstance(side, exp.Any):
        found: exp.Expr = side.this
    elif wanted == "ALL" and isinstance(side, exp.All):
        found = side.this
    elif isinstance(side, exp.Anonymous) and side.name.upper() == wanted and len(side.expressions) == 1:
        found = side.expressions[0]
    else:
        return None
    while isinstance(found, exp.Paren | exp.Cast):
        found = found.this
    return found


def _elements(text: str) -> list[str | None]:
    """The elements of an array as Postgres writes it, {1,"a b",NULL}, or as JSON, [1,"a b",null]."""
    stripped = text.strip()
    if stripped.startswith("["):
        try:
            return [None if each is None else str(each) for each in json.loads(stripped)]
        except ValueError:
            raise SqlError(f"this is not an array: {text}", hint="use for instance {1,2,3}") from None
    pattern = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^",{}]*?))\s*(,|$)', re.DOTALL)
    if not (stripped.startswith("{") and stripped.endswith("}")):
        raise SqlError(f"this is not an array: {text}", hint="use for instance {1,2,3}")
    inner, at, found = stripped[1:-1], 0, list[str | None]()
    if not inner.strip():
        return found
    while True:
        match = pattern.match(inner, at)
        if match is None:
            raise SqlError(f"this is not an array: {text}", hint="use for instance {1,2,3}")
        if match.group(1) is not None:
            found.append(re.sub(r"\\(.)", r"\1", match.group(1), flags=re.DOTALL))
        else:
            found.append(None if match.group(2).upper() == "NULL" else match.group(2))
        if not match.group(3):
            return found
        at = match.end()


def _type_beside(part: exp.Expr, schema: Schema) -> Type | None:
    """The type of the column that a parameter is compared with."""
    above = part.parent
    while isinstance(above, exp.Paren | exp.Neg):
        above = above.parent
    if isinstance(above, exp.Cast):
        return None
    if isinstance(above, exp.In | exp.Between):
        return _type_of(above.this, schema)
    if isinstance(above, _COMPARISONS):
        return _type_of(above.this, schema) or _type_of(above.expression, schema)
    return None


def _type_of(side: exp.Expr, schema: Schema) -> Type | None:
    while isinstance(side, exp.Paren):
        side = side.this
    column = schema.find(side.name) if isinstance(side, exp.Column) else None
    return None if column is None else column.type


def _literal(text: str, kind: Type | None, number: str) -> exp.Expr:
    """A parameter's value as a literal of a type; a string without one."""
    try:
        if kind is not None and (kind.is_integer or kind.name == "decimal"):
            value = decimal.Decimal(text)
            if not value.is_finite():
                raise ValueError
            literal = exp.Literal.number(f"{abs(value):f}")
            return exp.Neg(this=literal) if value < 0 else literal
        if kind is not None and kind.name == "boolean":
            return exp.Boolean(this={"t": True, "true": True, "f": False, "false": False}[text.strip().lower()])
        if kind is not None and kind.name == "date":
            dt.date.fromisoformat(text)
    except (ValueError, KeyError, decimal.InvalidOperation):
        raise SqlError(f"the value of ${number} is not of type {kind}: {text}") from None
    literal = exp.Literal.string(text)
    if kind is not None and (kind.is_float or kind.name in ("date", "timestamp", "timestamp_ntz")):
        return exp.Cast(this=literal, to=exp.DataType.build(kind.name, dialect="spark"))
    return literal
