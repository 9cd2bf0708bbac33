"""Conditions on the rows of one relation, from a client or from a token's grant; each is read as ONE expression.

A condition is used as the text of its syntax tree, never as it was sent: what is not one whole expression over the
columns of the relation is refused, so that nothing can end the condition early or reach another relation.
"""

from __future__ import annotations

from sqlglot import exp

from viewkeeper.algebra.schema import Schema
from viewkeeper.catalog.relations import Relation
from viewkeeper.errors import NotFound, Place, SqlError
from viewkeeper.server.access_tokens import Grant
from viewkeeper.server.http_problems import Problem
from viewkeeper.server.statement_rights import refuse_functions
from viewkeeper.sql.aggregate_calls import is_aggregate
from viewkeeper.sql.dialect import parse_expression_tokens, render
from viewkeeper.sql.generators import is_generator
from viewkeeper.sql.tokens import tokenize

LONGEST = 10_000
"""Letters that a condition may have."""


def read_condition(text: str, name: str, schema: Schema) -> str:
    """The condition for use in a query of the relation; raises unless it is one expression over its columns."""
    if len(text) > LONGEST:
        raise SqlError(f"the condition has more than {LONGEST:,} letters", hint="use a shorter one")
    tokens = tokenize(text)
    if not tokens:
        raise SqlError("the condition is empty", hint="leave it out, or write for instance region = 'EU'")
    refuse_functions(tokens, text)
    try:
        tree = parse_expression_tokens(tokens, text)
        for part in tree.walk():
            _check(part, text, name, schema)
        return render(tree)
    except RecursionError:
        raise SqlError("the condition is nested too deep", hint="use a simpler one") from None


def _check(part: exp.Expr, text: str, name: str, schema: Schema) -> None:
    place = _place(part, text)
    if isinstance(part, exp.Query | exp.Table):
        raise SqlError(
            "the condition has a query inside, and it can only name columns of the relation itself",
            place=place,
            hint=f"define a view with that condition over {name}",
        )
    if isinstance(part, exp.Placeholder | exp.Parameter | exp.SessionParameter):
        raise SqlError("the condition has a parameter, and there are none", place=place, hint="write the value itself")
    if isinstance(part, exp.Window) or is_aggregate(part) or is_generator(part):
        raise SqlError("the condition has to be about one row at a time", place=place, hint="define a view instead")
    if isinstance(part, exp.Column) and part.find_ancestor(exp.Lambda) is None:
        first = part.parts[0].name.lower()
        if isinstance(part.this, exp.Identifier) and first not in {name.lower(), *(c.lower() for c in schema.names)}:
            hint = f"the columns are {', '.join(schema.names)}"
            raise NotFound(f"there is no column '{part.parts[0].name}' in {name}", place=place, hint=hint)


def _place(part: exp.Expr, text: str) -> Place:
    found = next((each.meta for each in part.walk() if "start" in each.meta), None)
    return Place.at(text, 0) if found is None else Place.at(text, found["start"], found["end"] + 1 - found["start"])


def bound(binding: str | None, asked: str | None) -> str | None:
    """Both conditions together. What a client asks is evaluated only on rows that fulfill the binding.

    So neither the answer nor an error, such as a division by zero, tells anything of other rows.
    """
    if binding is None or asked is None:
        return binding if asked is None else asked
    return f"({binding}) AND CASE WHEN ({binding}) THEN ({asked}) ELSE FALSE END"


def condition_for(relation: Relation, grant: Grant, asked: str | None) -> str | None:
    """The condition on the rows of a relation: what a client asks for, of what its token is bound to."""
    wanted = None if asked is None else read_condition(asked, relation.name, relation.schema)
    if grant.where is None:
        return wanted
    try:
        binding = read_condition(grant.where, relation.name, relation.schema)
    except (SqlError, NotFound, Problem):  # the relation was redefined since the token was made
        raise Problem("not-granted", f"the rows of {relation.name} that the token is bound to cannot be told") from None
    return bound(binding, wanted)
