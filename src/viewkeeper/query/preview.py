"""The preview of a transaction: what it would change, derived without committing anything."""

from __future__ import annotations

import pyarrow as pa

from viewkeeper.catalog.relations import VirtualView
from viewkeeper.maintain.propagation import propagate
from viewkeeper.rules.processing import RuleProcessing
from viewkeeper.transaction.assertions import Violation, declared_assertions, violations
from viewkeeper.transaction.change import Change
from viewkeeper.transaction.open_transaction import OpenTransaction


class Preview(dict[str, Change]):
    """The net change of every relation that would change, by name.

    `rules` are the names of the rules that would fire, in their order; `assertions` says what would be violated.
    `firings` has the rules with the number of rows that each would fire for, `violating` some rows by assertion.
    """

    rules: list[str]
    assertions: list[str]
    firings: list[tuple[str, int]]
    violating: dict[str, pa.Table]


def preview(tx: OpenTransaction, rules: RuleProcessing) -> Preview:
    """The net change of every table and view that the transaction reaches, virtual ones included.

    Rules are processed as a commit would, but for functions of the user's, which are not called. All of it is taken
    back.
    """
    watched, fired, waiting = set(tx.watched), list(tx.fired), list(tx.waiting)
    found = Preview()
    with tx.taken_back():
        tx.watched |= {r.id for r in tx.alive() if isinstance(r, VirtualView) and r.id not in tx.created}
        try:
            rules.begin(tx)
            tx.wanted = {}  # all that would change is shown
            propagate(tx)
            while rules.before_writing(tx):
                propagate(tx)
            found.update(tx.changes())
            for change in found.values():
                _ = change.rows  # fetched now: the files of a preview do not stay
            for key, rows in tx.seen.items():
                relation = tx.by_id(key)
                if not relation.is_hidden:
                    found[relation.name] = Change(relation.schema, lambda rows=rows: rows)  # type: ignore[misc]
            found.firings = [(each["name"], each["rows"]) for each in tx.fired[len(fired) :]]
            detached = [each for each in tx.waiting if each.get("epoch") == 0]
            found.firings += [(tx.state.rules[each["rule"]].name, each["rows"]) for each in detached]
            found.rules = [name for name, _ in found.firings]
            broken = list(violations(tx, declared_assertions(tx)))
            found.assertions = [_said(violation) for violation in broken]
            found.violating = {violation.assertion.name: violation.rows for violation in broken}
        finally:
            tx.watched, tx.fired, tx.waiting = watched, fired, waiting
            tx.drop_derived()
    return found


def _said(violation: Violation) -> str:
    """What is said of an assertion that would be violated."""
    problem = violation.problem()
    return f"{problem.message} {problem.detail}"
