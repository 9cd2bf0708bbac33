"""Errors for a recursion that does not end, in the words of the language it was written in: SQL or Datalog."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from viewkeeper.algebra import nodes as n
from viewkeeper.engine.problems import Endless
from viewkeeper.errors import DatalogError, SqlError, ViewkeeperError
from viewkeeper.recursion.endless import growth_of


@contextlib.contextmanager
def explained(node: n.Fixpoint) -> Iterator[None]:
    """Turns Endless, raised inside, into an error for the user."""
    try:
        yield
    except Endless as problem:
        raise (_in_sql if is_sql(node) else _in_datalog)(node, problem) from problem


def is_sql(node: n.Fixpoint) -> bool:
    """Whether a recursion was written as WITH RECURSIVE. The head of a Datalog rule has columns in parentheses."""
    return any(rule.text.startswith(f"{rule.head} :- ") for rule in node.rules)


def remark_on(node: n.Fixpoint) -> str | None:
    """A warning about a recursion that does not end over rows that lead back to themselves; None if it always ends."""
    growth = growth_of(node.predicates, node.rules, bag=node.bag)
    if not growth.may_be_endless or not growth.is_free:
        return None
    back = "rows that lead back to themselves"
    if node.bag:
        return f"it has no end over {back} (UNION ALL): a change that makes such rows is refused"
    return f"{growth.column} grows with every round and has no bound: a change that makes {back} is refused"


def _in_sql(node: n.Fixpoint, problem: Endless) -> ViewkeeperError:
    name = f"WITH RECURSIVE {node.shown}"
    growth = growth_of(node.predicates, node.rules, bag=node.bag)
    measured = f"length({growth.column})" if growth.is_text else growth.column or "depth"
    bound = f"add a condition to its step that ends it, such as WHERE {measured} < 100"
    if problem.rounds is not None or problem.rows is not None:
        return SqlError(f"{name} {_limit(problem)}", hint=f"{bound}; {_more(problem)}")
    if node.bag:
        union = "write UNION instead of UNION ALL" if not growth.growing else bound
        return SqlError(
            f"{name} never ends: with UNION ALL, rows that lead back to themselves come again and again", hint=union
        )
    return SqlError(
        f"{name} never ends: some rows lead back to themselves, and {problem.column} grows each time", hint=bound
    )


def _in_datalog(node: n.Fixpoint, problem: Endless) -> ViewkeeperError:
    names = ", ".join(sorted(predicate.name for predicate in node.predicates))
    growth = growth_of(node.predicates, node.rules)
    measured = f"strlen({growth.column})" if growth.is_text else growth.column or "n"
    bound = f"add a condition that ends it to the rule, such as {measured} < 100"
    if problem.rounds is not None or problem.rows is not None:
        return DatalogError(f"the recursion of {names} {_limit(problem)}", hint=f"{bound}; {_more(problem)}")
    return DatalogError(
        f"the recursion of {names} never ends: some rows lead back to themselves, and {problem.column} grows each time",
        hint=bound,
    )


def _limit(problem: Endless) -> str:
    if problem.rounds is not None:
        return f"did not end after {problem.rounds:,} rounds"
    return f"has more than {problem.rows:,} rows"


def _more(problem: Endless) -> str:
    if problem.rounds is not None:
        return f"if it needs more rounds: SET max_rounds = {problem.rounds * 10}"
    return f"if it needs more rows: SET max_rows = {(problem.rows or 0) * 10}"
