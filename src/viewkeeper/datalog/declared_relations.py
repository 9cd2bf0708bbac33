"""The relations of a program: their names, where they come from, and their columns."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from viewkeeper.algebra.schema import Column, Schema, make_schema
from viewkeeper.datalog.program_tree import Atom, Declaration, DeclaredColumn, Name, Program
from viewkeeper.datalog.walking import walk
from viewkeeper.errors import DatalogError, SqlError


@dataclass(frozen=True)
class Relation:
    """A relation as the program knows it. `schema` and `columns` are missing when nothing declares it."""

    name: str
    arity: int
    schema: Schema | None
    columns: tuple[DeclaredColumn, ...] = ()
    shape: str = ""


def find_relations(program: Program, outside: Mapping[str, Schema | None]) -> dict[str, Relation]:
    """The relations that a program names, checked against each other and against those known outside."""
    _check_spelling(program, outside)
    found: dict[str, Relation] = {}
    for declaration in program.declarations:
        for name in declaration.names:
            if name.text in found:
                raise DatalogError(
                    f"Redefinition of relation {name}",
                    hint="declare it once, and write all its rules below",
                    place=name.place,
                )
            found[name.text] = _declared(declaration, name)
    for known, schema in outside.items():
        if schema is not None and known not in found:
            shape = f"its columns are {', '.join(schema.names)}"
            found[known] = Relation(known, len(schema), schema, shape=shape)
    heads = {atom.relation for clause in program.clauses for atom in clause.heads}
    _check_directives(program, found.keys() | outside.keys() | heads)
    for atom in _atoms(program):
        if atom.relation not in heads and atom.relation not in found and atom.relation not in outside:
            raise _undefined(atom.relation, atom, [*found, *outside, *heads])
        _check_use(atom, found)
    _check_inputs(program)
    return found


def _declared(declaration: Declaration, name: Name) -> Relation:
    columns: list[Column] = []
    for column in declaration.columns:
        columns.append(Column(column.name, column.type))
        try:
            schema = make_schema(columns, ())
        except SqlError as problem:
            raise DatalogError(problem.message, detail=problem.detail, hint=problem.hint, place=column.place) from None
    shape = f"it is declared as {name}({', '.join(map(str, declaration.columns))})"
    return Relation(name.text, len(columns), schema, declaration.columns, shape)


def _atoms(program: Program) -> Iterator[Atom]:
    return (part for clause in program.clauses for part in walk(clause) if isinstance(part, Atom))


def _check_use(atom: Atom, found: dict[str, Relation]) -> None:
    """Checks the number of arguments; the first use of an undeclared relation decides how many columns it has."""
    known = found.get(atom.relation)
    if known is None:
        found[atom.relation] = Relation(atom.relation, len(atom.arguments), None, shape=f"it is first used as {atom}")
    elif known.arity != len(atom.arguments):
        raise DatalogError(
            f"Mismatching arity of relation {atom.relation} (expected {known.arity}, got {len(atom.arguments)})",
            detail=known.shape,
            hint=f"give it {known.arity} argument{'s' if known.arity > 1 else ''}; _ stands for any value",
            place=atom.place,
        )


def _undefined(name: str, at: Atom | Name, known: Iterable[str]) -> DatalogError:
    listed = list(dict.fromkeys(known))
    near = difflib.get_close_matches(name.lower(), [other.lower() for other in listed], 1)
    if near:
        hint = f"did you mean {next(other for other in listed if other.lower() == near[0])}?"
    else:
        hint = f"create a table of that name, declare it with .decl {name}(x:number), or write rules for it"
    return DatalogError(f"Undefined relation {name}", hint=hint, place=at.place)


def _check_directives(program: Program, known: Iterable[str]) -> None:
    listed = list(known)
    for directive in program.directives:
        for name in directive.names:
            if name.text not in listed:
                raise _undefined(name.text, name, listed)


def _check_spelling(program: Program, outside: Iterable[str]) -> None:
    """Refuses two spellings of a relation: tables and views are found without regard to case."""
    spelled = {name.lower(): name for name in outside}
    used: list[tuple[str, Atom | Name]] = [(name.text, name) for item in program.declarations for name in item.names]
    used += [(name.text, name) for item in program.directives for name in item.names]
    used += [(atom.relation, atom) for atom in _atoms(program)]
    for name, at in used:
        other = spelled.setdefault(name.lower(), name)
        if other != name:
            raise DatalogError(
                f"relation {name} is also written {other}",
                detail="names of relations are the names of tables and views, which are compared without case",
                hint=f"write {other} everywhere, or give one of them another name",
                place=at.place,
            )


def _check_inputs(program: Program) -> None:
    inputs = {name.text for each in program.directives if each.kind == "input" for name in each.names}
    for clause in program.clauses:
        for head in clause.heads:
            if head.relation in inputs and clause.body is not None:
                raise DatalogError(
                    f"relation {head.relation} is a table (.input), so it cannot have rules",
                    hint=f"write the rules for another relation, with {head.relation} in a body of its own",
                    place=head.place,
                )
