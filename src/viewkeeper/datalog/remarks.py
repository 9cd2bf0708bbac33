"""Remarks are warnings: what is allowed but looks like a mistake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from viewkeeper.datalog.program_tree import Atom, Clause, Program
from viewkeeper.datalog.walking import variables, walk
from viewkeeper.errors import Place


@dataclass(frozen=True)
class Remark:
    """A warning, and what to type if it is a mistake."""

    message: str
    hint: str
    place: Place = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.message}\nat {self.place}\nhint: {self.hint}"


def remarks_on(program: Program, outside: Collection[str]) -> tuple[Remark, ...]:
    """Warnings for variables that occur once, and for relations without rules, facts or table."""
    found = [remark for clause in program.clauses if clause.sign != "-" for remark in _on_variables(clause)]
    found += _on_relations(program, outside)
    return tuple(sorted(found, key=lambda remark: (remark.place.line, remark.place.column)))


def _on_variables(clause: Clause) -> Iterator[Remark]:
    occurring = variables([clause])
    counts = Counter(variable.name for variable in occurring)
    for name, variable in {variable.name: variable for variable in reversed(occurring)}.items():
        if counts[name] == 1 and not name.startswith("_"):
            yield Remark(f"Variable {name} only occurs once", "write _ if any value will do", variable.place)
        elif counts[name] > 1 and name.startswith("_"):
            yield Remark(
                f"Variable {name} marked as singleton but occurs more than once",
                "begin its name with a letter, or write _ for any value each time",
                variable.place,
            )


def _on_relations(program: Program, outside: Collection[str]) -> Iterator[Remark]:
    inputs = {name.text for each in program.directives if each.kind == "input" for name in each.names}
    heads = {atom.relation for clause in program.clauses for atom in clause.heads}
    used = {part.relation for clause in program.clauses for part in walk(clause) if isinstance(part, Atom)}
    for declaration in program.declarations:
        for name in declaration.names:
            if name.text in used and name.text not in inputs | heads and name.text not in outside:
                yield Remark(
                    f"No rules/facts defined for relation {name}",
                    f"write .input {name} if it is a table, or rules for it",
                    name.place,
                )
