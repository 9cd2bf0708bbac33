"""Names for selected expressions without an alias, close to Apache Spark's."""

from __future__ import annotations

from sqlglot import exp

from viewkeeper.sql.dialect import render

_BRACKETED = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT)
_MORE = (exp.GTE, exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.Neg, exp.NullSafeEQ)


def column_name(node: exp.Expr) -> str:
    """The name of a selected expression."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, (exp.Alias, exp.Column)):
        return node.alias_or_name
    if isinstance(node, exp.Dot):
        return node.name
    if isinstance(node, exp.Literal):
        return node.name
    if isinstance(node, exp.Exists):
        return "exists()"
    if isinstance(node, (exp.Subquery, exp.Query)):
        return "scalarsubquery()"
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column):
        return node.this.name
    return render(node.copy().transform(_plain, copy=False)).replace("`", "")


def _plain(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        return exp.column(node.this.copy()) if node.table else node
    if isinstance(node, exp.Star) and isinstance(node.parent, exp.Anonymous):
        return exp.Literal.number(1)
    if isinstance(node, exp.Anonymous):
        node.set("this", node.name.lower())
    if isinstance(node, (*_BRACKETED, *_MORE)) and not isinstance(node.parent, exp.Paren):
        copy = node.copy()
        for name, value in copy.args.items():
            if isinstance(value, exp.Expr):
                copy.set(name, value.transform(_plain, copy=False))
        return exp.Paren(this=copy)
    return node
