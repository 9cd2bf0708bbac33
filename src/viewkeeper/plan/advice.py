"""What can be said of a view before it is created, and what its author could do about it.

Nothing is needed for it but the tables' definitions: no database, and no engine. Every suggestion was tried: the view
was looked at again with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.schema import Column, Key, Schema
from viewkeeper.analysis.references import Findings, Nesting, Reference, Verdict, examine
from viewkeeper.errors import NotFound, Place, SqlError
from viewkeeper.plan.by_keys import parents_first
from viewkeeper.plan.maintainable import unbound
from viewkeeper.plan.upkeep import EFFORTS, OPERATIONS, Upkeep, upkeep
from viewkeeper.sql import statements
from viewkeeper.sql.catalog import Query, Stored, Virtual
from viewkeeper.sql.declared import DeclaredTyper
from viewkeeper.sql.dialect import parse, place_in, render
from viewkeeper.sql.query import translate
from viewkeeper.sql.tokens import Statement, split


@dataclass(frozen=True)
class Known:
    """The relations that a query can name: those that are stored, with their keys, and views that are not."""

    stored: dict[str, tuple[str, Schema]] = field(default_factory=dict)
    virtual: dict[str, tuple[str, str, str, tuple[str, ...]]] = field(default_factory=dict)

    def add_stored(self, name: str, schema: Schema) -> None:
        """A table, or a view that is stored."""
        self.stored[name.lower()] = (name, schema)

    def add_virtual(self, name: str, query: str, whole: str, columns: tuple[str, ...]) -> None:
        """A view that is not stored. `whole` is the text that its query was cut from."""
        self.virtual[name.lower()] = (name, query, whole, columns)

    @property
    def names(self) -> list[str]:
        """All names."""
        return [*(entry[0] for entry in self.stored.values()), *(entry[0] for entry in self.virtual.values())]

    def missing(self, name: str, place: Place) -> NotFound:
        """What to say of a name that is not there."""
        names = sorted(self.names)
        hint = f"there are {', '.join(names)}" if names else "give the CREATE TABLE statements as well"
        return NotFound(f"there is no table or view named '{name}'", place=place, hint=hint)

    def with_key(self, name: str, columns: Sequence[str]) -> Known:
        """The same with one more key, whose columns cannot be NULL."""
        called, schema = self.stored[name.lower()]
        lower = {column.lower() for column in columns}
        kept = tuple(replace(c, nullable=c.nullable and c.name.lower() not in lower) for c in schema)
        keyed = Schema(kept, (*schema.keys, Key(tuple(columns), primary=False)))
        return replace(self, stored={**self.stored, name.lower(): (called, keyed)})


class _References:
    """Finds relations, each time as another one, and notes where they are named."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.found: list[Reference] = []
        self._outer: Place | None = None

    def find(self, name: str, place: Place) -> Stored | Virtual:
        """The relation of a name."""
        key = name.lower()
        if key in self.known.virtual:
            called, query, whole, columns = self.known.virtual[key]
            around, self._outer = self._outer, self._outer or place
            try:
                inside = translate(query, whole, self, DeclaredTyper())
            finally:
                self._outer = around
            return Virtual(called, Query(inside.node, columns))
        if key not in self.known.stored:
            raise self.known.missing(name, place)
        called, schema = self.known.stored[key]
        reference = Reference(f"{called}#{len(self.found) + 1}", called, schema, self._outer or place)
        self.found.append(reference)
        return Stored(reference.id, called, schema)

    def refers(self, child: n.Scan, parent: n.Scan) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """The foreign keys from one reference to another."""
        by_id = {reference.id: reference for reference in self.found}
        ours, theirs = by_id.get(child.relation), by_id.get(parent.relation)
        if ours is None or theirs is None:
            return []
        primary = theirs.schema.primary_key
        return [
            (key.columns, key.referenced or (primary.columns if primary is not None else ()))
            for key in ours.schema.references
            if key.table.lower() == theirs.name.lower()
        ]


@dataclass(frozen=True)
class Advice:
    """Something that the author of a view could do, and what it would lead to."""

    text: str
    effect: str


@dataclass(frozen=True)
class Analysis:
    """A view that was looked at before it is created."""

    name: str
    query: str
    node: n.Node
    columns: tuple[str, ...]
    findings: Findings
    upkeep: dict[tuple[str, str], Upkeep]
    refused: tuple[tuple[str, str], ...]
    is_stored: bool = True
    advice: tuple[Advice, ...] = ()

    @property
    def schema(self) -> Schema:
        """The columns of the view when it is stored, and its keys."""
        pairs = zip(self.columns, self.node.outputs, strict=True)
        keyed = {name.lower() for key in self.findings.keys for name in key}
        columns = tuple(Column(name, a.type, name.lower() not in keyed) for name, a in pairs)
        return Schema(columns, tuple(Key(key, primary=False) for key in self.findings.keys))

    @property
    def keys(self) -> list[tuple[str, ...]]:
        """The smallest keys of the view that are known."""
        return list(self.findings.keys)

    @property
    def duplicates(self) -> bool:
        """Whether a row may be there more than once."""
        return self.findings.has_duplicates

    def __str__(self) -> str:
        return to_text(self)

    def to_json(self) -> dict[str, Any]:
        """All of it, for programs."""
        return to_json(self)

    def of(self, verdict: Verdict, operation: str) -> Upkeep:
        """What an operation on a reference leads to."""
        return self.upkeep[verdict.reference.id, operation]


def analyse(
    name: str,
    query: str,
    whole: str,
    known: Known,
    *,
    columns: tuple[str, ...] | None = None,
    advise: bool = True,
    is_stored: bool = True,
) -> Analysis:
    """Looks at a view before it is created. `columns` are the names of its columns, if the query's own are not."""
    references = _References(known)
    found = translate(query, whole, references, DeclaredTyper())
    names = columns or found.names
    if len(names) != len(found.names):
        raise SqlError(
            f"{name} names {len(names)} columns, its query has {len(found.names)}",
            hint=f"the query's columns are {', '.join(found.names)}",
        )
    findings = examine(found.node, names, references.found)
    laid_out = parents_first(found.node, references.refers)
    work = {
        (verdict.reference.id, operation): upkeep(laid_out, verdict.reference.id, operation)
        for verdict in findings.verdicts
        for operation in OPERATIONS
    }
    result = Analysis(name, query, found.node, names, findings, work, tuple(unbound(found.node)), is_stored)
    return replace(result, advice=tuple(_advice(result, whole, known))) if advise else result


# what could be done about it -----------------------------------------------------------------------


def _advice(analysis: Analysis, whole: str, known: Known) -> Iterator[Advice]:
    """Suggestions, each tried."""
    tree = parse(analysis.query, whole)
    plain = isinstance(tree, exp.Select) and not any(tree.args.get(part) for part in ("group", "having", "distinct"))
    for verdict in analysis.findings.verdicts:
        if verdict.is_safe or (verdict.nesting is Nesting.TOP and not analysis.findings.has_duplicates):
            continue  # a group-by or DISTINCT takes care of it
        if plain and verdict.nesting is Nesting.TOP:
            yield from _projected(analysis, tree, verdict, whole, known)
        yield from _declared(analysis, verdict, whole, known)
    if isinstance(tree, exp.Union) and tree.args.get("distinct"):
        yield from _split(analysis, tree, known)
    if analysis.findings.has_duplicates and isinstance(tree, exp.Select):
        again = _again(analysis, render(tree.copy().distinct()), known)
        if not again.findings.has_duplicates:
            yield Advice("write SELECT DISTINCT", "no row can be there twice")


def _again(analysis: Analysis, query: str, known: Known) -> Analysis:
    return analyse(analysis.name, query, query, known, advise=False)


def _split(analysis: Analysis, tree: exp.Union, known: Known) -> Iterator[Advice]:
    """The branches of a UNION as views of their own, where none of them needs counts."""
    branches = [render(side) for side in _branches(tree)]
    if not any(_again(analysis, branch, known).findings.has_duplicates for branch in branches):
        what = f"split the UNION: make its {len(branches)} branches views of their own, and read them together"
        yield Advice(what, "no row can be there twice in any of them, so no counts are kept")


def _branches(tree: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(tree, exp.Union) and tree.args.get("distinct"):
        yield from _branches(tree.left)
        yield from _branches(tree.right)
    else:
        yield tree


def _is_safe_in(again: Analysis, verdict: Verdict) -> bool:
    """Whether a reference is safe when the view is looked at again."""
    same = [other for other in again.findings.verdicts if other.reference.id == verdict.reference.id]
    return bool(same) and all(other.is_safe for other in same)


def _projected(analysis: Analysis, tree: exp.Expr, verdict: Verdict, whole: str, known: Known) -> Iterator[Advice]:
    """Columns of a key, added to what is selected."""
    name, place = verdict.reference.name.lower(), verdict.reference.place
    named = [
        table
        for table in tree.find_all(exp.Table)
        if table.name.lower() == name and _is_at(table, place, analysis.query, whole)
    ]
    table = named[0] if named else None  # none if the reference stands in a view that this one names
    if table is None or table.find_ancestor(exp.Select) is not tree:
        return
    for key in verdict.reference.keys:
        more = [exp.column(name, table=table.alias_or_name) for name in key if name not in verdict.bound]
        again = _again(analysis, render(tree.copy().select(*more)), known)
        if _is_safe_in(again, verdict):
            listed = ", ".join(column.sql(dialect="spark") for column in more)
            effect = f"{verdict.reference.name} is safe then"
            if analysis.findings.has_duplicates and not again.findings.has_duplicates:
                effect += ", and no row can be there twice"
            yield Advice(f"add {listed} to the SELECT list", effect)
            return


def _is_at(table: exp.Table, place: Place | None, query: str, whole: str) -> bool:
    start = table.this.meta.get("start") if isinstance(table.this, exp.Identifier) else None
    if place is None or start is None:
        return False
    found = place_in(query, start, place.length, whole)
    return (found.line, found.column) == (place.line, place.column)


def _declared(analysis: Analysis, verdict: Verdict, whole: str, known: Known) -> Iterator[Advice]:
    """A key that is not declared, made of the columns that are bound."""
    reference = verdict.reference
    if not verdict.bound or verdict.key is not None:
        return
    again = analyse(analysis.name, analysis.query, whole, known.with_key(reference.name, verdict.bound), advise=False)
    if _is_safe_in(again, verdict):
        listed = ", ".join(verdict.bound)
        effect = f"{reference.name} is safe then"
        if analysis.findings.has_duplicates and not again.findings.has_duplicates:
            effect += ", and no row can be there twice"
        yield Advice(
            f"declare UNIQUE ({listed}) NOT NULL on {reference.name}, if no two of its rows agree on it", effect
        )


# telling it --------------------------------------------------------------------------------------


def to_json(analysis: Analysis) -> dict[str, Any]:
    """The analysis for programs."""
    return {
        "view": analysis.name,
        "columns": list(analysis.columns),
        "keys": [list(key) for key in analysis.findings.keys],
        "duplicates": analysis.findings.has_duplicates,
        "incremental": not analysis.refused,
        "refused": [{"reason": reason, "instead": instead} for reason, instead in analysis.refused],
        "references": [_reference(analysis, verdict) for verdict in analysis.findings.verdicts],
        "advice": [{"do": advice.text, "effect": advice.effect} for advice in analysis.advice],
    }


def _reference(analysis: Analysis, verdict: Verdict) -> dict[str, Any]:
    place = verdict.reference.place
    return {
        "table": verdict.reference.name,
        "line": place.line if place is not None else None,
        "column": place.column if place is not None else None,
        "nesting": verdict.nesting.value,
        "bound columns": list(verdict.bound),
        "key": list(verdict.key) if verdict.key is not None else None,
        "safe": verdict.is_safe,
        "safe for insertions": verdict.is_safe_for_insertions,
        "compares with": list(verdict.looks_outside),
        "operations": {
            operation: {
                "effort": work.effort.name.lower(),
                "cost": EFFORTS[work.effort],
                "reads": [str(reading) for reading in work.readings],
                "remarks": list(work.remarks),
            }
            for operation in OPERATIONS
            for work in [analysis.of(verdict, operation)]
        },
    }


def to_text(analysis: Analysis) -> str:
    """The analysis for people."""
    keys = "; ".join(f"({', '.join(key)})" if key else "at most one row" for key in analysis.findings.keys)
    twice = "none known: rows may be there more than once, and a hidden count is kept with each"
    lines = [f"{analysis.name}: {', '.join(analysis.columns)}", f"keys: {keys or twice}"]
    for reason, instead in analysis.refused:
        lines.append(f"cannot be kept by change alone: {reason}; {instead}")
    for verdict in analysis.findings.verdicts:
        lines += _lines(analysis, verdict)
    lines += [f"you could {advice.text}: {advice.effect}" for advice in analysis.advice]
    return "\n".join(lines)


def _lines(analysis: Analysis, verdict: Verdict) -> Iterator[str]:
    place = verdict.reference.place
    where = f", {place}" if place is not None else ""
    yield from f"{verdict.reference.name}{where}".split("\n")
    yield f"  {_judged(verdict)}"
    told: dict[str, list[str]] = {}
    for operation in OPERATIONS:
        work = analysis.of(verdict, operation)
        reads = f", reads {', '.join(dict.fromkeys(map(str, work.readings)))}" if work.readings else ""
        remarks = "".join(f"; {remark}" for remark in work.remarks)
        told.setdefault(f"{EFFORTS[work.effort]}{reads}{remarks}", []).append(operation)
    yield from (f"  {', '.join(operations)}: {what}" for what, operations in told.items())


def _judged(verdict: Verdict) -> str:
    where = "" if verdict.nesting is Nesting.TOP else f" under {verdict.nesting.value}"
    bound = ", ".join(verdict.bound) or "no column"
    if verdict.is_safe:
        assert verdict.key is not None
        return f"safe{where}: the view's columns bind its key ({', '.join(verdict.key)})"
    if verdict.looks_outside:
        return f"not safe{where}: it is compared with {', '.join(verdict.looks_outside)}, which the view does not bind"
    return f"not safe{where}: the view's columns bind {bound} of it, and that is no key"


# scripts -----------------------------------------------------------------------------------------


def analyse_script(text: str) -> list[Analysis]:
    """Looks at every view of a script of CREATE TABLE and CREATE VIEW statements; nothing is created."""
    return [analysis for analysis, _, _ in analyse_each(text)]


def analyse_each(text: str, *, advise: bool = True) -> Iterator[tuple[Analysis, Known, str]]:
    """The views of a script one after the other, each with what it can name and the text it was cut from."""
    known = Known()
    for statement, parsed in definitions(text):
        if isinstance(parsed, statements.CreateTable):
            assert parsed.schema is not None
            known.add_stored(parsed.name, parsed.schema)
            continue
        whole, stored = statement.text, parsed.materialized
        analysis = analyse(
            parsed.name, parsed.query, whole, known, columns=parsed.columns, advise=advise, is_stored=stored
        )
        yield analysis, known, whole
        if stored:
            known.add_stored(parsed.name, analysis.schema)
        else:
            known.add_virtual(parsed.name, parsed.query, whole, analysis.columns)


def definitions(text: str) -> Iterator[tuple[Statement, statements.CreateTable | statements.CreateView]]:
    """The statements of a script, which make tables with columns and views."""
    for statement in split(text):
        parsed = statements.parse(statement)
        is_table = isinstance(parsed, statements.CreateTable) and parsed.schema is not None
        if not is_table and not isinstance(parsed, statements.CreateView):
            raise SqlError(
                "this is neither a table nor a view",
                place=Place.at(statement.text, statement.start),
                hint="give CREATE TABLE and CREATE [MATERIALIZED] VIEW statements only",
            )
        assert isinstance(parsed, (statements.CreateTable, statements.CreateView))
        yield statement, parsed
