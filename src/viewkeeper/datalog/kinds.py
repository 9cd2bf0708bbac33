"""Type check of rules by families of values: numbers where numbers are wanted, strings where strings are.

A variable gets its family from columns with a known type, from functors and from `=`. Where none of these says one, it
stays unknown and nothing is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from viewkeeper.datalog.constant_checks import HINTS, Unfit, family_of_type, unfit
from viewkeeper.datalog.declared_relations import Relation
from viewkeeper.datalog.functors import FUNCTORS
from viewkeeper.datalog.normal import NormalBody, NormalRule
from viewkeeper.datalog.program_tree import Atom, Comparison, StringTest
from viewkeeper.datalog.terms import (
    Binary,
    Boolean,
    Call,
    Number,
    Real,
    Term,
    Text,
    Unary,
    Variable,
    Wildcard,
)
from viewkeeper.datalog.wording import where, written
from viewkeeper.errors import DatalogError

_DATES = ("date", "timestamp")


def check_kinds(rule: NormalRule, relations: Mapping[str, Relation]) -> None:
    """Refuses a rule that uses a number as a string, or a string as a number."""
    _Kinds(rule, relations).check()


class _Kinds:
    def __init__(self, rule: NormalRule, relations: Mapping[str, Relation]) -> None:
        self.rule = rule
        self.relations = relations
        self.known: dict[str, tuple[str, str]] = {}
        """For each variable its family, and where that comes from."""

    def check(self) -> None:
        bodies = list(_bodies(self.rule.body))
        for atom in (self.rule.head, *(a for body in bodies for a in (*body.positive, *body.negated))):
            self._columns(atom)
        size = -1
        while size < len(self.known):
            size = len(self.known)
            for body in bodies:
                self._infer(body)
        for body in bodies:
            self._body(body)
        for argument in self.rule.head.arguments:
            self.family(argument)
        self._expressions(self.rule.head)

    # what is known of variables ----------------------------------------------------------------------

    def _columns(self, atom: Atom) -> None:
        schema = self.relations[atom.relation].schema
        if schema is None:
            return
        for argument, column in zip(atom.arguments, schema, strict=True):
            if not isinstance(argument, Variable):
                continue
            family, source = family_of_type(column.type), f"column {column.name} of {atom.relation}"
            before, first_source = self.known.setdefault(argument.name, (family, source))
            if before != family:
                name = written(argument)
                raise self._error(
                    f"variable {name} is {_a(before)} in {first_source} and {_a(family)} in {source}",
                    "use two variables, and to_number or to_string between them",
                    argument,
                )

    def _infer(self, body: NormalBody) -> None:
        for aggregate in body.aggregates:
            self._learn(aggregate.result, "number" if aggregate.function in _COUNTING else self.quiet(aggregate.target))
        for part in body.constraints:
            if isinstance(part, Comparison) and part.operator == "=":
                self._learn(part.left, self.quiet(part.right))
                self._learn(part.right, self.quiet(part.left))

    def _learn(self, term: Term, family: str | None) -> None:
        if isinstance(term, Variable) and family is not None:
            self.known.setdefault(term.name, (family, "a comparison"))

    def quiet(self, term: Term | None) -> str | None:
        """The family of a term's value, if it is known; nothing is checked."""
        match term:
            case Variable():
                return self.known.get(term.name, (None, ""))[0]
            case Number() | Real() | Unary() | Binary():
                return "number"
            case Text():
                return "symbol"
            case Boolean():
                return "boolean"
            case Call() if term.function in FUNCTORS:
                gives = FUNCTORS[term.function].gives
                return gives or next((f for f in map(self.quiet, term.arguments) if f is not None), None)
            case _:
                return None

    # checks --------------------------------------------------------------------------------------------

    def _body(self, body: NormalBody) -> None:
        for atom in (*body.positive, *body.negated):
            self._expressions(atom)
        for aggregate in body.aggregates:
            if aggregate.target is not None:
                self.family(aggregate.target)
                if aggregate.function in _COUNTING:
                    self._want(aggregate.target, "number", aggregate.function)
        for part in body.constraints:
            if isinstance(part, StringTest):
                self._want(part.left, "symbol", part.name)
                self._want(part.right, "symbol", part.name)
            elif isinstance(part, Comparison):
                self._compare(part)

    def _expressions(self, atom: Atom) -> None:
        """Checks constants and expressions against the columns they are arguments for."""
        relation = self.relations[atom.relation]
        for position, argument in enumerate(atom.arguments):
            family = self.family(argument)
            if relation.schema is None or isinstance(argument, Variable | Wildcard):
                continue
            column = relation.schema.columns[position]
            spelling = relation.columns[position].spelling if relation.columns else str(column.type)
            if isinstance(argument, Number | Real | Text | Boolean):
                problem = unfit(argument, column.type, spelling)
            else:
                problem = _misplaced(argument, family, family_of_type(column.type))
            if problem is not None:
                fit = f"{argument} does not fit column {column.name} of {atom.relation}, which is {spelling}"
                raise self._error(f"{fit}: {problem.why}", problem.hint, argument)

    def family(self, term: Term) -> str | None:
        """The family of a term's value; checks its operands."""
        match term:
            case Unary():
                self._want(term.operand, "number", f"'{term.operator}'")
            case Binary():
                self._want(term.left, "number", f"'{term.operator}'")
                self._want(term.right, "number", f"'{term.operator}'")
            case Call() if term.function in FUNCTORS:
                functor = FUNCTORS[term.function]
                first = self.quiet(term) if functor.gives is None else None
                for position, argument in enumerate(term.arguments):
                    self._want(argument, functor.family_of(position) or first, term.function)
            case Call():
                for argument in term.arguments:
                    self.family(argument)
            case _:
                pass
        return self.quiet(term)

    def _want(self, term: Term, wanted: str | None, by: str) -> None:
        family = self.family(term)
        if wanted is not None and family is not None and family != wanted:
            raise self._error(
                f"{by} takes {_a(wanted)}, and {self._shown(term)} is {_a(family)}",
                f"use {'to_number' if wanted == 'number' else 'to_string'}({self._shown(term)})",
                term,
            )

    def _compare(self, part: Comparison) -> None:
        left, right = self.family(part.left), self.family(part.right)
        if left is None or right is None or left == right:
            return
        if {left, right} <= {"symbol", *_DATES} and isinstance(part.left if left == "symbol" else part.right, Text):
            return
        both = f"{self._shown(part.left)} is {_a(left)} and {self._shown(part.right)} {_a(right)}"
        raise self._error(
            f"{both}: they cannot be compared",
            "compare numbers with numbers and strings with strings; to_number and to_string are there",
            part,
        )

    def _shown(self, term: Term) -> str:
        return written(term) if isinstance(term, Variable) else str(term)

    def _error(self, message: str, hint: str, at: Term | Comparison) -> DatalogError:
        return DatalogError(message, detail=where(self.rule), hint=hint, place=at.place)


_COUNTING = ("count", "sum", "mean")


def _misplaced(term: Term, family: str | None, wanted: str) -> Unfit | None:
    if family is None or family == wanted:
        return None
    cast = {"number": f"use to_number({term})", "symbol": f"use to_string({term})"}
    return Unfit(f"it is {_a(family)}", cast.get(wanted, HINTS.get(wanted, HINTS["binary"])))


def _a(family: str) -> str:
    return f"an {family}" if family[0] in "aeiou" else f"a {family}"


def _bodies(body: NormalBody) -> Iterator[NormalBody]:
    yield body
    for aggregate in body.aggregates:
        yield from _bodies(aggregate.body)
