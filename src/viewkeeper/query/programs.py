"""Datalog relations of a database: all their rules together, and the expressions that define them.

Relations that depend on each other are one recursion; any other relation is a distinct union of its rules.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.catalog.relations import Derived, MaterializedView
from viewkeeper.datalog.normal import NormalRule, normalize
from viewkeeper.datalog.parsing import parse
from viewkeeper.datalog.program_tree import Atom, Clause
from viewkeeper.datalog.rule_queries import Relations, column_names, selects
from viewkeeper.datalog.strata import Stratum, stratify_like
from viewkeeper.datalog.wording import where
from viewkeeper.engine.typer import EngineTyper
from viewkeeper.errors import DatalogError, Place, ViewkeeperError
from viewkeeper.query.view_queries import Made, Names, define, read_query
from viewkeeper.sql.context import Context
from viewkeeper.sql.finish import finished
from viewkeeper.sql.query import Query, Stored, Virtual, translate
from viewkeeper.sql.recursive_queries import Recursion
from viewkeeper.transaction.open_transaction import OpenTransaction

DATALOG = "datalog"
"""The language of definitions by rules."""


@functools.lru_cache(maxsize=2_000)
def _clauses(text: str) -> tuple[Clause, ...]:
    return parse(text).clauses


def clauses_of(tx: OpenTransaction) -> dict[str, tuple[Clause, ...]]:
    """The rules of every Datalog relation that a transaction sees, each with one head."""
    there = [r for r in tx.alive() if isinstance(r, Derived) and r.definition.language == DATALOG]
    return {r.name: _clauses(r.definition.sql) for r in there}


def strata_of(tx: OpenTransaction, clauses: Iterable[Iterable[Clause]]) -> tuple[Stratum, ...]:
    """The strata of some rules. A stored recursion stays one, so that it is maintained when its rules change."""
    there = (r.definition for r in tx.alive() if isinstance(r, MaterializedView))
    nodes = [definition.as_written for definition in there if definition.language == DATALOG]
    stored = {tuple(p.name for p in node.predicates) for node in nodes if isinstance(node, n.Fixpoint)}
    return stratify_like(normal(clauses), sorted(stored))


def normal(clauses: Iterable[Iterable[Clause]]) -> list[NormalRule]:
    """Rules in normal form."""
    return [rule for listed in clauses for clause in listed for rule in normalize(clause)]


def made_again(tx: OpenTransaction, relation: Derived) -> Made:
    """The query of a view, translated again because something that it reads was redefined."""
    definition = relation.definition
    if definition.language != DATALOG:
        return define(tx, definition.sql, definition.sql, definition.names, relation.name)
    stratum = next(s for s in strata_of(tx, clauses_of(tx).values()) if relation.name in s.relations)
    program = Program(tx, {relation.name: relation.schema})
    return program.made(stratum)[relation.name]


class _Known(Names):
    """Resolves names in rules: recursive relations, virtual ones being defined, all others as in a query."""

    def __init__(self, tx: OpenTransaction, new: Mapping[str, Query], markers: Mapping[str, n.Scan]) -> None:
        super().__init__(tx)
        self.new = new
        self.markers = markers

    def find(self, name: str, place: Place) -> Stored | Virtual:
        """The relation of a name."""
        marker = self.markers.get(name)
        if marker is not None:
            return Virtual(name, Query(marker, tuple(a.name for a in marker.attributes)))
        found = super().find(name, place)
        return Virtual(name, self.new[name]) if name in self.new else found


class Program:
    """Translates the rules of Datalog relations to expressions, stratum by stratum."""

    def __init__(self, tx: OpenTransaction, schemas: Mapping[str, Schema]) -> None:
        """`schemas` are those of the relations that the rules define, as far as they are declared."""
        self.tx = tx
        self.schemas = dict(schemas)
        self.typer = EngineTyper(tx.store.engine)
        self.new: dict[str, Query] = {}  # virtual relations defined by the same program
        self.functions = tx.store.known_functions()

    def made(self, stratum: Stratum) -> dict[str, Made]:
        """The expressions of the relations of a stratum."""
        for name in stratum.relations:
            there = self.tx.find(name)
            if name not in self.schemas and there is not None:
                self.schemas[name] = there.schema
        with _blamed_on(stratum.rules[0]):
            return self._recursive(stratum) if stratum.is_recursive else self._plain(stratum)

    def _relations(self, rules: Sequence[NormalRule]) -> Relations:
        named = {atom.relation for rule in rules for atom in _atoms(rule)}
        schemas = {name: self.schemas[name] for name in named if name in self.schemas}
        for name in named - schemas.keys():
            found = self.tx.find(name)
            if found is not None:
                schemas[name] = found.schema
        return Relations(schemas, self.functions)

    def _plain(self, stratum: Stratum) -> dict[str, Made]:
        (name,) = stratum.relations
        relations = self._relations(stratum.rules)
        head = self.schemas.get(name)
        text = " UNION ALL ".join(query for rule in stratum.rules for query in selects(rule, relations, head))
        names = _Known(self.tx, self.new, {})
        query = read_query(text, text, names, self.typer)
        columns = tuple(head.names) if head is not None else column_names(stratum.rules[0])
        made = Made(Query(_as_set(query.node), columns), columns, tuple(names.used))
        self.schemas.setdefault(name, made.schema)
        return {name: made}

    def _recursive(self, stratum: Stratum) -> dict[str, Made]:
        for name in stratum.relations:
            if name not in self.schemas:
                self._infer(name, stratum)
        relations = replace(self._relations(stratum.rules), recursive=stratum.relations)
        context = Context("", "", self.typer)
        markers = {
            name: n.Scan(
                f"recursive {name}",
                name,
                tuple(context.numbers.attribute(c.name, c.type) for c in self.schemas[name]),
            )
            for name in stratum.relations
        }
        recursion = Recursion(context, markers, None, bag=False)
        names = _Known(self.tx, self.new, markers)
        for rule in stratum.rules:
            with _blamed_on(rule):
                for text in selects(rule, relations, self.schemas[rule.head.relation]):
                    query = read_query(text, text, names, self.typer)
                    node, _ = n.fresh(query.node, context.numbers)
                    recursion.branch(rule.head.relation, node, str(rule))
        found = {}
        for name in stratum.relations:
            shown = [context.numbers.like(a) for a in markers[name].attributes]
            node = finished(context, recursion.fixpoint(name, shown))
            columns = tuple(self.schemas[name].names)
            found[name] = Made(Query(node, columns), columns, tuple(names.used))
        return found

    def _infer(self, name: str, stratum: Stratum) -> None:
        """Infers the columns of an undeclared recursive relation from those of its rules that are not recursive."""
        start = [
            rule
            for rule in stratum.rules
            if rule.head.relation == name and not any(a.relation in stratum.relations for a in _atoms(rule))
        ]
        if not start:
            rule = next(rule for rule in stratum.rules if rule.head.relation == name)
            raise DatalogError(
                f"the types of the columns of {name} are not known: all its rules are recursive",
                hint=f"declare it: .decl {name}(x:number)",
                place=rule.head.place,
            )
        text = " UNION ALL ".join(query for rule in start for query in selects(rule, self._relations(start), None))
        query = translate(text, text, _Known(self.tx, self.new, {}), self.typer)
        names = column_names(start[0])
        columns = (Column(name, a.type) for name, a in zip(names, query.node.outputs, strict=True))
        self.schemas[name] = Schema(tuple(columns))


@contextlib.contextmanager
def _blamed_on(rule: NormalRule) -> Iterator[None]:
    """Turns an error about the SQL of a rule into one about the rule."""
    try:
        yield
    except DatalogError:
        raise
    except ViewkeeperError as problem:
        raise DatalogError(problem.message, detail=where(rule), hint=problem.hint, place=rule.place) from problem


def _atoms(rule: NormalRule) -> list[Atom]:
    found: list[Atom] = []
    waiting = [rule.body]
    while waiting:
        body = waiting.pop()
        found += [*body.positive, *body.negated]
        waiting += [aggregate.body for aggregate in body.aggregates]
    return found


def _as_set(node: n.Node) -> n.Node:
    return node if isinstance(node, n.Distinct) else n.Distinct(node)
