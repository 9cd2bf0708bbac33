"""Queries in Datalog: the body of a rule. The answers are the values of its variables."""

from __future__ import annotations

from collections.abc import Mapping

from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.types import quote
from viewkeeper.datalog.parsing import parse
from viewkeeper.datalog.program_tree import Clause
from viewkeeper.datalog.rule_queries import Relations, selects
from viewkeeper.datalog.safety import check
from viewkeeper.datalog.walking import names, own_variables
from viewkeeper.errors import DatalogError

_ANSWER = "answer"


def question(text: str, schemas: Mapping[str, Schema], functions: Mapping[str, str]) -> str:
    """A question as SQL: each answer once. Without variables, one column says whether it holds."""
    body = text.strip().removesuffix(".")
    if not body:
        raise DatalogError("there is no question", hint="ask for instance path(1, X), or path(1, X), X > 2")
    asked = names(own_variables([_clause(f"{_ANSWER}(0) :-\n{body}.")]))
    head = ", ".join(asked) if asked else "0"
    program = parse(f"{_ANSWER}({head}) :-\n{body}.")
    checked = check(program, dict(schemas), functions)
    relations = Relations(schemas, functions)
    columns = [quote(f"c{number}") for number in range(1, len(asked or [0]) + 1)]
    parts = " UNION ALL ".join(query for rule in checked.rules for query in selects(rule, relations, None))
    if not asked:
        return f"SELECT count(*) > 0 AS holds FROM ({parts}) AS q"
    listed = ", ".join(f"{column} AS {quote(name)}" for column, name in zip(columns, asked, strict=True))
    return f"SELECT DISTINCT {listed} FROM ({parts}) AS q"


def _clause(text: str) -> Clause:
    clauses = parse(text).clauses
    if len(clauses) != 1:
        raise DatalogError("a question is the body of one rule", hint="ask for instance path(1, X), X > 2")
    return clauses[0]
