"""What a statement would read or reach, said without running it."""

from __future__ import annotations

from collections.abc import Iterator

from viewkeeper.algebra.nodes import scans
from viewkeeper.algebra.serial import from_json
from viewkeeper.errors import Place
from viewkeeper.sql import statements as sql
from viewkeeper.sql.references import find_references, parse_query, place_in, place_of_name
from viewkeeper.store.definition import AUXILIARY, VIEW
from viewkeeper.store.state import Relation, State
from viewkeeper.transaction.transaction import Transaction, no_such_table

Change = sql.Insert | sql.Update | sql.Delete | sql.Merge


def explain_select(state: State, select: sql.Select, whole: str) -> list[str]:
    """The relations a query reads, as lines."""
    if select.epoch is not None:
        state.check_epoch(select.epoch)
    epoch = state.epoch if select.epoch is None else select.epoch
    lines = [f"reads, at epoch {epoch}:"]
    seen: set[str] = set()
    for reference in find_references(parse_query(select.query, whole)):
        place = place_in(select.query, reference.start, reference.end - reference.start, whole)
        relation = state.find(reference.name, epoch)
        if relation is None:
            raise no_such_table(reference.name, state.names(), place)
        if relation.id not in seen:
            seen.add(relation.id)
            lines += [f"  {line}" for line in _read(state, relation, epoch)]
    return lines if seen else ["reads no table"]


def _read(state: State, relation: Relation, epoch: int) -> Iterator[str]:
    definition = relation.definition_at(epoch)
    if definition is not None and definition.kind == VIEW:
        yield f"{relation.name}: a view, computed from"
        for key in definition.uses:
            for line in _read(state, state.relations[key], epoch):
                yield f"  {line}"
        return
    files = relation.files_at(epoch)
    rows = sum(file.rows for file in files)
    words = "auxiliary relation" if relation.kind == AUXILIARY else relation.kind_words
    late = ""
    if definition is not None and definition.is_demand and epoch == state.epoch:
        late = f", true as of epoch {definition.refreshed}"
    yield f"{relation.name}: a {words}, {_count(rows, 'stored row')} in {_count(len(files), 'file')}{late}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def explain_change(tx: Transaction, change: Change, whole: str) -> list[str]:
    """The views that a change to a table would reach, nearest first, and those it cannot reach, as lines."""
    place: Place | None = place_of_name(change.table, whole)
    table = tx.table(change.table, place)
    touched = _assigned(change, table)
    told = "its rows" if touched is None else f"only {', '.join(touched)} of its rows"
    lines = [f"{type(change).__name__.upper()} changes {table.name}: {told}"]
    reached: dict[str, Relation] = {table.id: table}
    pruned: list[Relation] = []
    waiting = [table]
    while waiting:
        below = waiting.pop(0)
        for view in sorted(tx.dependents(below.id), key=lambda relation: relation.name):
            if view.id in reached:
                continue
            if below is table and touched is not None and not _takes(view, table, touched):
                pruned.append(view)
                continue
            reached[view.id] = below
            if view.definition is None or not view.definition.is_demand:
                waiting.append(view)
    for key, below in list(reached.items())[1:]:
        view, through = tx.by_id(key), "" if below is table else f" through {below.name}"
        lines.append(f"  reaches {view.name}{through}, {_what_happens(view)}")
    lines += [
        f"  passes by {view.name}, which does not read {', '.join(touched or ())}"
        for view in pruned
        if view.id not in reached
    ]
    return lines if len(lines) > 1 else [*lines, "  reaches no view"]


def _assigned(change: Change, table: Relation) -> list[str] | None:
    """The columns an UPDATE can change; None if whole rows come or go."""
    if not isinstance(change, sql.Update):
        return None
    return [table.schema.column(name, table.name).name for name, _ in change.assignments]


def _takes(view: Relation, table: Relation, columns: list[str]) -> bool:
    """Whether a view's query reads one of these columns of a table. In doubt it does."""
    assert view.definition is not None
    found = [scan for scan in scans(from_json(dict(view.definition.query))) if scan.relation == table.id]
    taken = {attribute.name.lower() for scan in found for attribute in scan.attributes}
    return not found or any(column.lower() in taken for column in columns)


def _what_happens(view: Relation) -> str:
    definition = view.definition
    assert definition is not None
    if definition.kind == VIEW:
        return "a view that stores nothing"
    if definition.is_demand:
        return f"a {view.kind_words} that takes it in at its next REFRESH"
    return f"{'an' if definition.kind == AUXILIARY else 'a'} {view.kind_words} kept true by the commit"
