"""Measured costs of an engine, stored with a database: `costs/<engine>.json`, read when the database is opened.

They decide between incremental and full refresh, never what a result is. So they are no part of the ledger: the last
measurement replaces the one before, and a file that is missing, damaged, of another engine or of a version with other
costs counts as none.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields

from viewkeeper.log.storage import Storage
from viewkeeper.plan.cost import Rates


@dataclass(frozen=True)
class StoredCosts:
    """The rates of one engine, with when and on which machine they were measured."""

    engine: str
    measured_at: float
    machine: str
    rates: Rates


def engine_name(kind: str, *, is_local: bool) -> str:
    """Under which name the costs of an engine are stored: one that runs elsewhere has costs of its own."""
    return kind if is_local else f"remote-{kind}"


def store_costs(storage: Storage, costs: StoredCosts) -> None:
    """Stores the costs of an engine in the place of those before."""
    storage.write(_path(costs.engine), json.dumps(asdict(costs), indent=2).encode(), "costs")


def stored_costs(storage: Storage, engine: str) -> StoredCosts | None:
    """The stored costs of an engine; None if there are none that can be used."""
    try:
        body = json.loads(storage.read(_path(engine)) or b"")
        rates = {name: float(seconds) for name, seconds in body["rates"].items()}
        found = StoredCosts(body["engine"], float(body["measured_at"]), str(body["machine"]), Rates(**rates))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    fits = rates.keys() == {field.name for field in fields(Rates)} and found.engine == engine
    return found if fits and all(math.isfinite(rate) and rate > 0 for rate in rates.values()) else None


def engines_with_costs(storage: Storage) -> list[str]:
    """The engines for which there is a file, whether it can be used or not."""
    return sorted(name.removesuffix(".json") for name in storage.children("costs") if name.endswith(".json"))


def forget_costs(storage: Storage, engine: str) -> None:
    """Removes the stored costs of an engine."""
    storage.delete([_path(engine)])


def _path(engine: str) -> str:
    return f"costs/{engine}.json"
