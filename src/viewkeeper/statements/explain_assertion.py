"""EXPLAIN ASSERTION: what it demands, which changes cannot break it at all, and the derived check of the others."""

from __future__ import annotations

from viewkeeper.advice.assertion_checks import check_lines
from viewkeeper.advice.change_paths import LEGEND
from viewkeeper.analysis.polarity import Kinds, relevant_kinds
from viewkeeper.catalog.relations import AssertionView, Table
from viewkeeper.catalog.state import State


def explain_assertion(state: State, assertion: AssertionView) -> list[str]:
    """What an assertion demands, and how it is checked, as lines."""
    definition = assertion.definition
    node = definition.as_written
    lines = [
        f"{assertion.name}: an assertion, ON VIOLATION {definition.violation.upper()}",
        "holds while this query has no row:",
        *(f"  {line}" for line in definition.sql.splitlines()),
        "checked before anything is written, by the rows that a transaction adds to the query",
    ]
    for key, kinds in relevant_kinds(node, Kinds.ADDITIONS).items():
        relation = state.relations[key]
        lines.append(relation.name if isinstance(relation, Table) else f"{relation.name} ({relation.kind_words})")
        lines += [f"  {line}" for line in check_lines(node, key, relation.name, relation.schema.names, kinds)]
    return [*lines, LEGEND]
