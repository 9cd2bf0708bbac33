"""EXPLAIN of a query or a change: what it would read or reach, found without running it."""

from __future__ import annotations

from collections.abc import Iterator

from viewkeeper.algebra.nodes import scans
from viewkeeper.analysis.polarity import Kinds, polarities
from viewkeeper.analysis.ranges import ranges_of
from viewkeeper.analysis.relevance import filters_of
from viewkeeper.catalog.name_errors import no_such_table
from viewkeeper.catalog.relations import Derived, MaterializedView, Relation, VirtualView, as_derived
from viewkeeper.catalog.state import State
from viewkeeper.query.select import TablesAt, translated
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.sql.query_text import QueryText
from viewkeeper.sql.row_trees import row_tree
from viewkeeper.sql.table_references import find_references
from viewkeeper.store.store import Store
from viewkeeper.transaction.open_transaction import OpenTransaction

Change = sql.Insert | sql.Update | sql.Delete | sql.Merge


def explain_select(store: Store, select: sql.Select) -> list[str]:
    """The relations that a query reads, and whether it runs as written or through the algebra, as lines."""
    state = store.refresh()
    if select.epoch is not None:
        state.check_epoch(select.epoch)
    epoch = state.epoch if select.epoch is None else select.epoch
    lines = [f"reads, at epoch {epoch}:"]
    seen: set[str] = set()
    query = QueryText.of(select.query)
    for reference in find_references(query.tree):
        relation = state.find(reference.name, epoch)
        if relation is None:
            raise no_such_table(reference.name, state.names(), query.place(reference.start, reference.end))
        if relation.id not in seen:
            seen.add(relation.id)
            lines += [f"  {line}" for line in _read(state, relation, epoch)]
    found = translated(store, query, TablesAt(store, state, epoch))
    how = f"runs as it is written: {found}" if isinstance(found, str) else "runs through the algebra of views"
    return [*(lines if seen else ["reads no table"]), how]


def _read(state: State, relation: Relation, epoch: int) -> Iterator[str]:
    if isinstance(relation, VirtualView):
        yield f"{relation.name}: a view, computed from"
        for key in relation.definition_at(epoch).uses:
            for line in _read(state, state.relations[key], epoch):
                yield f"  {line}"
        return
    definition = relation.definition_at(epoch) if isinstance(relation, Derived) else None
    files = relation.files_at(epoch)
    rows = sum(file.rows for file in files)
    late = ""
    if definition is not None and definition.is_demand and epoch == state.epoch:
        late = f", up to date as of epoch {definition.refreshed}{', suspended' if definition.suspended else ''}"
    size = f"{_count(rows, 'stored row')} in {_count(len(files), 'file')}"
    yield f"{relation.name}: a {relation.kind_words}, {size}{late}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def explain_change(tx: OpenTransaction, change: Change) -> list[str]:
    """The views over a table that a change of it would reach, nearest first, and those that it would not, as lines."""
    table = tx.table(change.table, change.table.place)
    touched = _assigned(change, table)
    what = "its rows" if touched is None else f"only {', '.join(touched)} of its rows"
    lines = [f"{type(change).__name__.upper()} changes {table.name}: {what}"]
    reads = {view.id: _reads(view) for view in tx.alive() if isinstance(view, VirtualView | MaterializedView)}
    reached: dict[str, str] = {table.id: ""}
    not_reached: dict[str, str] = {}
    waiting: list[Relation] = [table]
    while waiting:
        below = waiting.pop(0)
        for view in sorted((as_derived(tx.by_id(key)) for key in reads), key=lambda relation: relation.name):
            columns = reads[view.id].get(below.id)
            if view.id in reached or columns is None:
                continue
            if below is table and touched is not None and columns.isdisjoint(name.lower() for name in touched):
                not_reached[view.id] = f"which does not read {', '.join(touched)}"
                continue
            if below is table and (why := _ruled_out(view, change, table, touched)):
                not_reached[view.id] = why
                continue
            reached[view.id] = "" if below is table else f" through {below.name}"
            if not view.definition.is_demand:
                waiting.append(view)
    views = [(as_derived(tx.by_id(key)), through) for key, through in list(reached.items())[1:]]
    kinds = _kinds([view for view, _ in views], table, change)
    for view, through in views:
        only = _ONLY[kinds[view.id]] if not view.definition.is_demand else ""
        lines.append(f"  reaches {view.name}{through}, {_what_happens(view)}{only}")
    missed = [(tx.by_id(key).name, why) for key, why in not_reached.items() if key not in reached]
    lines += [f"  does not reach {name}, {why}" for name, why in missed]
    return lines if len(lines) > 1 else [*lines, "  reaches no view"]


_ONLY = {
    Kinds.NONE: "",
    Kinds.BOTH: "",
    Kinds.ADDITIONS: "; only inserts reach it",
    Kinds.REMOVALS: "; only deletes reach it",
}


def _kinds(views: list[Derived], table: Relation, change: Change) -> dict[str, Kinds]:
    """The kinds of change that a statement can lead to in the views that it reaches."""
    made = {sql.Insert: Kinds.ADDITIONS, sql.Delete: Kinds.REMOVALS}.get(type(change), Kinds.BOTH)
    kinds = {table.id: made, **dict.fromkeys((view.id for view in views), Kinds.NONE)}
    signs = {view.id: polarities(view.definition.as_written) for view in views}
    for _ in views:  # each pass extends every path from the table by one view
        for key, read in signs.items():
            for below, polarity in read.items():
                kinds[key] |= polarity.gives(kinds.get(below, Kinds.NONE))
    return kinds


def _assigned(change: Change, table: Relation) -> list[str] | None:
    """The columns that an UPDATE assigns; None for a statement that inserts or deletes rows."""
    if not isinstance(change, sql.Update):
        return None
    return [table.schema.column(name, table.name).name for name, _ in change.assignments]


def _ruled_out(view: Derived, change: Change, table: Relation, touched: list[str] | None) -> str | None:
    """Why no row that a statement changes can be in a view, because its WHERE contradicts the view's filter."""
    if not isinstance(change, (sql.Delete, sql.Update)) or change.where is None:
        return None
    ranges = ranges_of(row_tree(change.where, table.schema, change.alias))
    assigned = {name.lower() for name in touched or ()}
    columns: list[str] = []
    for filters in filters_of(view.definition.as_written, table.id):
        found = [name for name in ranges.contradictions(filters) if name.lower() not in assigned]
        if not found:
            return None
        columns += found
    return f"whose filter on {', '.join(dict.fromkeys(columns))} contradicts the WHERE" if columns else None


def _reads(view: Derived) -> dict[str, set[str]]:
    """The columns that a view's query reads of each stored relation, with virtual views expanded."""
    taken: dict[str, set[str]] = {}
    for scan in scans(view.definition.as_written):
        taken.setdefault(scan.relation, set()).update(name.lower() for name in scan.stored_names)
    return taken


def _what_happens(view: Derived) -> str:
    definition = view.definition
    if not definition.is_stored:
        return "a view that stores nothing"
    if definition.suspended:
        return f"a {view.kind_words} that is suspended until its next REFRESH"
    if definition.is_demand:
        return f"a {view.kind_words} maintained by its next REFRESH"
    return f"a {view.kind_words} maintained by the commit"
