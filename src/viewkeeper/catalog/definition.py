"""The definition of a view, as the ledger records it: the query, the expression that is maintained, the options."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from viewkeeper.algebra.nodes import Node, scans
from viewkeeper.algebra.serial import from_json
from viewkeeper.plan.group_state import GroupState, group_state

VIEW, MATERIALIZED, AUXILIARY, ASSERTION = "view", "materialized", "auxiliary", "assertion"
"""The kinds of relations with a definition, as the ledger names them; `catalog.relations` has a class for each."""


@dataclass(frozen=True)
class Definition:
    """The definition of a view or auxiliary relation. Expressions are the JSON of `algebra.serial`.

    `query` is the query as the user wrote it; `stored` is what is maintained, over auxiliary relations. `uses` are the
    ids of the relations it reads itself, `hidden` those of the auxiliary relations it needs. `lag` and `keep` are
    seconds; `auxiliary` is None where the user left it to the planner. `refreshed` is the epoch up to which a view
    that is refreshed on demand is true, 0 for every other. `sql` is text of the `language`: a query, or Datalog rules.
    `suspended` is the epoch since which the view is not maintained, 0 if it is; until it is refreshed it is handled
    like one that is refreshed on demand. `violation` says what rows of an assertion lead to: "abort" or "warn". With
    `lane` "engine" no operator of its maintenance is computed on the driver.
    `runners_up` is the id of the relation with the runners-up of a stored group-by, empty if it has none, and
    `neighbors` that of the relation with the neighbors of its percentiles.
    """

    kind: str
    sql: str
    names: tuple[str, ...]
    query: Mapping[str, Any] = field(hash=False)
    stored: Mapping[str, Any] | None = field(default=None, hash=False)
    refresh: str = "auto"
    on: str = "commit"
    lag: float | None = None
    keep: float | None = None
    uses: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    refreshed: int = 0
    engine: str = ""
    auxiliary: bool | None = None
    language: str = "sql"
    suspended: int = 0
    violation: str = ""
    lane: str = "auto"
    runners_up: str = ""
    neighbors: str = ""

    @functools.cached_property
    def as_written(self) -> Node:
        """The user's query as an expression."""
        return from_json(dict(self.query))

    @functools.cached_property
    def maintained(self) -> Node:
        """The expression that is maintained, over tables, views and auxiliary relations."""
        return self.as_written if self.stored is None else from_json(dict(self.stored))

    @functools.cached_property
    def group_state(self) -> GroupState | None:
        """Where the rows hold the state of a group-by; None if they do not."""
        return group_state(self.maintained) if self.is_stored else None

    @functools.cached_property
    def read(self) -> frozenset[str]:
        """The ids of the relations that are read to maintain it."""
        return frozenset(scan.relation for scan in scans(self.maintained))

    @property
    def beside(self) -> tuple[str, ...]:
        """The ids of the relations that are changed together with this one."""
        return tuple(key for key in (self.runners_up, self.neighbors) if key)

    @property
    def is_stored(self) -> bool:
        """Whether the rows are stored; those of a virtual view are not."""
        return self.kind not in (VIEW, ASSERTION)

    @property
    def is_demand(self) -> bool:
        """Whether it is stored and refreshed only on demand."""
        return self.is_stored and (self.on == "demand" or self.suspended > 0)

    def resumed(self, epoch: int) -> Definition:
        """The definition of a view that is up to date as of an epoch, and no longer suspended."""
        return replace(self, refreshed=epoch if self.on == "demand" else 0, suspended=0)

    @property
    def options(self) -> dict[str, Any]:
        """The options chosen with WITH, and the defaults of the others."""
        body: dict[str, Any] = {"refresh": self.refresh, "on": self.on} if self.is_stored else {}
        lane = self.lane if self.lane != "auto" else None
        rest = {"lag": self.lag, "keep": self.keep, "auxiliary": self.auxiliary, "lane": lane}
        return body | {name: value for name, value in rest.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        """For the ledger."""
        return {
            "kind": self.kind,
            "sql": self.sql,
            "names": list(self.names),
            "query": self.query,
            "stored": self.stored,
            "refresh": self.refresh,
            "on": self.on,
            "lag": self.lag,
            "keep": self.keep,
            "uses": list(self.uses),
            "hidden": list(self.hidden),
            "refreshed": self.refreshed,
            "engine": self.engine,
            "auxiliary": self.auxiliary,
            "language": self.language,
            **({"suspended": self.suspended} if self.suspended else {}),
            **({"violation": self.violation} if self.violation else {}),
            **({"lane": self.lane} if self.lane != "auto" else {}),
            **({"runners_up": self.runners_up} if self.runners_up else {}),
            **({"neighbors": self.neighbors} if self.neighbors else {}),
        }

    @staticmethod
    def from_json(body: Mapping[str, Any]) -> Definition:
        """The inverse of to_json."""
        return Definition(
            body["kind"],
            body["sql"],
            tuple(body["names"]),
            body["query"],
            body["stored"],
            body["refresh"],
            body["on"],
            body["lag"],
            body["keep"],
            tuple(body["uses"]),
            tuple(body["hidden"]),
            body["refreshed"],
            body["engine"],
            body["auxiliary"],
            body.get("language", "sql"),
            body.get("suspended", 0),
            body.get("violation", ""),
            body.get("lane", "auto"),
            body.get("runners_up", ""),
            body.get("neighbors", ""),
        )
