"""The analysis of a view before it is created: its keys, what its maintenance takes, and suggestions to its author.

It needs the definitions of the tables only: no database, and no engine. Every suggestion was tried: the view was
analyzed again with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from sqlglot import exp

from viewkeeper.advice.effort import COSTS, OPERATIONS, Effort, effort_of
from viewkeeper.advice.named_relations import Known, References, StoredRelation, VirtualRelation, is_at
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.schema import Column, Key, Schema
from viewkeeper.analysis.safe_references import Examination, Findings, Nesting, Verdict
from viewkeeper.errors import Place, SqlError, ViewkeeperError
from viewkeeper.plan.by_keys import parents_first, without_needless
from viewkeeper.plan.maintainable import unbound
from viewkeeper.sql import parsed_statements as statements
from viewkeeper.sql.declared import DeclaredTyper
from viewkeeper.sql.dialect import parse, render
from viewkeeper.sql.query import translate
from viewkeeper.sql.table_references import named_columns
from viewkeeper.sql.tokens import Statement, split


@dataclass(frozen=True)
class Advice:
    """A suggestion to the author of a view, and its effect."""

    text: str
    effect: str


@dataclass(frozen=True)
class Analysis:
    """What is known of a view before it is created."""

    name: str
    query: str
    node: n.Node
    columns: tuple[str, ...]
    findings: Findings
    efforts: dict[tuple[str, str], Effort]
    refused: tuple[tuple[str, str], ...]
    is_stored: bool = True
    advice: tuple[Advice, ...] = ()

    @property
    def schema(self) -> Schema:
        """The columns of the view when it is materialized, and its keys."""
        columns = tuple(Column(name, a.type) for name, a in zip(self.columns, self.node.outputs, strict=True))
        return Schema(columns, tuple(Key(key, primary=False) for key in self.findings.keys))

    @property
    def keys(self) -> list[tuple[str, ...]]:
        """The smallest known keys of the view."""
        return list(self.findings.keys)

    @property
    def duplicates(self) -> bool:
        """Whether the view may contain duplicates."""
        return self.findings.has_duplicates

    def __str__(self) -> str:
        return to_text(self)

    def to_json(self) -> dict[str, Any]:
        """The analysis for programs."""
        return to_json(self)

    def of(self, verdict: Verdict, operation: str) -> Effort:
        """What an operation on a reference takes."""
        return self.efforts[verdict.reference.id, operation]


def analyze_view(
    name: str,
    query: str,
    whole: str,
    known: Known,
    *,
    columns: tuple[str, ...] | None = None,
    advise: bool = True,
    is_stored: bool = True,
) -> Analysis:
    """Analyzes a view before it is created. `columns` are the names of its columns, if the query's own are not."""
    try:
        examined, references = _examined(name, query, whole, known, columns)
        findings = examined.findings()
        maintained = parents_first(without_needless(examined.node, references.keys), references.refers)
        efforts = {
            (verdict.reference.id, operation): effort_of(maintained, verdict.reference.id, operation)
            for verdict in findings.verdicts
            for operation in OPERATIONS
        }
        refused = tuple(unbound(examined.node))
        names = tuple(examined.names)
        result = Analysis(name, query, examined.node, names, findings, efforts, refused, is_stored)
        return replace(result, advice=tuple(_advice(result, whole, known))) if advise else result
    except RecursionError:
        raise SqlError(f"{name} is nested too deep to be analyzed", hint="define parts of it as views") from None


def _examined(
    name: str, query: str, whole: str, known: Known, columns: tuple[str, ...] | None = None
) -> tuple[Examination, References]:
    references = References(known)
    found = translate(query, whole, references, DeclaredTyper())
    names = named_columns(name, columns, found.names)
    placed = references.placed(parse(query, whole), query, whole)
    return Examination(found.node, names, placed), references


# suggestions ---------------------------------------------------------------------------------------


def _advice(analysis: Analysis, whole: str, known: Known) -> Iterator[Advice]:
    """Suggestions that were tried and have an effect."""
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
        if again is not None and not again.has_duplicates:
            yield Advice("write SELECT DISTINCT", "there are no duplicates")


def _again(analysis: Analysis, query: str, known: Known, whole: str | None = None) -> Examination | None:
    """The view with a suggestion followed; None if it is no view then. `whole` is given for the same query."""
    try:
        return _examined(analysis.name, query, whole or query, known, analysis.columns if whole else None)[0]
    except ViewkeeperError:
        return None


def _split(analysis: Analysis, tree: exp.Union, known: Known) -> Iterator[Advice]:
    """The branches of a UNION as views of their own, where none of them needs counts."""
    if any(tree.args.get(part) for part in ("order", "limit", "offset")):
        return
    branches = list(_branches(tree))
    for branch in branches:
        if tree.args.get("with_"):
            branch.set("with_", tree.args["with_"].copy())
    tried = [_again(analysis, render(branch), known) for branch in branches]
    if not any(again is None or again.has_duplicates for again in tried):
        what = f"split the UNION: create a view for each of its {len(branches)} branches"
        yield Advice(what, "none of them has duplicates, so no counts are stored")


def _branches(tree: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(tree, exp.Union) and tree.args.get("distinct"):
        yield from _branches(tree.left)
        yield from _branches(tree.right)
    else:
        yield tree.copy()


def _effect(analysis: Analysis, again: Examination | None, verdict: Verdict) -> str | None:
    """The effect of a suggestion on a reference; None if the reference is not safe then either."""
    found = again.verdict(verdict.reference.id) if again is not None else None
    if again is None or found is None or not found.is_safe:
        return None
    unique = analysis.findings.has_duplicates and not again.has_duplicates
    return f"{verdict.reference.name} is safe then{', and there are no duplicates' if unique else ''}"


def _projected(analysis: Analysis, tree: exp.Expr, verdict: Verdict, whole: str, known: Known) -> Iterator[Advice]:
    """Key columns added to the SELECT list."""
    named = [t for t in tree.find_all(exp.Table) if is_at(verdict.reference, t, analysis.query, whole)]
    table = named[0] if named else None  # none if the reference stands in a view that this one names
    if table is None or table.find_ancestor(exp.Select) is not tree:
        return
    taken = {name.lower() for name in analysis.columns}
    for key in verdict.reference.keys:
        more: list[exp.Expr] = []
        for name in key:
            if name not in verdict.bound:
                column = exp.column(name, table=table.alias_or_name)
                free = f"{table.alias_or_name}_{name}"
                more.append(exp.alias_(column, free) if name.lower() in taken else column)
        again = _again(analysis, render(tree.copy().select(*more)), known)
        effect = _effect(analysis, again, verdict)
        if effect is not None:
            listed = ", ".join(column.sql(dialect="spark") for column in more)
            yield Advice(f"add {listed} to the SELECT list", effect)
            return


def _declared(analysis: Analysis, verdict: Verdict, whole: str, known: Known) -> Iterator[Advice]:
    """The bound columns declared as a key."""
    reference = verdict.reference
    if not verdict.bound or verdict.key is not None or reference.is_view:
        return
    if any(reference.schema.column(name).type.has_map() for name in verdict.bound):
        return
    again = _again(analysis, analysis.query, known.with_key(reference.name, verdict.bound), whole)
    effect = _effect(analysis, again, verdict)
    if effect is not None:
        listed = ", ".join(verdict.bound)
        yield Advice(
            f"declare UNIQUE ({listed}) NOT NULL on {reference.name}, if no two of its rows have the same values there",
            effect,
        )


# printing ------------------------------------------------------------------------------------------


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
                "effort": effort.scale.name.lower(),
                "cost": COSTS[effort.scale],
                "reads": [str(reading) for reading in effort.readings],
                "remarks": list(effort.remarks),
            }
            for operation in OPERATIONS
            for effort in [analysis.of(verdict, operation)]
        },
    }


def to_text(analysis: Analysis) -> str:
    """The analysis for people."""
    keys = "; ".join(f"({', '.join(key)})" if key else "at most one row" for key in analysis.findings.keys)
    unknown = "none known: there may be duplicates, and a count is stored with each row"
    lines = [f"{analysis.name}: {', '.join(analysis.columns)}", f"keys: {keys or unknown}"]
    for reason, instead in analysis.refused:
        lines.append(f"cannot be maintained incrementally: {reason}; {instead}")
    for verdict in analysis.findings.verdicts:
        lines += _lines(analysis, verdict)
    lines += [f"you could {advice.text}: {advice.effect}" for advice in analysis.advice]
    return "\n".join(lines)


def _lines(analysis: Analysis, verdict: Verdict) -> Iterator[str]:
    place = verdict.reference.place
    where = f", {place}" if place is not None else ""
    yield from f"{verdict.reference.name}{where}".split("\n")
    yield f"  {_judged(verdict)}"
    texts: dict[str, list[str]] = {}
    for operation in OPERATIONS:
        effort = analysis.of(verdict, operation)
        reads = f", reads {', '.join(dict.fromkeys(map(str, effort.readings)))}" if effort.readings else ""
        remarks = "".join(f"; {remark}" for remark in effort.remarks)
        texts.setdefault(f"{COSTS[effort.scale]}{reads}{remarks}", []).append(operation)
    yield from (f"  {', '.join(operations)}: {text}" for text, operations in texts.items())


def _judged(verdict: Verdict) -> str:
    where = "" if verdict.nesting is Nesting.TOP else f" under {verdict.nesting.value}"
    bound = ", ".join(verdict.bound) or "no column"
    if verdict.is_safe:
        assert verdict.key is not None
        return f"safe{where}: the view's columns bind its key ({', '.join(verdict.key)})"
    if verdict.looks_outside:
        return f"not safe{where}: it is compared with {', '.join(verdict.looks_outside)}, which the view does not bind"
    return f"not safe{where}: the view's columns bind {bound} of it, which is no key"


# scripts -----------------------------------------------------------------------------------------


def analyze_each(text: str, *, advise: bool = True) -> Iterator[tuple[Analysis, Known, str]]:
    """The views of a script one after the other, each with the relations it can name and the statement's text."""
    known = Known()
    for statement, parsed in definitions(text):
        yield from analyze_definition(known, statement, parsed, advise=advise)


def analyze_definition(
    known: Known, statement: Statement, parsed: statements.CreateTable | statements.CreateView, *, advise: bool
) -> Iterator[tuple[Analysis, Known, str]]:
    """The view of a statement with the relations it can name, if it is one; then it is known, as a table is."""
    there = known.find(parsed.name)
    if there is not None and parsed.if_not_exists:
        return
    replaces = isinstance(parsed, statements.CreateView) and parsed.or_replace
    if there is not None and not (replaces and (isinstance(there, VirtualRelation) or there.is_view)):
        place = Place.at(statement.text, statement.start, statement.end - statement.start)
        raise known.taken(parsed.name, place)
    if isinstance(parsed, statements.CreateTable):
        assert parsed.schema is not None
        known.add(StoredRelation(parsed.name, parsed.schema, is_view=False))
        return
    whole, stored = statement.text, parsed.materialized
    analysis = analyze_view(
        parsed.name, parsed.query, whole, known, columns=parsed.columns, advise=advise, is_stored=stored
    )
    yield analysis, known, whole
    if stored:
        known.add(StoredRelation(parsed.name, analysis.schema, is_view=True))
    else:
        known.add(VirtualRelation(parsed.name, parsed.query, whole, analysis.columns))


def no_stored_view() -> SqlError:
    """The error for a script without a view to derive rules for."""
    return SqlError("there is no materialized view in it", hint="write CREATE MATERIALIZED VIEW ... AS SELECT ...")


def definitions(text: str) -> Iterator[tuple[Statement, statements.CreateTable | statements.CreateView]]:
    """The statements of a script: CREATE TABLE with columns, and CREATE VIEW."""
    for statement in split(text):
        parsed = statements.parse(statement)
        if not defines_relation(parsed):
            raise SqlError(
                "this is neither a table nor a view",
                place=Place.at(statement.text, statement.start),
                hint="give CREATE TABLE and CREATE [MATERIALIZED] VIEW statements only",
            )
        yield statement, parsed


def defines_relation(parsed: object) -> TypeGuard[statements.CreateTable | statements.CreateView]:
    """Whether a statement is CREATE TABLE with columns, or CREATE VIEW."""
    is_table = isinstance(parsed, statements.CreateTable) and parsed.schema is not None
    return is_table or isinstance(parsed, statements.CreateView)
