"""The analysis of a script that defines tables, views, assertions and active rules; nothing is created."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from viewkeeper.advice.advice import Analysis, analyze_definition, defines_relation
from viewkeeper.advice.assertion_checks import check_lines
from viewkeeper.advice.change_paths import LEGEND
from viewkeeper.advice.named_relations import Known, References, StoredRelation
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.types import spelled
from viewkeeper.analysis.polarity import Kinds, relevant_kinds
from viewkeeper.analysis.triggering_graph import (
    Reaction,
    Reads,
    Watch,
    Write,
    kinds_of,
    reads_of,
    warnings,
    watches_of,
)
from viewkeeper.delta.positive import needed_kinds
from viewkeeper.errors import Name, Place, SqlError
from viewkeeper.sql import parsed_statements as statements
from viewkeeper.sql.bound_names import bound
from viewkeeper.sql.declared import DeclaredTyper
from viewkeeper.sql.dialect import SourceText
from viewkeeper.sql.query import translate
from viewkeeper.sql.rule_effects import effects_of, names_read
from viewkeeper.sql.rule_statements import VIOLATED
from viewkeeper.sql.tokens import Statement, split


@dataclass(frozen=True)
class AssertionAnalysis:
    """An assertion, and its check in words."""

    name: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: an assertion", *self.lines, LEGEND])


@dataclass(frozen=True)
class RuleAnalysis:
    """A rule: the tables whose changes can trigger it, those that its action writes, and warnings.

    `writes` is None if the action is a Python function: what that writes is not known, and no warning counts with it.
    """

    name: str
    watches: tuple[str, ...]
    writes: tuple[str, ...] | None
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        writes = f", writes {', '.join(self.writes)}" if self.writes else ""
        writes = ", writes what is not known" if self.writes is None else writes
        head = f"{self.name}: a rule that changes of {', '.join(self.watches)} can trigger{writes}"
        return "\n".join([head, *(f"  {warning}" for warning in self.warnings)])

    def to_json(self) -> dict[str, Any]:
        """The analysis for programs."""
        writes = None if self.writes is None else list(self.writes)
        return {"rule": self.name, "watches": list(self.watches), "writes": writes, "warnings": list(self.warnings)}


@dataclass(frozen=True)
class ScriptAnalysis:
    """What is known of the views, assertions and rules of a script."""

    views: tuple[Analysis, ...]
    assertions: tuple[AssertionAnalysis, ...]
    rules: tuple[RuleAnalysis, ...]

    def __str__(self) -> str:
        return "\n\n".join(map(str, (*self.views, *self.assertions, *self.rules)))

    def to_json(self) -> dict[str, Any]:
        """The analysis for programs."""
        body: dict[str, Any] = {"views": [analysis.to_json() for analysis in self.views]}
        if self.assertions:
            body["assertions"] = [{"assertion": one.name, "check": list(one.lines)} for one in self.assertions]
        if self.rules:
            body["rules"] = [rule.to_json() for rule in self.rules]
        return body


def analyze_script(text: str) -> ScriptAnalysis:
    """Analyzes every view, assertion and rule of a script."""
    script = _Script()
    for statement in split(text):
        script.add(statement)
    return ScriptAnalysis(tuple(script.views), tuple(script.assertions), tuple(script.rules))


class _Script:
    """What the statements of a script have defined so far."""

    def __init__(self) -> None:
        self.known = Known()
        self.views: list[Analysis] = []
        self.assertions: list[AssertionAnalysis] = []
        self.rules: list[RuleAnalysis] = []
        self._reads: dict[str, Reads] = {}  # how materialized views read tables
        self._reactions: list[Reaction] = []

    def add(self, statement: Statement) -> None:
        """Analyzes a statement."""
        parsed = statements.parse(statement)
        if defines_relation(parsed):
            for analysis, _, _ in analyze_definition(self.known, statement, parsed, advise=True):
                self.views.append(analysis)
                if analysis.is_stored:
                    self._reads[analysis.name.lower()] = reads_of(_by_name(analysis.node), self._reads.get)
        elif isinstance(parsed, statements.CreateAssertion):
            self.assertions.append(self._assertion(parsed))
        elif isinstance(parsed, statements.CreateRule):
            self.rules.append(self._rule(parsed))
        else:
            raise SqlError(
                "this is neither a table, a view, an assertion nor a rule",
                place=Place.at(statement.text, statement.start),
                hint="give CREATE TABLE, CREATE [MATERIALIZED] VIEW, CREATE ASSERTION and CREATE RULE statements only",
            )

    # assertions -------------------------------------------------------------------------------------------

    def _assertion(self, parsed: statements.CreateAssertion) -> AssertionAnalysis:
        if parsed.query is not None:
            node = self._translated(parsed.query, parsed.query.whole)
        else:
            node = self._translated(f"{VIOLATED}{parsed.condition})")
        lines: list[str] = []
        for key, kinds in relevant_kinds(node, Kinds.ADDITIONS).items():
            relation = self.known.stored[key]
            lines.append(relation.name)
            lines += [f"  {line}" for line in check_lines(node, key, relation.name, relation.schema.names, kinds)]
        return AssertionAnalysis(str(parsed.name), tuple(lines))

    def _translated(self, query: str, whole: str | None = None) -> n.Node:
        return _by_name(translate(query, whole or query, References(self.known), DeclaredTyper()).node)

    # rules ------------------------------------------------------------------------------------------------

    def _rule(self, parsed: statements.CreateRule) -> RuleAnalysis:
        action = str(parsed.action) if isinstance(parsed.action, SourceText) else None
        condition = str(parsed.condition) if parsed.condition is not None else None
        effects = [] if action is None else effects_of(action)
        reaction = Reaction(
            str(parsed.name),
            parsed.priority,
            parsed.coupling,
            self._watches(parsed),
            frozenset(table for name in names_read(action, condition) for table in self._tables(name, parsed.name)),
            tuple(
                Write(table, effect.operation, effect.columns)
                for effect in effects
                for table in self._tables(effect.table, parsed.name)
            ),
            isinstance(parsed.source, Name) and self._is_table(parsed.source) and parsed.events == ("updated",),
        )
        self._reactions = [one for one in self._reactions if one.name.lower() != reaction.name.lower()]
        self._reactions.append(reaction)
        writes = tuple(dict.fromkeys(self._called(write.table) for write in reaction.writes))
        return RuleAnalysis(
            reaction.name,
            tuple(map(self._called, reaction.watches)),
            None if isinstance(parsed.action, statements.PythonAction) else writes,
            tuple(warnings(self._reactions, reaction.name, self._called)),
        )

    def _watches(self, parsed: statements.CreateRule) -> dict[str, Watch]:
        source, wanted = parsed.source, kinds_of(parsed.events)
        if isinstance(source, Name) and self._is_table(source):
            return {source.lower(): Watch(wanted)}
        if isinstance(source, Name):
            if self.known.find(source) is None:
                raise self.known.missing(source, source.place)
            node = self._translated(f"SELECT * FROM {spelled(source)}")
        elif parsed.parameters:
            nothing = {f":{name.lower()}": f"CAST(NULL AS {kind.ddl})" for name, kind in parsed.parameters}
            node = self._translated(bound(source, nothing))
        else:
            node = self._translated(source, source.whole)
        kinds = needed_kinds(node) if parsed.nervous else relevant_kinds(node, wanted)
        return watches_of(node, kinds, self._reads.get)

    def _is_table(self, name: str) -> bool:
        found = self.known.find(name)
        return isinstance(found, StoredRelation) and not found.is_view

    def _tables(self, name: str, rule: Name) -> list[str]:
        """The tables that the rows of a relation come from, itself if it is one."""
        found = self.known.find(name)
        if found is None:
            raise self.known.missing(name, rule.place)
        if isinstance(found, StoredRelation) and not found.is_view:
            return [name.lower()]
        return list(reads_of(self._translated(f"SELECT * FROM {spelled(name)}"), self._reads.get))

    def _called(self, key: str) -> str:
        return self.known.stored[key].name


def _by_name(node: n.Node) -> n.Node:
    """A query whose scans have the names of their relations, the same for all references."""
    return n.transform(
        node, lambda part: replace(part, relation=part.name.lower()) if isinstance(part, n.Scan) else part
    )
