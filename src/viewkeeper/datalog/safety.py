"""Whether a program makes sense: its relations, its rules one by one, and its constants.

Recursion is looked at elsewhere: strata also depend on rules that are there already.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from viewkeeper.algebra.schema import Schema
from viewkeeper.datalog.grounding import check_grounded
from viewkeeper.datalog.kinds import check_kinds
from viewkeeper.datalog.normal import NormalRule, normalise
from viewkeeper.datalog.relations import Relation, find_relations
from viewkeeper.datalog.remarks import Remark, remarks_on
from viewkeeper.datalog.syntax import Program
from viewkeeper.datalog.terms import Call, Variable
from viewkeeper.datalog.walking import walk
from viewkeeper.errors import DatalogError

_NOTHING: Mapping[str, Schema | None] = MappingProxyType({})


@dataclass(frozen=True)
class Checked:
    """A program that makes sense. `removed` are the normal rules of the clauses that begin with `-`.

    `schemas` are those of the declared relations. `inferred` has column names for relations that only rules define.
    """

    program: Program
    rules: tuple[NormalRule, ...]
    removed: tuple[NormalRule, ...]
    schemas: Mapping[str, Schema]
    inferred: Mapping[str, tuple[str, ...]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    remarks: tuple[Remark, ...]


def check(
    program: Program, outside: Mapping[str, Schema | None] = _NOTHING, functions: Collection[str] = ()
) -> Checked:
    """The checked program. `outside` are the tables and views there are, with their schemas where they matter."""
    relations = find_relations(program, outside)
    _check_functions(program, functions)
    rules = [rule for clause in program.clauses if clause.sign != "-" for rule in normalise(clause)]
    for rule in rules:
        check_grounded(rule)
        check_kinds(rule, relations)
    declared = {name.text for declaration in program.declarations for name in declaration.names}
    return Checked(
        program,
        tuple(rules),
        tuple(rule for clause in program.clauses if clause.sign == "-" for rule in normalise(clause)),
        {name: relation.schema for name, relation in relations.items() if name in declared and relation.schema},
        _inferred(rules, relations, outside),
        _named(program, "input"),
        _named(program, "output"),
        remarks_on(program, outside),
    )


def _check_functions(program: Program, functions: Collection[str]) -> None:
    for clause in program.clauses:
        for part in walk(clause):
            if isinstance(part, Call) and part.function.startswith("@") and part.function[1:] not in functions:
                name = part.function[1:]
                raise DatalogError(
                    f"there is no function named '{name}'",
                    hint=f'declare it first: db.function("{name}", fn, returns="INT")',
                    place=part.place,
                )


def _inferred(
    rules: list[NormalRule], relations: Mapping[str, Relation], outside: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Column names from the head of a relation's first rule: its variables, where they have names of their own."""
    found: dict[str, tuple[str, ...]] = {}
    for rule in rules:
        name = rule.head.relation
        if name in found or name in outside or relations[name].schema is not None:
            continue
        columns: list[str] = []
        for position, argument in enumerate(rule.head.arguments, 1):
            column = argument.name if isinstance(argument, Variable) and argument.name[0].isalpha() else f"c{position}"
            taken = [other.lower() for other in columns]
            columns.append(f"c{position}" if column.lower() in taken or "?" in column else column)
        found[name] = tuple(columns)
    return found


def _named(program: Program, kind: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.text for each in program.directives if each.kind == kind for name in each.names))
