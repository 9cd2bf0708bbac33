"""A check that no clause is lost: what a piece of the translation does not read must not be there.

sqlglot hangs clauses on nodes where Spark's grammar has none (a WHERE inside the brackets of a join), and one kind of
node stands in several places. So each place that translates a node names the clauses it reads, and a clause that is set
but not read is an error there, instead of a query that means something else.
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
"""The clauses around any query in brackets and any set operation."""


def only(context: Context, node: exp.Expr, *read: str, hint: str | None = None) -> None:
    """Refuses a clause of a node that its translation, which reads those given, would lose."""
    for name, value in node.args.items():
        if name in read or value is None or value is False or value == []:
            continue
        word = _WORDS.get(name, name.strip("_").replace("_", " ").upper())
        first = value[0] if isinstance(value, list) else value
        context.wrong(f"{word} cannot stand here", first if isinstance(first, exp.Expr) else node, hint)
