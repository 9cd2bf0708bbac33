"""Active rules as definitions, and the firings of detached ones that wait to be run. Plain values of the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

INSERTED, DELETED, UPDATED = "inserted", "deleted", "updated"
"""The events of a rule, as WHEN names them."""

IMMEDIATE, DEFERRED, DETACHED = "immediate", "deferred", "detached"
"""When a rule is considered: after each statement, before the commit, after it in a transaction of its own."""

SQL, PYTHON, WEBHOOK = "sql", "python", "webhook"
"""The kinds of actions."""


@dataclass(frozen=True)
class Action:
    """What a rule does: statements, the name of a Python function, or the address of a webhook.

    `secret` signs the documents that a webhook is sent; `timeout` is in seconds; `private` allows addresses of the
    own network.
    """

    kind: str
    text: str
    secret: str = field(default="", repr=False)
    timeout: float = 10.0
    private: bool = False


@dataclass(frozen=True)
class ActiveRule:
    """A rule: what it watches, when it is considered, under which condition, and what it does.

    `relation` is the id of what stands after ON: a table, a view, or the virtual view that a query in brackets became.
    `watched` is the id of the relation whose change is derived for it: `relation` itself, or the virtual view of its
    different rows where it may have duplicates. `order` counts rules in the order of their creation. `activations` is
    the id of the table that has one row for each activation of a rule with `parameters` (names and types). `uses` are
    the ids of the relations that its condition and its action name. `text` is the statement that made it; `query` is
    the query in brackets after ON, as it was written.
    """

    id: str
    name: str
    relation: str
    watched: str
    events: tuple[str, ...]
    coupling: str
    nervous: bool
    priority: int
    order: int
    condition: str | None
    each_row: bool
    action: Action
    parameters: tuple[tuple[str, str], ...] = ()
    activations: str | None = None
    uses: tuple[str, ...] = ()
    enabled: bool = True
    text: str = ""
    query: str = ""

    @property
    def own(self) -> tuple[str, ...]:
        """The ids of hidden relations that may have been made for it alone."""
        mine = (self.watched, self.relation, self.activations)
        return tuple(dict.fromkeys(key for key in mine if key is not None))

    @property
    def needs(self) -> tuple[str, ...]:
        """The ids of the relations without which it could not be considered, or its action not be run."""
        return tuple(dict.fromkeys([*self.own, *self.uses]))

    @property
    def precedence(self) -> tuple[bool, int, int]:
        """Which of several triggered rules comes first: immediate ones, then by priority, then the oldest."""
        return (self.coupling != IMMEDIATE, self.priority, self.order)

    def to_json(self) -> dict[str, Any]:
        """For the ledger."""
        return asdict(self)

    @staticmethod
    def from_json(body: Mapping[str, Any]) -> ActiveRule:
        """The inverse of to_json."""
        return ActiveRule(
            **{
                **body,
                "events": tuple(body["events"]),
                "uses": tuple(body["uses"]),
                "action": Action(**body["action"]),
                "parameters": tuple((name, kind) for name, kind in body["parameters"]),
            }
        )


@dataclass(frozen=True)
class Waiting:
    """A firing of a detached rule: the rule's id and the epoch whose change it reacts to, which was committed `at`.

    `attempts` counts those that failed, the last one for `problem`; it is tried again from `due` on; `parked` says why
    it is not tried any more.
    """

    rule: str
    epoch: int
    rows: int
    attempts: int = 0
    due: float = 0.0
    parked: str = ""
    problem: str = ""
    at: float = 0.0

    @property
    def key(self) -> tuple[str, int]:
        """What tells firings apart; the idempotency key of an action is made of it."""
        return (self.rule, self.epoch)

    def to_json(self) -> dict[str, Any]:
        """For the ledger."""
        return asdict(self)

    def ended(self, name: str, outcome: str, rows: int = 0, ms: float = 0.0) -> dict[str, Any]:
        """For the ledger: the firing of the rule of a name is over, with an outcome for so many rows."""
        return {"ended": list(self.key), "name": name, "rows": rows, "ms": ms, "outcome": outcome}


def rules_after(rules: Mapping[str, ActiveRule], changes: Mapping[str, Any]) -> Mapping[str, ActiveRule]:
    """Rules after some were made or changed, and others (None) dropped; keys are their ids."""
    kept = {key: rule for key, rule in rules.items() if key not in changes}
    return kept | {key: ActiveRule.from_json(body) for key, body in changes.items() if body is not None}


def rule_changes(rules: Mapping[str, ActiveRule], changes: Mapping[str, ActiveRule | None]) -> list[str]:
    """What changes do to rules, as the history lists it: 'created the rule r'. Keys are their ids."""
    made = [rule.name for key, rule in changes.items() if rule is not None and key not in rules]
    dropped = [rules[key].name for key, rule in changes.items() if rule is None and key in rules]
    found = [f"{'replaced' if name in dropped else 'created'} the rule {name}" for name in made]
    found += [f"dropped the rule {name}" for name in dropped if name not in made]
    altered = [rule for key, rule in changes.items() if rule is not None and key in rules]
    return found + [f"{'enabled' if rule.enabled else 'disabled'} the rule {rule.name}" for rule in altered]


def waiting_after(waiting: Iterable[Waiting], changes: Iterable[Mapping[str, Any]], at: float) -> tuple[Waiting, ...]:
    """Firings that wait after some changes: {"ended": [rule, epoch], ...}, or a firing, new or with another state.

    New ones belong to a commit `at` that time.
    """
    there = {firing.key: firing for firing in waiting}
    for change in changes:
        if "ended" in change:
            rule, epoch = change["ended"]
            there.pop((rule, epoch), None)
        else:
            firing = Waiting(**change)
            there[firing.key] = firing if firing.at else replace(firing, at=at)
    return tuple(there.values())
