"""Deleted rows by propagation and filtration (Harrison & Dietrich's EPF).

    A    = body[q := ∇q, others @old]     potential deletions: rows that lost a derivation
    Ared = A − ∇p − D                     less those that are known already
    D'   = Ared that can be derived       from outside of the recursion, in the new state
    ∇p'  = Ared − D'                      actual deletions; only these are propagated further

Nothing is filtered twice: deleted rows are in ∇p, those that stay are in D.

There are two plans for testing whether a row can be derived (see questions): by the columns that tables are sorted by,
and if that derives too many rows, by as many bound columns as possible.
"""

from __future__ import annotations

from viewkeeper.recursion.magic import Magic
from viewkeeper.recursion.maintenance import Maintenance
from viewkeeper.recursion.net import Filtration
from viewkeeper.recursion.row_sets import Growing, Rows
from viewkeeper.recursion.steps import Step


def remove(work: Maintenance, steps: list[Step]) -> None:
    """Propagates and filters until no more rows are deleted."""
    if not steps:
        return
    plans = work.plans.questions(work.space.reader.size, work.space.engine.tuning.any_column_rows)
    orders = work.plans.orders
    node = work.after
    asked = [Magic(work.space, node.predicates, node.rules, work.outside_after, plan, orders) for plan in plans]
    disqualified = {name: Growing(work.space, p.attributes) for name, p in work.predicates.items()}
    while steps:
        lost: dict[str, Rows] = {}
        for name in work.predicates:
            found = work.propose(work.in_old, steps, name)
            if found is None:
                continue
            reduced = disqualified[name].new_among(work.removed[name].new_among(found))
            if not reduced.count:
                continue
            work.trace.note(work.trace.filtered, name, reduced.count)
            provable, actual = _parted(asked, name, reduced)
            work.trace.filtrations.append(Filtration(name, reduced, provable, actual))
            disqualified[name].add(provable)
            if actual.count:
                lost[name] = actual
        for name, rows in lost.items():
            work.removed[name].add(rows)
        steps = work.following(work.before.rules, lost)
    work.trace.unbound = sum(len(magic.unbound) for magic in asked)
    work.trace.adornments = [name for magic in asked for name in magic.adornments]


def _parted(asked: list[Magic], name: str, rows: Rows) -> tuple[Rows, Rows]:
    """The rows that can be derived, and those that cannot; a plan that derives too many rows is dropped."""
    while len(asked) > 1:
        parts = asked[0].parted(name, rows, most=FAR + FAR_EACH * rows.count)
        if parts is not None:
            return parts
        del asked[0]
    parts = asked[0].parted(name, rows)
    assert parts is not None, "it is not given up without a limit"
    return parts


FAR, FAR_EACH = 2_000, 200
"""Rows that tests may derive before the other plan is used: so many, and so many per tested row."""
