"""Checks of a program: its relations, each of its rules, and its constants.

Recursion is checked elsewhere, because strata also depend on rules that exist already.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from viewkeeper.algebra.schema import Schema
from viewkeeper.datalog.declared_relations import find_relations
from viewkeeper.datalog.grounding import check_grounded
from viewkeeper.datalog.kinds import check_kinds
from viewkeeper.datalog.normal import NormalRule, normalize
from viewkeeper.datalog.program_tree import Program
from viewkeeper.datalog.remarks import Remark, remarks_on
from viewkeeper.datalog.terms import Call
from viewkeeper.datalog.walking import walk
from viewkeeper.errors import DatalogError

_NOTHING: Mapping[str, Schema | None] = MappingProxyType({})


@dataclass(frozen=True)
class Checked:
    """A program that passed all checks. `removed` are the normal rules of the clauses that begin with `-`.

    `schemas` are those of the declared relations.
    """

    program: Program
    rules: tuple[NormalRule, ...]
    removed: tuple[NormalRule, ...]
    schemas: Mapping[str, Schema]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    remarks: tuple[Remark, ...]


def check(
    program: Program, outside: Mapping[str, Schema | None] = _NOTHING, functions: Collection[str] = ()
) -> Checked:
    """The checked program. `outside` are the existing tables and views, with their schemas where they matter."""
    relations = find_relations(program, outside)
    _check_functions(program, functions)
    rules = [rule for clause in program.clauses if clause.sign != "-" for rule in normalize(clause)]
    for rule in rules:
        check_grounded(rule)
        check_kinds(rule, relations)
    declared = {name.text for declaration in program.declarations for name in declaration.names}
    return Checked(
        program,
        tuple(rules),
        tuple(rule for clause in program.clauses if clause.sign == "-" for rule in normalize(clause)),
        {name: relation.schema for name, relation in relations.items() if name in declared and relation.schema},
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


def _named(program: Program, kind: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.text for each in program.directives if each.kind == kind for name in each.names))
