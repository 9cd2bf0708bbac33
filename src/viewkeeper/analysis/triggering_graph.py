"""The triggering graph of active rules: which rules may trigger each other, and for which pairs the order matters.

A rule leads to another if its action can make a kind of change, of columns that are read, that can trigger the other
one (Ceri and Widom 1991, section 9). A cycle need not end. Two rules of one priority are not confluent if one writes
what the other reads, or if both write a table by operations that do not commute. What a Python function writes is not
known: such a rule leads to no other here, though others may lead to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from viewkeeper.algebra import nodes as n
from viewkeeper.analysis.polarity import Kinds, Polarity, polarities

Columns = frozenset[str] | None
"""Names of columns in lower case; None for all."""


@dataclass(frozen=True)
class Watch:
    """How a table is read: the kinds of change that matter, and the columns."""

    kinds: Kinds
    columns: Columns = None

    def joined(self, other: Watch | None) -> Watch:
        """What matters to this or to another reader."""
        if other is None:
            return self
        some = self.columns is not None and other.columns is not None
        columns = frozenset((*(self.columns or ()), *(other.columns or ()))) if some else None
        return Watch(self.kinds | other.kinds, columns)

    def meets(self, write: Write) -> bool:
        """Whether a write changes columns that are read."""
        return self.columns is None or write.columns is None or not self.columns.isdisjoint(write.columns)


@dataclass(frozen=True)
class Write:
    """What an action does to a table. `columns` are those that an UPDATE assigns; all else changes whole rows."""

    table: str
    operation: str
    columns: Columns = None

    @property
    def kinds(self) -> Kinds:
        """The kinds of change that it makes."""
        return _KINDS.get(self.operation, Kinds.BOTH)

    def commutes_with(self, other: Write) -> bool:
        """Whether two operations on one table have the same effect in either order: both insert, or both delete."""
        return self.kinds == other.kinds != Kinds.BOTH


_KINDS = {"INSERT": Kinds.ADDITIONS, "DELETE": Kinds.REMOVALS, "TRUNCATE": Kinds.REMOVALS}


@dataclass(frozen=True)
class Reaction:
    """A rule, as far as the graph needs it. Tables have ids or names, the same in all reactions.

    `watches` are the tables whose changes can trigger it. `reads` are those that its condition and its action query.
    `only_updates`: it watches one table, for updates alone.
    """

    name: str
    priority: int
    coupling: str
    watches: Mapping[str, Watch]
    reads: frozenset[str] = frozenset()
    writes: tuple[Write, ...] = ()
    only_updates: bool = False

    def triggers(self, other: Reaction) -> list[str]:
        """The tables through which its action can trigger a rule."""
        found: dict[str, None] = {}
        for write in self.writes:
            watch = other.watches.get(write.table)
            if watch is None or not watch.meets(write) or not watch.kinds & write.kinds:
                continue
            if not other.only_updates or write.kinds == Kinds.BOTH:
                found[write.table] = None
        return list(found)


def kinds_of(events: Collection[str]) -> Kinds:
    """The kinds of change without which none of some events (inserted, deleted, updated) can happen."""
    kinds = {"inserted": Kinds.ADDITIONS, "deleted": Kinds.REMOVALS, "updated": Kinds.BOTH}
    found = Kinds.NONE
    for event in events:
        found |= kinds[event]
    return found


# what a rule watches ------------------------------------------------------------------------------------

Reads = Mapping[str, tuple[Polarity, Columns]]
"""Per table, how a view reads it."""

Below = Callable[[str], Reads | None]
"""How a stored view reads tables; None for a table."""


def reads_of(node: n.Node, below: Below) -> dict[str, tuple[Polarity, Columns]]:
    """Per table, how an expression reads it, through the stored views that it names."""
    found: dict[str, tuple[Polarity, Columns]] = {}
    columns = columns_read(node)
    for relation, polarity in polarities(node).items():
        inside = below(relation)
        if inside is None:
            inside = {relation: (Polarity.EVEN, columns[relation])}
        for table, (sign, names) in inside.items():
            before = found.get(table)
            passed = polarity.followed_by(sign)
            if before is not None:
                passed |= before[0]
                names = None if names is None or before[1] is None else names | before[1]
            found[table] = (passed, names)
    return found


def columns_read(node: n.Node) -> dict[str, frozenset[str]]:
    """Per relation, the columns that an expression reads, in lower case."""
    found: dict[str, frozenset[str]] = {}
    for scan in n.scans(node):
        found[scan.relation] = found.get(scan.relation, frozenset()) | {name.lower() for name in scan.stored_names}
    return found


def watches_of(node: n.Node, kinds: Mapping[str, Kinds], below: Below) -> dict[str, Watch]:
    """The tables whose changes matter to an expression; `kinds` says it of the relations that it reads itself."""
    found: dict[str, Watch] = {}
    columns = columns_read(node)
    for relation, wanted in kinds.items():
        inside = below(relation)
        if inside is None:
            inside = {relation: (Polarity.EVEN, columns[relation])}
        for table, (sign, names) in inside.items():
            found[table] = Watch(sign.gives(wanted), names).joined(found.get(table))
    return found


# warnings -----------------------------------------------------------------------------------------------


def warnings(reactions: Sequence[Reaction], made: str, called: Callable[[str], str]) -> list[str]:
    """What is to be said of a rule that was made, beside those that were there; `called` gives the name of a table.

    `reactions` are in the order of their creation.
    """
    mine = next(reaction for reaction in reactions if reaction.name == made)
    others = [reaction for reaction in reactions if reaction is not mine]
    cycle = cycle_through(reactions, mine)
    found = [_cycle_text(cycle, called)] if cycle else []
    for other in others:
        first, second = sorted((mine, other), key=reactions.index)
        why = order_matters(first, second, called)
        if why is not None:
            found.append(
                f"the rules {first.name} and {second.name} have the same priority, and {why}: {first.name}, the older "
                f"one, goes first; PRIORITY can say otherwise"
            )
    return found


def cycle_through(reactions: Collection[Reaction], start: Reaction) -> list[Reaction]:
    """The shortest cycle of rules that may trigger each other, from one on; empty if there is none."""
    paths = [[start]]
    seen: set[str] = set()
    while paths:
        path = paths.pop(0)
        for following in reactions:
            if not path[-1].triggers(following):
                continue
            if following is start:
                return path
            if following.name not in seen:
                seen.add(following.name)
                paths.append([*path, following])
    return []


def order_matters(one: Reaction, other: Reaction, called: Callable[[str], str]) -> str | None:
    """Why two rules of one coupling and priority may lead to another result in another order; None if they do not."""
    if (one.priority, one.coupling) != (other.priority, other.coupling):
        return None
    for writer, reader in ((one, other), (other, one)):
        for write in writer.writes:
            watch = reader.watches.get(write.table)
            if write.table in reader.reads or (watch is not None and watch.meets(write)):
                return f"{writer.name} writes {called(write.table)}, which {reader.name} reads"
    for write in one.writes:
        if any(write.table == theirs.table and not write.commutes_with(theirs) for theirs in other.writes):
            return f"both write {called(write.table)}"
    return None


def _cycle_text(cycle: Sequence[Reaction], called: Callable[[str], str]) -> str:
    steps = zip(cycle, [*cycle[1:], cycle[0]], strict=True)
    through = [(one.name, _listed([called(table) for table in one.triggers(following)])) for one, following in steps]
    detached = [reaction.name for reaction in cycle if reaction.coupling == "detached"]
    end = "a cascade without end is given up, and nothing is changed"
    if detached:
        verb = "is" if len(detached) == 1 else "are"
        end = f"{_listed(detached)} {verb} detached, each round is a transaction of its own, and no limit ends them"
    if len(cycle) == 1:
        return f"the rule {cycle[0].name} may trigger itself: it writes {through[0][1]}, which it watches; {end}"
    steps_text = ", ".join(f"{name} writes {tables}" for name, tables in through)
    names = _listed([reaction.name for reaction in cycle])
    return f"the rules {names} may trigger each other: {steps_text}; {end}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
