"""Documents about commits: the one that a statement made, and the history."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from viewkeeper.catalog.state import State
from viewkeeper.log.ledger import Ledger
from viewkeeper.maintain.report import Report
from viewkeeper.server.relation_documents import iso_time
from viewkeeper.server.row_counts import RowCounts
from viewkeeper.transaction.change import Change, Commit

REMEMBERED = 2_000
"""Commits of this server whose times are remembered."""

FETCHED = 100_000
"""Rows of a change beyond which its files are counted instead of its rows."""


@dataclass(frozen=True)
class CommitTimes:
    """What the ledger does not say of a commit: how long it and the maintenance of each view took."""

    milliseconds: float
    report: Mapping[str, Mapping[str, Any]]


class RecentCommits:
    """The times of the commits that this process made."""

    def __init__(self) -> None:
        self._times: OrderedDict[int, CommitTimes] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, commit: Commit, seconds: float) -> None:
        """Remembers a commit."""
        with self._lock:
            self._times[commit.epoch] = CommitTimes(round(seconds * 1000, 3), report_document(commit.report))
            while len(self._times) > REMEMBERED:
                self._times.popitem(last=False)

    def find(self, epoch: int) -> CommitTimes | None:
        """What is remembered of an epoch."""
        return self._times.get(epoch)


def report_document(report: Mapping[str, Report]) -> dict[str, dict[str, Any]]:
    """How each relation was changed, and how long that took."""
    return {
        name: {
            "strategy": each.strategy,
            "reason": each.reason,
            "milliseconds": round(each.seconds * 1000, 3),
            "rows_changed": each.rows_changed,
        }
        for name, each in report.items()
    }


def counted(change: Change) -> dict[str, int]:
    """How many rows a change inserts and deletes, duplicates counted."""
    inserted, deleted = change.counts
    return {"inserted": inserted, "deleted": deleted}


def commit_document(commit: Commit, state: State, counts: RowCounts) -> dict[str, Any]:
    """A commit that was just made."""
    return {
        "epoch": commit.epoch,
        "committed_at": commit.committed_at.isoformat(),
        "changes": {name: _counted(name, change, commit, state, counts) for name, change in commit.changes.items()},
        "report": report_document(commit.report),
        "rules": list(commit.rules),
        "warnings": list(commit.warnings),
    }


def _counted(name: str, change: Change, commit: Commit, state: State, counts: RowCounts) -> dict[str, int]:
    """The counts of a change; those of a bulk load from its files, so that its rows are not fetched."""
    report = commit.report.get(name)
    relation = state.find(name) if report is not None and report.rows_changed > FETCHED else None
    if relation is not None:
        files = [file for file in relation.files if file.first_epoch == commit.epoch and not file.merged]
        found = [counts.of(file.path, file.rows, file.low_weight, file.high_weight) for file in files]
        known = [pair for pair in found if pair is not None]
        if known and len(known) == len(found):
            return {"inserted": sum(plus for plus, _ in known), "deleted": sum(minus for _, minus in known)}
    return counted(change)


def commits_document(
    ledger: Ledger, state: State, counts: RowCounts, recent: RecentCommits, limit: int, before: int | None
) -> dict[str, Any]:
    """The commits before an epoch, newest first."""
    names = {relation.id: relation.name for relation in state.relations.values()}
    hidden = {relation.id for relation in state.relations.values() if relation.is_hidden}
    found: list[dict[str, Any]] = []
    for entry in ledger.entries(state.number):
        if len(found) >= limit:
            break
        for body in entry.get("created", ()):
            names.setdefault(body["id"], body["name"])
        if entry["kind"] == "commit" and (before is None or entry["epoch"] < before):
            found.append(entry_document(entry, names, hidden, counts, recent))
    return {"commits": found}


def entry_document(
    entry: Mapping[str, Any], names: Mapping[str, str], hidden: set[str], counts: RowCounts, recent: RecentCommits
) -> dict[str, Any]:
    """A commit as the ledger records it, with the times that this server remembers."""
    epoch = entry["epoch"]
    files = {key: added for key, added in entry.get("files", {}).items() if key not in hidden}
    times = recent.find(epoch)
    decided = {
        names.get(key, key): {
            "strategy": strategy,
            "reason": reason,
            "milliseconds": None,
            "rows_changed": sum(file["rows"] for file in files.get(key, ())),
        }
        for key, (strategy, reason) in entry.get("decisions", {}).items()
        if key not in hidden
    }
    shown = {body["id"]: body["name"] for body in entry.get("created", ()) if body["id"] not in hidden}
    return {
        "epoch": epoch,
        "committed_at": iso_time(entry["at"]),
        "changes": {names.get(key, key): counts.of_entry(added) for key, added in files.items()},
        "created": list(shown.values()),
        "dropped": [names.get(key, key) for key in entry.get("dropped", ()) if key not in hidden],
        "rules": list(dict.fromkeys(body["name"] for body in entry.get("fired", ()))),
        "report": decided if times is None else dict(times.report),
        "milliseconds": None if times is None else times.milliseconds,
    }
