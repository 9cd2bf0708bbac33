"""Listings of active rules, their firings and assertions, as rows. Needs no engine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa

from viewkeeper.catalog.active_rules import ActiveRule, Waiting
from viewkeeper.catalog.relations import AssertionView
from viewkeeper.catalog.state import State
from viewkeeper.log.ledger import Ledger


def rules_listed(state: State, activations: Mapping[str, int]) -> list[dict[str, Any]]:
    """The rules in the order of their creation; `activations` has their number by the id of a rule with parameters."""
    return [
        {
            "name": rule.name,
            "on": watched_text(state, rule),
            "when": " or ".join(rule.events),
            "coupling": rule.coupling,
            "semantics": "nervous" if rule.nervous else "strict",
            "priority": rule.priority,
            "enabled": rule.enabled,
            "activations": activations.get(rule.id) if rule.activations is not None else None,
        }
        for rule in sorted(state.rules.values(), key=lambda rule: rule.order)
    ]


def watched_text(state: State, rule: ActiveRule) -> str:
    """What stands after ON: the name of a relation, or a query in brackets."""
    return f"({rule.query})" if rule.query else state.relations[rule.relation].name


def show_rules(rows: list[dict[str, Any]]) -> pa.Table:
    """The rows of SHOW RULES."""
    kinds = {"priority": pa.int64(), "enabled": pa.bool_(), "activations": pa.int64()}
    names = ("name", "on", "when", "coupling", "semantics", "priority", "enabled", "activations")
    return _table(rows, {name: kinds.get(name, pa.string()) for name in names})


def assertions_listed(state: State) -> list[dict[str, Any]]:
    """The assertions by name: what a violation does, and the query that must stay empty."""
    found = [relation for relation in state.alive() if isinstance(relation, AssertionView)]
    return [
        {"name": each.name, "on_violation": each.definition.violation, "definition": each.definition.sql}
        for each in sorted(found, key=lambda each: each.name.lower())
    ]


def show_assertions(rows: list[dict[str, Any]]) -> pa.Table:
    """The rows of SHOW ASSERTIONS."""
    return _table(rows, dict.fromkeys(("name", "on_violation", "definition"), pa.string()))


# what entries say of rules -----------------------------------------------------------------------


def rule_texts(entry: Mapping[str, Any], activations: Mapping[str | None, str]) -> list[str]:
    """What an entry did to rules, and which fired in it, for the history; `activations` has rules' names by table."""
    found = list(entry.get("rule_changes", ()))
    changed = [activations[key] for key in entry.get("files", ()) if key in activations]
    found += [f"changed the activations of the rule {name}" for name in changed]
    fired: dict[str, int] = {}
    for body in entry.get("fired", ()):
        fired[body["name"]] = fired.get(body["name"], 0) + body["rows"]
    return found + [f"rule {name} fired for {rows:,} {'row' if rows == 1 else 'rows'}" for name, rows in fired.items()]


# firings ------------------------------------------------------------------------------------------


def rule_firings(
    ledger: Ledger, state: State, limit: int | None = None, missing: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The firings of rules: epoch, rule, rows, milliseconds and outcome; the newest epoch first, in order inside it.

    Those of detached rules that wait are among them. `missing`: the ids of rules whose Python function is not there.
    """
    found = [_waiting_row(state, firing, firing.rule in missing) for firing in state.waiting]
    for entry in ledger.entries(state.number):
        found[:0] = _ended_rows(entry)
        # a firing is recorded with its epoch or later, so all of this epoch and of newer ones have been found
        known = entry.get("epoch", state.epoch + 1)
        if limit is not None and sum(row["epoch"] >= known for row in found) >= limit:
            break
    return sorted(found, key=lambda row: -row["epoch"])[:limit]


def _ended_rows(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The firings that an entry records as over: those of its own transaction, and detached ones."""
    for body in entry.get("fired", ()):
        yield _row(entry["epoch"], body)
    for body in entry.get("waiting", ()):
        if "ended" in body:
            yield _row(body["ended"][1], body)


def _row(epoch: int, body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "epoch": epoch,
        "rule": body["name"],
        "rows": body["rows"],
        "milliseconds": body["ms"],
        "outcome": body["outcome"],
    }


def _waiting_row(state: State, firing: Waiting, missing: bool) -> dict[str, Any]:
    rule = state.rules[firing.rule]
    body = {"name": rule.name, "rows": firing.rows, "ms": None, "outcome": _state_of(rule, firing, missing)}
    return _row(firing.epoch, body)


def _state_of(rule: ActiveRule, firing: Waiting, missing: bool) -> str:
    if firing.parked:
        return f"parked: {firing.parked}"
    if missing:
        return f"waiting: this process has no function {rule.action.text}"
    if not rule.enabled:
        return "waiting: the rule is disabled"
    if firing.attempts:
        return f"failed {firing.attempts} {'time' if firing.attempts == 1 else 'times'}: {firing.problem}"
    return "waiting"


def show_rule_firings(rows: list[dict[str, Any]]) -> pa.Table:
    """The rows of SHOW RULE FIRINGS."""
    numbers = {"epoch": pa.int64(), "rows": pa.int64(), "milliseconds": pa.float64()}
    names = ("epoch", "rule", "rows", "milliseconds", "outcome")
    return _table(rows, {name: numbers.get(name, pa.string()) for name in names})


def _table(rows: list[dict[str, Any]], columns: Mapping[str, pa.DataType]) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in columns.items()})
