"""What statements need: a right, and the thread that they run in."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token

from viewkeeper.errors import Place, ViewkeeperError
from viewkeeper.server.access_tokens import ADMIN, READ, RIGHTS, WRITE
from viewkeeper.server.http_problems import Problem
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.sql.tokens import split

_READING = (sql.Select, sql.Show, sql.Describe, sql.Analyze, sql.Explain)
_WRITING = (sql.Insert, sql.Update, sql.Delete, sql.Merge, sql.Truncate, sql.Refresh, sql.Check, sql.Control)

REFUSED_FUNCTIONS = ("java_method", "reflect", "try_reflect")
"""Functions that run any method of the server's machine."""


@dataclass(frozen=True)
class Needs:
    """What a text of statements needs: a right, and whether it has to run in the committing thread."""

    right: str
    commits: bool


def needs_of(text: str) -> Needs:
    """What a text needs: the most that any of its statements needs."""
    rights = [READ]
    commits = False
    parts = split(text)
    for number, statement in enumerate(parts, start=1):
        refuse_functions(statement.tokens, statement.text)
        try:
            parsed = sql.parse(statement)
        except ViewkeeperError as problem:
            problem.statement = (number, len(parts))
            raise
        if isinstance(parsed, sql.Subscribe):
            raise Problem(
                "use-a-stream",
                "SUBSCRIBE has no end, and an answer needs one",
                hint="GET /api/v1/views/{name}/changes with Accept: text/event-stream, or WS /api/v1/stream",
            )
        rights.append(_right(parsed))
        commits = commits or not isinstance(parsed, (*_READING, sql.Verify))
    return Needs(max(rights, key=RIGHTS.index), commits)


def _right(parsed: sql.Parsed) -> str:
    if isinstance(parsed, _READING):
        return READ
    if isinstance(parsed, sql.Verify):
        return READ if parsed.engine is None else ADMIN
    return WRITE if isinstance(parsed, _WRITING) else ADMIN


def refuse_functions(tokens: Sequence[Token], text: str) -> None:
    """Raises for a call of a function that reaches beyond the database."""
    for token, following in itertools.pairwise(tokens):
        if str(token.text).lower() in REFUSED_FUNCTIONS and following.text == "(":
            raise Problem(
                "function-refused",
                f"{token.text} cannot be called over HTTP",
                hint="use functions of SQL, or declare one of your own in the database",
                place=Place.at(text, token.start, token.end + 1 - token.start),
            )
