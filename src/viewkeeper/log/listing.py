"""Listings of a database, as rows: relations, functions and commits."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.schema import is_reserved
from viewkeeper.algebra.types import parse_type
from viewkeeper.catalog.declared_functions import users_of
from viewkeeper.catalog.display_names import display_name, serving_rules
from viewkeeper.catalog.relations import Derived, Relation, Table
from viewkeeper.catalog.state import State
from viewkeeper.log.ledger import Ledger
from viewkeeper.log.rule_listing import rule_texts


def listing(state: State, *, hidden: bool = False) -> list[dict[str, Any]]:
    """The relations by name: kind, columns, files, stored rows, bytes, options and the epoch since which one is stale.

    Hidden relations, which serve views and rules, are listed if asked for.
    """
    there = state.alive()
    of_rules = serving_rules(state.rules.values())
    shown = [r for r in there if hidden or not r.is_hidden]
    named = [(of_rules[r.id] if r.is_hidden and r.id in of_rules else display_name(there, r), r) for r in shown]
    return [
        {
            "name": name,
            "kind": relation.kind_words,
            "columns": len(relation.schema),
            "files": len(relation.files),
            "stored_rows": relation.stored_rows,
            "bytes": sum(file.size for file in relation.files),
            "options": relation.definition.options if isinstance(relation, Derived) else {},
            "stale_since": (relation.definition.suspended or None) if isinstance(relation, Derived) else None,
        }
        for name, relation in sorted(named, key=lambda pair: pair[0].lower())
    ]


def options_text(options: Mapping[str, Any]) -> str:
    """Options as they are written in WITH (...)."""
    return ", ".join(f"{name} = {_spelled(value)}" for name, value in options.items())


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value:g} seconds'" if isinstance(value, (int, float)) else f"'{value}'"


def show_tables(state: State) -> pa.Table:
    """The rows of SHOW TABLES."""
    rows = [row for row in listing(state) if row["kind"] == Table.kind_words]
    return _named(rows)


def show_views(state: State) -> pa.Table:
    """The rows of SHOW VIEWS."""
    rows = [row for row in listing(state) if row["kind"] != Table.kind_words]
    options = [options_text(row["options"]) for row in rows]
    return _named(rows).append_column("options", pa.array(options, pa.string()))


def show_functions(state: State, here: Mapping[str, str]) -> pa.Table:
    """The rows of SHOW FUNCTIONS: functions declared in the database, and those of this process alone (`here`)."""
    names = sorted({*state.functions, *here})
    known = [state.functions.get(name) for name in names]
    return pa.table(
        {
            "name": pa.array(
                [name if found is None else found.name for name, found in zip(names, known, strict=True)], pa.string()
            ),
            "place": pa.array([None if found is None else found.target for found in known], pa.string()),
            "returns": pa.array(
                [
                    str(parse_type(here[name] if found is None else found.returns))
                    for name, found in zip(names, known, strict=True)
                ],
                pa.string(),
            ),
            "used_by": pa.array([", ".join(users_of(state.alive(), name)) for name in names], pa.string()),
        }
    )


def _named(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table(
        {
            "name": pa.array([row["name"] for row in rows], pa.string()),
            "kind": pa.array([row["kind"] for row in rows], pa.string()),
            "columns": pa.array([row["columns"] for row in rows], pa.int64()),
        }
    )


def describe(relation: Relation) -> pa.Table:
    """The rows of DESCRIBE: columns, types and keys."""
    schema = relation.schema
    keys = {
        column.name: ", ".join(
            "PRIMARY KEY" if key.primary else "UNIQUE" for key in schema.keys if column.name in key.columns
        )
        for column in schema
    }
    return pa.table(
        {
            "column": pa.array(schema.names, pa.string()),
            "type": pa.array([str(column.type) for column in schema], pa.string()),
            "nullable": pa.array([column.nullable for column in schema], pa.bool_()),
            "key": pa.array([keys[column.name] for column in schema], pa.string()),
        }
    )


def history(
    ledger: Ledger, state: State, limit: int | None = None, *, separators: bool = False
) -> list[dict[str, Any]]:
    """The commits, newest first. `separators`: counts of rows have thousands separators."""
    names = {relation.id: relation.name for relation in state.relations.values()}
    hidden = {relation.id for relation in state.relations.values() if relation.is_hidden}
    activations = {rule.activations: rule.name for rule in state.rules.values()}
    found: list[dict[str, Any]] = []
    for entry in ledger.entries(state.number):
        if limit is not None and len(found) >= limit:
            break
        for body in entry.get("created", ()):
            names.setdefault(body["id"], body["name"])
            if is_reserved(body["name"]):
                hidden.add(body["id"])
        if entry["kind"] == "commit":
            row = _history_row(entry, names, hidden, "," if separators else "")
            found.append({**row, "changes": "; ".join([*row["changes"], *rule_texts(entry, activations)])})
    return found


def _history_row(entry: dict[str, Any], names: Mapping[str, str], hidden: set[str], separator: str) -> dict[str, Any]:
    changes = [f"created {body['name']}" for body in entry.get("created", ()) if body["id"] not in hidden]
    changes += [f"redefined {names.get(key, key)}" for key in entry.get("defined", ()) if key not in hidden]
    changes += [f"dropped {names.get(key, key)}" for key in entry.get("dropped", ()) if key not in hidden]
    changes += [
        f"dropped the function {key}" if body is None else f"declared the function {body['name']}"
        for key, body in entry.get("functions", {}).items()
    ]
    changes += [f"refreshed {names.get(key, key)}" for key in entry.get("refreshed", ()) if key not in hidden]
    changes += [f"suspended {names.get(key, key)}" for key in entry.get("suspended", ()) if key not in hidden]
    for key, files in entry.get("files", {}).items():
        if key not in hidden:
            rows = sum(file["rows"] for file in files)
            decision = entry.get("decisions", {}).get(key)
            how = f" ({decision[0]}: {decision[1]})" if decision else ""
            changes.append(f"{names.get(key, key)}: {rows:{separator}} {'row' if rows == 1 else 'rows'} changed{how}")
    for name, count in entry.get("warned", {}).items():
        changes.append(f"{name}: {count} {'row violates' if count == 1 else 'rows violate'} it")
    return {
        "epoch": entry["epoch"],
        "committed_at": dt.datetime.fromtimestamp(entry["at"], dt.UTC),
        "changes": changes,
    }


def show_commits(rows: list[dict[str, Any]]) -> pa.Table:
    """The rows of SHOW COMMITS."""
    return pa.table(
        {
            "epoch": pa.array([row["epoch"] for row in rows], pa.int64()),
            "committed_at": pa.array([row["committed_at"] for row in rows], pa.timestamp("us", "UTC")),
            "changes": pa.array([row["changes"] for row in rows], pa.string()),
        }
    )
