"""A check that no clause is lost: a clause that the translation of a node does not read is an error.

sqlglot accepts clauses on nodes where Spark's grammar has none (a WHERE inside the parentheses of a join), and one kind
of node occurs in several contexts. So each function that translates a node lists the clauses it reads; any other clause
raises there, and no query silently loses it.
"""

from __future__ import annotations

from sqlglot import exp

from viewkeeper.sql.context import Context

_WORDS = {
    "cluster": "CLUSTER BY",
    "cross_apply": "APPLY",
    "distribute": "DISTRIBUTE BY",
    "except_": "EXCEPT",
    "from_": "FROM",
    "group": "GROUP BY",
    "joins": "a join",
    "kind": "this kind of SELECT",
    "laterals": "LATERAL VIEW",
    "with_ties": "WITH TIES",
    "locks": "FOR UPDATE",
    "order": "ORDER BY",
    "ordinality": "WITH ORDINALITY",
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
    "sort": "SORT BY",
    "using": "USING",
    "version": "time travel",
    "when": "time travel",
    "windows": "WINDOW",
    "with_": "WITH",
}

QUERY = ("with_", "order", "limit", "offset")
"""The clauses that any parenthesized query or set operation may have."""


def only(context: Context, node: exp.Expr, *read: str, hint: str | None = None) -> None:
    """Refuses every clause of a node other than those given, which its translation reads."""
    for name, value in node.args.items():
        if name in read or value is None or value is False or value == []:
            continue
        word = _WORDS.get(name, name.strip("_").replace("_", " ").upper())
        first = value[0] if isinstance(value, list) else value
        context.wrong(f"{word} cannot stand here", first if isinstance(first, exp.Expr) else node, hint)
