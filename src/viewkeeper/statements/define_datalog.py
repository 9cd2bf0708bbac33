"""Datalog programs: declares relations, stores facts, adds and removes rules, all in one transaction."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Numbers
from viewkeeper.algebra.schema import Schema
from viewkeeper.algebra.serial import to_json
from viewkeeper.catalog.definition import Definition
from viewkeeper.catalog.name_errors import already_exists, refuse_reserved
from viewkeeper.catalog.relations import Derived, MaterializedView, Relation, Table, VirtualView, as_derived
from viewkeeper.datalog.parsing import parse
from viewkeeper.datalog.program_tree import Clause
from viewkeeper.datalog.safety import Checked, check
from viewkeeper.datalog.sameness import canonical
from viewkeeper.datalog.strata import Stratum
from viewkeeper.datalog.terms import Boolean, Number, Real, Term, Text
from viewkeeper.errors import AlreadyExists, DatalogError
from viewkeeper.query.programs import DATALOG, Program, clauses_of, normal, strata_of
from viewkeeper.query.view_queries import Made
from viewkeeper.sql.query import Query
from viewkeeper.statements.define_views import create_made, redefine, reread
from viewkeeper.transaction import row_changes as rowwise
from viewkeeper.transaction.open_transaction import OpenTransaction
from viewkeeper.transaction.trial import try_definitions


def run_program(tx: OpenTransaction, text: str) -> list[str]:
    """Runs a program, or adds and removes rules; returns remarks for the user."""
    program = parse(text)
    outside = {r.name: r.schema for r in tx.alive() if not r.is_hidden}
    checked = check(program, outside, tx.store.known_functions())
    with tx.defining():
        _declare_tables(tx, checked)
        remarks = [str(remark) for remark in checked.remarks]
        rules = _Changes(tx, checked)
        rules.facts()
        rules.define()
        heads = {head.relation: head.place for clause in program.clauses for head in clause.heads}
        try_definitions(tx, heads.get)
    return remarks + rules.remarks


def _declare_tables(tx: OpenTransaction, checked: Checked) -> None:
    """Creates the tables of .input that do not exist yet; refuses names of declared relations that are not free."""
    for declaration in checked.program.declarations:
        for declared in declaration.names:
            refuse_reserved(declared.text, declared.place)
    for name in checked.inputs:
        there, schema = tx.find(name), checked.schemas.get(name)
        if there is None and schema is not None:
            tx.create(name, schema)
        elif there is not None and schema is not None:
            _check_same(there, schema, checked)
    for name in checked.schemas:
        there = tx.find(name)
        if there is not None and name not in checked.inputs:
            raise already_exists(there, name, MaterializedView if name in checked.outputs else VirtualView)


def _check_same(there: Relation, schema: Schema, checked: Checked) -> None:
    found = [(c.name.lower(), c.type.ddl) for c in there.schema]
    if found != [(c.name.lower(), c.type.ddl) for c in schema]:
        place = next(
            name.place
            for declaration in checked.program.declarations
            for name in declaration.names
            if name.text == there.name
        )
        listed = ", ".join(f"{c.name}:{str(c.type).lower()}" for c in there.schema)
        raise DatalogError(
            f"{there.name} is declared with other columns than the {there.kind_words} has",
            hint=f"write .decl {there.name}({listed}), or leave the declaration out",
            place=place,
        )


class _Changes:
    """The facts and rules of a program, and what they change of the existing ones."""

    def __init__(self, tx: OpenTransaction, checked: Checked) -> None:
        self.tx = tx
        self.checked = checked
        self.there = clauses_of(tx)
        self.after: dict[str, list[Clause]] = {}
        self.remarks: list[str] = []
        self.stored: list[Clause] = []
        for clause in checked.program.clauses:
            self._add(clause)

    def _add(self, clause: Clause) -> None:
        for head in clause.heads:
            name = head.relation
            relation = self.tx.find(name)
            one = replace(clause, sign="", heads=(head,))
            if isinstance(relation, Table):
                if clause.body is not None:
                    raise DatalogError(
                        f"{relation.name} is a table, so it cannot have rules",
                        hint="write the rules for another relation",
                        place=head.place,
                    )
                self.stored.append(replace(clause, heads=(head,)))
                continue
            if relation is not None and name not in self.there:
                raise DatalogError(
                    f"{relation.name} is a view defined by SQL, so it cannot have rules",
                    hint=f"ALTER VIEW {relation.name} AS SELECT ..., or write rules for another relation",
                    place=head.place,
                )
            if relation is not None and not clause.sign:
                raise AlreadyExists(
                    f"{relation.name} is already defined by rules",
                    hint=f"write + {one} to add a rule, - to remove one",
                    place=head.place,
                )
            self._change(name, one, clause.sign)

    def _change(self, name: str, clause: Clause, sign: str) -> None:
        listed = self.after.setdefault(name, list(self.there.get(name, ())))
        key = canonical(clause)
        same = [other for other in listed if canonical(other) == key]
        if sign != "-":
            if same:
                self.remarks.append(f"{name} has this rule already: {clause}")
            else:
                listed.append(clause)
            return
        if not same:
            raise DatalogError(
                f"{name} has no such rule",
                detail="\n".join(["its rules are:", *map(str, listed)]) if listed else "it has no rules",
                hint="write the rule as it was written; names of variables do not matter",
                place=clause.place,
            )
        listed.remove(same[0])

    # facts ---------------------------------------------------------------------------------------

    def facts(self) -> None:
        """Inserts and deletes facts of tables."""
        grouped = itertools.groupby(self.stored, key=lambda clause: (clause.heads[0].relation, clause.sign == "-"))
        for (name, is_deletion), clauses in grouped:
            relation = self.tx.table(name)
            rows = [tuple(_constant(term) for term in clause.heads[0].arguments) for clause in clauses]
            if is_deletion:
                rowwise.delete_rows(self.tx, relation, rows, "error")
            else:
                rowwise.insert_rows(self.tx, relation, rows)

    # rules ---------------------------------------------------------------------------------------

    def define(self) -> None:
        """Defines the relations whose rules are new or have changed, each before those that read it."""
        every = {**self.there, **self.after}
        schemas = dict(self.checked.schemas)
        known = {name: self.tx.find(name) for name in self.after}
        schemas |= {name: relation.schema for name, relation in known.items() if relation is not None}
        program = Program(self.tx, schemas)
        made: dict[str, Made] = {}
        wanted = self._touched()
        for stratum in strata_of(self.tx, every.values()):
            if not stratum.rules or not set(stratum.relations) & wanted:
                continue
            for name, one in program.made(stratum).items():
                if self.tx.find(name) is None:
                    self._create(name, one)
                else:
                    made[name] = one
                if self._kind(name) is VirtualView:
                    program.new[name] = Query(one.node, one.names)
        for name in self.after:
            if not self.after[name]:
                made.setdefault(name, _empty(schemas[name]))
                self.remarks.append(f"{name} has no rules left: it is empty")
        self._redefine(made, every)

    def _touched(self) -> set[str]:
        """The relations whose rules have changed, and those in the same recursion before."""
        found = set(self.after)
        for stratum in strata_of(self.tx, self.there.values()):
            if found & set(stratum.relations):
                found |= set(stratum.relations)
        return found

    def _kind(self, name: str) -> type[Relation]:
        relation = self.tx.find(name)
        if relation is not None:
            return type(relation)
        return MaterializedView if name in self.checked.outputs else VirtualView

    def _create(self, name: str, made: Made) -> None:
        definition = Definition(
            self._kind(name).kind,
            _text(self.after[name]),
            made.names,
            to_json(made.node),
            uses=made.uses,
            engine=self.tx.store.engine.kind,
            language=DATALOG,
        )
        create_made(self.tx, name, definition, made)

    def _redefine(self, made: dict[str, Made], every: Mapping[str, Sequence[Clause]]) -> None:
        relations = {name: as_derived(self.tx.relation(name)) for name in made}
        for name, relation in relations.items():
            one, text = made[name], _text(every[name])
            definition = replace(relation.definition, sql=text, query=to_json(one.node), uses=one.uses)
            if isinstance(one.node, n.Fixpoint) and not any(isinstance(r, VirtualView) for r in relations.values()):
                self._record_former(relation, one.node)
            redefine(self.tx, relation, definition, one, [other.id for other in relations.values()])
        for relation in relations.values():
            if isinstance(relation, VirtualView):
                reread(self.tx, relation.id)

    def _record_former(self, relation: Derived, now: n.Fixpoint) -> None:
        """Records the former expression of a relation that becomes recursive, written as a recursion.

        So the two can be compared, and the relation maintained incrementally.
        """
        alone = [predicate.name for predicate in now.predicates] == [relation.name]
        was_recursive = isinstance(relation.definition.as_written, n.Fixpoint)
        if not alone or was_recursive or relation.id in self.tx.defined or relation.id in self.tx.created:
            return
        if any(not definition.is_stored for definition in self.tx.defined.values()):
            return  # the former rules would be read with the new definitions of virtual relations
        rules = tuple(normal([self.there[relation.name]]))
        if not rules:
            return  # it was empty, so all rows derived now are inserted
        schemas = {relation.name: relation.schema}
        made = Program(self.tx, schemas).made(Stratum((relation.name,), rules, is_recursive=True))
        self.tx.formerly[relation.id] = made[relation.name].node


def _text(clauses: Sequence[Clause]) -> str:
    return "\n".join(map(str, clauses))


def _empty(schema: Schema) -> Made:
    numbers = Numbers()
    attributes = tuple(numbers.attribute(c.name, c.type) for c in schema)
    return Made(Query(n.Rows(attributes, ()), tuple(schema.names)), tuple(schema.names), ())


def _constant(term: Term) -> object:
    match term:
        case Number() | Text() | Boolean():
            return term.value
        case Real():
            return float(term.value)
        case _:
            raise DatalogError(
                f"{term} is not a constant: the facts of a table are stored as they are written",
                hint="write the value",
                place=term.place,
            )
