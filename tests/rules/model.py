"""What active rules and assertions mean, as a plain program: everything is recomputed, every state is copied.

A rule sees the difference between now and the state when it was last considered. Of the triggered rules the first is
considered; this is repeated until none is triggered. What a detached rule sees at a commit is kept until it is run.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.rules.actions import CONDITIONS, EFFECTS, Refused, Scene, Transition, text_of
from tests.rules.world import ASSERTIONS, LIMITS, QUERIES, ROWS, SOURCES, TABLES, Bag, Contents, Row, Source

LIMIT = 6
"""How often a rule may change something at one point; the tests lower the database's limit to it."""


@dataclass(frozen=True)
class Rule:
    """A rule as the machine makes it. Its action notes the transition tables in `audit`, then has one more effect.

    `number` tells a rule from the one that it replaces.
    """

    name: str
    source: str
    events: tuple[str, ...] = ("inserted",)
    coupling: str = "deferred"
    nervous: bool = False
    priority: int = 0
    condition: str | None = None
    each_row: bool = False
    effect: str = ""
    python: bool = False
    enabled: bool = True
    number: int = 0

    @property
    def watched(self) -> Source:
        return SOURCES[self.source] if self.source in SOURCES else QUERIES[self.source]

    @property
    def takes_parameter(self) -> bool:
        return self.watched.parameter


@dataclass(frozen=True)
class Firing:
    """A firing of a detached rule: what it saw at its epoch, for each activation, and the rows before that epoch.

    `number` is the rule's. A parked one has failed and waits for RETRY.
    """

    rule: str
    number: int
    parts: tuple[tuple[Any, Transition], ...]
    before: Contents
    epoch: int = 0
    parked: bool = False

    def __deepcopy__(self, memo: object) -> Firing:
        return self  # never changed, and copied with every state

    @property
    def rows(self) -> int:
        return sum(part.rows for _, part in self.parts)


def first_rows() -> Contents:
    """A new database."""
    return {name: Counter(ROWS.get(name, ())) for name in TABLES} | {
        f"limit of {name}": Counter({(2,): 1}) for name in LIMITS
    }


@dataclass
class Model:
    """A database: rows of tables, rules in the order of their creation, their activations, assertions, and firings.

    `fresh` are the assertions that the transaction has made or changed; `made` counts rules. `waiting` are the firings
    of detached rules that have not come to their end.
    """

    rows: Contents = field(default_factory=first_rows)
    rules: dict[str, Rule] = field(default_factory=dict)
    active: dict[str, set[Any]] = field(default_factory=dict)
    assertions: dict[str, str] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    made: int = 0
    waiting: list[Firing] = field(default_factory=list)

    def copy(self) -> Model:
        return copy.deepcopy(self)

    def at_epoch(self, epoch: int) -> Model:
        """The same; the firings that the last transaction has added are of that epoch."""
        self.waiting = [replace(firing, epoch=epoch) if not firing.epoch else firing for firing in self.waiting]
        return self

    def forget(self, name: str) -> None:
        """A rule is dropped, with its activations and its firings."""
        del self.rules[name]
        self.active.pop(name, None)
        self.waiting = [firing for firing in self.waiting if firing.rule != name]

    def next_firing(self, name: str) -> Firing | None:
        """The firing of a rule that can be run next."""
        if not self.rules[name].enabled:
            return None
        mine = [firing for firing in self.waiting if firing.rule == name and not firing.parked]
        return min(mine, key=lambda firing: firing.epoch, default=None)


@dataclass
class Outcome:
    """What a commit did, or would do."""

    fired: list[tuple[str, int]]
    waiting: list[tuple[str, int]]
    warnings: list[str]
    violated: list[str]


class ModelTransaction:
    """A transaction of the model. A step that is refused changes nothing."""

    def __init__(self, start: Model) -> None:
        self.start = start.copy()
        self.now = start.copy()
        self.now.fresh = set()
        self.seen: dict[str, Contents] = {}
        self.fired: list[tuple[str, int]] = []
        self.dry = False

    def copy(self) -> ModelTransaction:
        return copy.deepcopy(self)

    def statement(self, change: Callable[[Model], None]) -> None:
        """A statement, then the immediate rules."""
        self._whole(lambda: (change(self.now), self._point(("immediate",))))

    def check(self) -> None:
        """CHECK."""
        self._whole(lambda: (self._point(("immediate", "deferred")), self._check()))

    def commit(self) -> Outcome:
        """Processes rules and assertions a last time; the caller takes `now` over."""
        self._point(("immediate", "deferred"))
        found = [(rule, self._parts(rule, self.start.rows)) for rule in self._rules(("detached",))]
        added = [Firing(rule.name, rule.number, tuple(parts), self.start.rows) for rule, parts in found if parts]
        self.now.waiting += added
        return Outcome(self.fired, [(firing.rule, firing.rows) for firing in added], self._check(), [])

    def run(self, firing: Firing) -> tuple[int, Outcome | None]:
        """Carries out a firing in this transaction: for how many rows, and what the commit does if it has changed some.

        The condition is tested now; AS OF OLD is the state before the epoch of the firing.
        """
        self.now.waiting.remove(firing)
        rows = self._act(self.now.rules[firing.rule], firing.parts, firing.before)
        if self.now.rows == self.start.rows:
            return rows, None
        self._point(("immediate",))
        return rows, self.commit()

    def preview(self) -> Outcome:
        """What a commit would do, were Python actions not called; `self` is a copy."""
        before = len(self.fired)
        self.dry = True
        violations = dict.fromkeys(self.now.assertions, "warn")
        kept, self.now.assertions = self.now.assertions, violations
        done = self.commit()
        self.now.assertions = kept
        return Outcome(self.fired[before:], done.waiting, [], done.warnings)

    def _whole(self, step: Callable[[], object]) -> None:
        now, seen, fired = self.now.copy(), dict(self.seen), list(self.fired)
        try:
            step()
        except Refused:
            self.now, self.seen, self.fired = now, seen, fired
            raise

    # rules ------------------------------------------------------------------------------------------

    def _rules(self, couplings: tuple[str, ...]) -> list[Rule]:
        """Rules that were there and enabled when the transaction began and still are, in their order."""
        found = []
        for name, rule in self.now.rules.items():
            began = self.start.rules.get(name)
            if began is not None and began.number == rule.number and began.enabled and rule.enabled:
                found.append(rule)
        found = [rule for rule in found if rule.coupling in couplings]
        position = list(self.now.rules)
        return sorted(found, key=lambda r: (r.coupling != "immediate", r.priority, position.index(r.name)))

    def _point(self, couplings: tuple[str, ...]) -> None:
        rules = self._rules(couplings)
        changes = Counter()
        while True:
            for rule in rules:
                parts = self._parts(rule, self.seen.get(rule.name, self.start.rows))
                if not parts:
                    continue
                self.seen[rule.name] = copy.deepcopy(self.now.rows)
                before = copy.deepcopy(self.now.rows)
                self._fire(rule, parts)
                if self.now.rows != before:
                    changes[rule.name] += 1
                    if changes[rule.name] >= LIMIT:
                        raise Refused("RuleLoop")
                    break
            else:
                break
        for rule in rules:
            self.seen[rule.name] = copy.deepcopy(self.now.rows)

    def _parts(self, rule: Rule, since: Contents) -> list[tuple[Any, Transition]]:
        """The transition of each activation that has one of the rule's events."""
        values: list[Any] = [None]
        if rule.takes_parameter:
            began, now = self.start.active.get(rule.name, set()), self.now.active.get(rule.name, set())
            values = sorted(began & now)
        found = [(value, transition(rule, since, self.now.rows, value)) for value in values]
        return [(value, part) for value, part in found if part.rows]

    def _fire(self, rule: Rule, parts: list[tuple[Any, Transition]]) -> None:
        rows = self._act(rule, parts, self.start.rows)
        if rows:
            self.fired.append((rule.name, rows))

    def _act(self, rule: Rule, parts: Iterable[tuple[Any, Transition]], before: Contents) -> int:
        """Tests the condition and runs the action for each activation, or each row; for how many rows."""
        rows = 0
        for value, part in parts:
            for one in rows_of(part) if rule.each_row else [part]:
                scene = Scene(self.now.rows, before, one)
                if rule.condition is not None and not CONDITIONS[rule.condition](scene):
                    continue
                rows += one.rows
                if not (rule.python and self.dry):
                    audit(rule, value, scene)
                    EFFECTS[rule.effect](scene)
        return rows

    # assertions -------------------------------------------------------------------------------------

    def _check(self) -> list[str]:
        """The assertions that warn; raises for one that aborts."""
        warnings = []
        for name, violation in self.now.assertions.items():
            query = ASSERTIONS[name][1]
            before = Counter() if name in self.now.fresh else query(self.start.rows)
            added = query(self.now.rows) - before
            if added and violation == "abort":
                raise Refused("AssertionViolated")
            if added:
                warnings.append(name)
        return sorted(warnings)


def transition(rule: Rule, since: Contents, now: Contents, value: Any) -> Transition:
    """What a rule sees of the difference between two states, without events that it does not name."""
    source = rule.watched
    if rule.nervous:
        assert source.touched is not None
        return Transition(tuple(source.touched(since, now, value)))
    before, after = set(source.rows(since, value)), set(source.rows(now, value))
    inserted, deleted = after - before, before - after
    pairs: list[tuple[Row, Row]] = []
    if source.key is not None:
        key = source.key
        gone = {tuple(row[i] for i in key): row for row in deleted}
        come = {tuple(row[i] for i in key): row for row in inserted}
        pairs = [(gone[k], come[k]) for k in gone if k in come]
    old, new = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    updated = "updated" in rule.events
    return Transition(
        tuple(inserted - set(new)) if "inserted" in rule.events else (),
        tuple(deleted - set(old)) if "deleted" in rule.events else (),
        old if updated else (),
        new if updated else (),
    )


def rows_of(part: Transition) -> list[Transition]:
    """One transition for each row, in the order in which actions FOR EACH ROW are run."""

    def ordered(rows: tuple[Row, ...]) -> list[int]:
        return sorted(range(len(rows)), key=lambda i: [(v is None, v) for v in rows[i]])

    return [
        *(Transition(deleted=(part.deleted[i],)) for i in ordered(part.deleted)),
        *(Transition(old=(part.old[i],), new=(part.new[i],)) for i in ordered(part.new)),
        *(Transition(inserted=(part.inserted[i],)) for i in ordered(part.inserted)),
    ]


def audit(rule: Rule, value: Any, scene: Scene) -> None:
    """Notes the transition tables in `audit`."""
    noted = Counter()
    for kind, rows in audited(rule, scene.transition):
        for row in rows:
            cells = [text_of(cell) for cell in row]
            noted[(rule.name, kind, text_of(value), *cells, *[None] * (3 - len(cells)))] += 1
    scene.now["audit"] = scene.now["audit"] + noted


def audited(rule: Rule, part: Transition) -> list[tuple[str, tuple[Row, ...]]]:
    if not rule.each_row:
        return [("+", part.inserted), ("-", part.deleted), ("<", part.old), (">", part.new)]
    nothing = (None,) * len(rule.watched.columns)
    after, before = part.inserted or part.new or (nothing,), part.deleted or part.old or (nothing,)
    return [("new", after), ("old", before)]


def contents(rows: Contents, name: str) -> Bag:
    """The rows of a table or a view."""
    return SOURCES[name].rows(rows, None) if name in SOURCES else rows[name]
