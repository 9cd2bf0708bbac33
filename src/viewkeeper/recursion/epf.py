"""What goes, by propagation and filtration (Harrison & Dietrich's EPF).

    A    = body[q := ∇q, others @old]     what may go, because a derivation of it went
    Ared = A − ∇p − D                     less what is known already
    D'   = Ared that can be derived anew  from what is outside of the recursion, in the state after
    ∇p'  = Ared − D'                      what goes; only this is propagated further

Nothing is filtered twice: what went is in ∇p, what stayed in D.

Whether a row can be derived is asked in one of two ways: from the columns that tables are sorted by, and if that leads
too far, from as many bound columns as possible (see questions).
"""

from __future__ import annotations

from viewkeeper.recursion.magic import Magic
from viewkeeper.recursion.maintenance import Maintenance
from viewkeeper.recursion.net import Filtration
from viewkeeper.recursion.rewriting import questions
from viewkeeper.recursion.row_sets import Growing, Rows
from viewkeeper.recursion.steps import Step


def remove(work: Maintenance, steps: list[Step]) -> None:
    """Propagates and filters until nothing more goes."""
    if not steps:
        return
    ways = questions(work.after, work.space.reader.size, work.space.engine.tuning.any_column_rows)
    asked = [Magic(work.space, work.after.predicates, work.after.rules, work.outside_after, w.is_small) for w in ways]
    disqualified = {name: Growing(work.space, p.attributes) for name, p in work.predicates.items()}
    while steps:
        gone: dict[str, Rows] = {}
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
                gone[name] = actual
        for name, rows in gone.items():
            work.removed[name].add(rows)
        steps = work.following(work.before.rules, gone)
    work.trace.unbound = sum(len(magic.unbound) for magic in asked)
    work.trace.adornments = [name for magic in asked for name in magic.adornments]


def _parted(asked: list[Magic], name: str, rows: Rows) -> tuple[Rows, Rows]:
    """The rows that can be derived, and those that cannot; a way that leads too far is not taken again."""
    while len(asked) > 1:
        parts = asked[0].parted(name, rows, most=FAR + FAR_EACH * rows.count)
        if parts is not None:
            return parts
        del asked[0]
    parts = asked[0].parted(name, rows)
    assert parts is not None, "it is not given up without a limit"
    return parts


FAR, FAR_EACH = 2_000, 200
"""Questions are asked in another way when they have led to more rows than that, and so many for each."""
