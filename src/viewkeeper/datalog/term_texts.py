"""Terms as SQL with their types: constants, arithmetic and functors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewkeeper.algebra.types import Type, parse_type
from viewkeeper.datalog.terms import (
    Aggregate,
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
from viewkeeper.errors import DatalogError

WHOLE, REAL, TEXT, TRUTH = Type("bigint"), Type("double"), Type("string"), Type("boolean")

_SIGNS = {"+": "+", "-": "-", "*": "*", "/": "/", "%": "%", "band": "&", "bor": "|", "bxor": "^"}
_SHIFTS = {"bshl": "shiftleft", "bshr": "shiftright"}
_BITS = ("band", "bor", "bxor", *_SHIFTS)


@dataclass(frozen=True)
class Value:
    """A term in SQL, its type, and whether it can be NULL."""

    sql: str
    type: Type
    nullable: bool = True


def text_literal(value: str) -> str:
    """A string as SQL writes it, the same in every engine."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


class Values:
    """Writes the terms of one rule as SQL. `known` has the variables that are bound so far."""

    def __init__(self, known: dict[str, Value], functions: Mapping[str, str]) -> None:
        """`functions` are the user's own, with the types they return."""
        self.known = known
        self.functions = functions

    def is_known(self, term: Term) -> bool:
        """Whether all variables of a term are bound."""
        match term:
            case Variable():
                return term.name in self.known
            case Wildcard() | Aggregate():
                return False
            case Unary():
                return self.is_known(term.operand)
            case Binary():
                return self.is_known(term.left) and self.is_known(term.right)
            case Call():
                return all(map(self.is_known, term.arguments))
            case _:
                return True

    def of(self, term: Term, wanted: Type | None = None) -> Value:
        """A term as SQL. A constant without a type of its own takes the wanted one."""
        match term:
            case Variable():
                return self.known[term.name]
            case Number() | Real() if wanted is not None and wanted.name == "decimal":
                return Value(f"CAST({term} AS {wanted.ddl})", wanted, nullable=False)
            case Number() if wanted is not None and wanted.is_float:
                return Value(f"CAST({term} AS DOUBLE)", REAL, nullable=False)
            case Number():
                return Value(f"CAST({term} AS BIGINT)", WHOLE, nullable=False)
            case Real():
                return Value(f"CAST({term} AS DOUBLE)", REAL, nullable=False)
            case Text() if wanted is not None and wanted.name in ("date", "timestamp", "timestamp_ntz"):
                return Value(f"CAST({text_literal(term.value)} AS {wanted.ddl})", wanted, nullable=False)
            case Text():
                return Value(text_literal(term.value), TEXT, nullable=False)
            case Boolean():
                return Value(str(term.value).lower(), TRUTH, nullable=False)
            case Unary():
                return self._unary(term)
            case Binary():
                return self._binary(term)
            case Call():
                return self._call(term)
            case _:
                raise AssertionError(f"{term} stands where a value does")

    def _unary(self, term: Unary) -> Value:
        value = self.of(term.operand)
        sign = "-" if term.operator == "-" else "~"
        return Value(f"({sign}{_wide(value)})", WHOLE if value.type.is_integer else value.type, value.nullable)

    def _binary(self, term: Binary) -> Value:
        left, right = self.of(term.left), self.of(term.right)
        kind = together(left.type, right.type)
        nullable = left.nullable or right.nullable
        one, other = _as(left, kind), _as(right, kind)
        if term.operator in _BITS and not kind.is_integer:
            raise DatalogError(
                f"{term.operator} takes whole numbers", hint="use to_number", place=term.place, detail=f"in {term}"
            )
        if term.operator in _SHIFTS:
            return Value(f"{_SHIFTS[term.operator]}({one}, CAST({other} AS INT))", kind, nullable)
        if term.operator == "^":
            power = f"power(CAST({one} AS DOUBLE), CAST({other} AS DOUBLE))"
            return Value(f"CAST({power} AS {kind.ddl})" if kind.is_integer else power, kind, nullable)
        if term.operator == "/" and kind.is_integer:
            return Value(f"({one} div {other})", kind, nullable=True)
        return Value(f"({one} {_SIGNS[term.operator]} {other})", kind, nullable)

    def _call(self, term: Call) -> Value:
        values = [self.of(argument) for argument in term.arguments]
        listed = ", ".join(value.sql for value in values)
        match term.function:
            case "cat":
                return Value(f"concat({listed})", TEXT)
            case "strlen":
                return Value(f"CAST(length({listed}) AS BIGINT)", WHOLE)
            case "substr":  # Souffle counts from 0
                text, start, length = (value.sql for value in values)
                return Value(f"substring({text}, CAST({start} + 1 AS INT), CAST({length} AS INT))", TEXT)
            case "to_number":
                return Value(f"CAST({listed} AS BIGINT)", WHOLE)
            case "to_string":
                return Value(f"CAST({listed} AS STRING)", TEXT)
            case "to_float":
                return Value(f"CAST({listed} AS DOUBLE)", REAL)
            case "min" | "max":
                kind = values[0].type
                for value in values[1:]:
                    kind = together(kind, value.type)
                function = "least" if term.function == "min" else "greatest"
                return Value(f"{function}({', '.join(_as(value, kind) for value in values)})", kind)
            case "ord":
                raise DatalogError(
                    "ord is not supported: its value depends on the order in which strings are seen first",
                    hint="compare the strings themselves",
                    place=term.place,
                )
            case _:
                name = term.function.removeprefix("@")
                return Value(f"{name}({listed})", parse_type(self.functions[name]))


def together(left: Type, right: Type) -> Type:
    """The type of an operator's result from its two operands."""
    if left.is_integer and right.is_integer:
        return WHOLE
    if left.is_float or right.is_float:
        return REAL
    if left.name == "decimal" or right.name == "decimal":
        scale = max(_scale(left), _scale(right))
        return Type("decimal", precision=38, scale=scale)
    return left


def _scale(kind: Type) -> int:
    return kind.scale if kind.name == "decimal" else 0


def _wide(value: Value) -> str:
    return _as(value, WHOLE) if value.type.is_integer else value.sql


def _as(value: Value, kind: Type) -> str:
    return value.sql if value.type.ddl == kind.ddl else f"CAST({value.sql} AS {kind.ddl})"
