"""What goes, by propagation and filtration (Harrison & Dietrich's EPF).

    A    = body[q := ∇q, others @old]     what may go, because a derivation of it went
    Ared = A − ∇p − D                     less what is known already
    D'   = Ared that can be derived anew  from what is outside of the recursion, in the state after
    ∇p'  = Ared − D'                      what goes; only this is propagated further

Nothing is filtered twice: what went is in ∇p, what stayed in D.
"""

from __future__ import annotations

from viewkeeper.recursion.change import Filtration
from viewkeeper.recursion.magic import Magic
from viewkeeper.recursion.maintenance import Maintenance
from viewkeeper.recursion.rows import Growing, Rows
from viewkeeper.recursion.steps import Step


def remove(work: Maintenance, steps: list[Step]) -> None:
    """Propagates and filters until nothing more goes."""
    if not steps:
        return
    after = work.after
    magic = Magic(work.space, after.predicates, after.rules, work.outside_after)
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
            provable, actual = magic.parted(name, reduced)
            work.trace.filtrations.append(Filtration(name, reduced, provable, actual))
            disqualified[name].add(provable)
            if actual.count:
                gone[name] = actual
        for name, rows in gone.items():
            work.removed[name].add(rows)
        steps = work.following(work.before.rules, gone)
    work.trace.unbound = len(magic.unbound)
    work.trace.adornments = magic.adornments
