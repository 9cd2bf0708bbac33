"""Scalar expressions, aggregates and window functions as PostgreSQL text, and their types.

Only what is known to mean the same in Spark and in PostgreSQL is translated: what the tables at the end of this module
list. Everything else is refused.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from viewkeeper.algebra import expressions as e
from viewkeeper.algebra.expressions import Expression
from viewkeeper.algebra.types import Type
from viewkeeper.errors import NotMaintainable
from viewkeeper.triggers.postgres_types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    are_comparable,
    as_decimal,
    common,
    decimal,
    is_number,
    spelled,
    string,
)

ROW, GROUP, WINDOW = "row", "group", "window"
"""The context of an expression: whether it may call aggregates, or is a window function."""

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{1,6})?")
ONE = '"_vk_one"'
"""The function that returns the only element of an array, and raises if there are more."""


@dataclass(frozen=True)
class Term:
    """A piece of PostgreSQL text and its type: none for a NULL. `digits`: those of an integer constant."""

    sql: str
    type: Type | None
    digits: int = 0


class Scalars:
    """Prints expressions."""

    def __init__(self, where: str = ROW, over: str = "") -> None:
        """`over` is the OVER (...) of a window function."""
        self._where = where
        self._over = f" {over}" if over else ""

    def term(self, expression: Expression) -> Term:
        """The term of an expression."""
        return self._special(expression) or self._print(expression)

    def _special(self, node: Expression) -> Term | None:
        """The term of an aggregate that was translated for engines, if PostgreSQL has a function for it."""
        if self._where != GROUP:
            return None
        match node:
            case e.Arithmetic("/", total, e.Call("nullif")) if (found := _float_values(total)) is not None:
                value, distinct = found
                return Term(f"(sum({distinct}{value} ORDER BY {value}) / nullif(count({distinct}{value}), 0))", DOUBLE)
            case e.Case() if (found := _float_values(node)) is not None:
                value, distinct = found
                return Term(f"sum({distinct}{value} ORDER BY {value})", DOUBLE)
            case e.Case(((_, e.Cast(e.Call("raise_error"))),), e.Call("first", (e.Column(attribute),))):
                spelled(attribute.type)
                return Term(f"{ONE}(array_agg({attribute.label}))", attribute.type)
            case _:
                return None

    def _refuse(self, node: Expression, why: str, hint: str | None = None) -> NoReturn:
        raise NotMaintainable(f"{node}: {why}", hint=hint)

    def _print(self, node: Expression) -> Term:
        name = node.name if isinstance(node, e.Call) else "try_cast" if isinstance(node, e.Cast) and node.tries else ""
        if name.startswith("try_"):
            raise NotMaintainable(f"PostgreSQL has no function that means the same as {name}")
        if isinstance(node, e.Call):
            return self._call(node)
        how = _PRINTERS.get(type(node))
        if how is None:
            self._refuse(node, "PostgreSQL has no function that is known to mean the same")
        return how(self, node)

    def _call(self, node: e.Call) -> Term:
        entry = _CALLS.get(node.name)
        if entry is None:
            self._refuse(node, "PostgreSQL has no function that is known to mean the same")
        how, least, most = entry
        if not least <= len(node.arguments) <= most or (node.distinct and how not in _DISTINCT):
            self._refuse(node, "this form of it has no counterpart in PostgreSQL")
        if node.where is None:
            return how(self, node)
        if how not in _FILTERED:
            self._refuse(node, "FILTER on this aggregate has no counterpart here", "use CASE WHEN")
        around, self._over = self._over, f" FILTER (WHERE {self._truth(node.where)}){self._over}"
        try:
            return how(self, node)
        finally:
            self._over = around

    def _typed(self, node: Expression) -> tuple[str, Type]:
        term = self._print(node)
        if term.type is None:
            self._refuse(node, "a NULL without a type cannot stand here", "write for instance CAST(NULL AS INT)")
        return term.sql, term.type

    def _of(self, node: Expression, wanted: Callable[[Type], bool], what: str) -> tuple[str, Type]:
        text, kind = self._typed(node)
        if not wanted(kind):
            self._refuse(node, f"{what} is expected here, it is {kind}", "CAST it in the query")
        return text, kind

    def _truth(self, node: Expression) -> str:
        term = self._print(node)
        if term.type not in (None, BOOLEAN):
            self._refuse(node, f"a BOOLEAN is expected here, it is {term.type}")
        return term.sql

    # leaves ----------------------------------------------------------------------------------------

    def _column(self, node: e.Column) -> Term:
        spelled(node.type)
        return Term(node.of.label, node.type)

    def _literal(self, node: e.Literal) -> Term:
        kind, text = node.type, str(node.value)
        if node.value is None:
            return Term("NULL", None)
        if kind == BOOLEAN:
            return Term("true" if node.value else "false", BOOLEAN)
        if kind == STRING:
            return Term(f"CAST({string(text)} AS text)", STRING)
        if not is_number(kind) and not kind.is_float:
            return self._constant(node, text, kind)
        number = text.lstrip("-")
        if kind.is_integer:
            plain = number if kind == e.integer(int(text)).type else f"CAST({number} AS {spelled(kind)})"
            return _signed(Term(plain, kind, len(number.lstrip("0")) or 1), text)
        if kind.name == "decimal":
            return _signed(Term(number, kind), text)
        if kind == DOUBLE:
            return _signed(Term(f"CAST({number} AS double precision)", DOUBLE), text)
        return self._refuse(node, "this number cannot be written in PostgreSQL")

    # logic and comparison --------------------------------------------------------------------------

    def _connective(self, node: e.And | e.Or) -> Term:
        word = " AND " if isinstance(node, e.And) else " OR "
        return Term(f"({word.join(self._truth(part) for part in node.conditions)})", BOOLEAN)

    def _not(self, node: e.Not) -> Term:
        return Term(f"(NOT {self._truth(node.child)})", BOOLEAN)

    def _is_null(self, node: e.IsNull) -> Term:
        return Term(f"({self._print(node.child).sql} IS {'NOT ' if node.negated else ''}NULL)", BOOLEAN)

    def _comparison(self, node: e.Comparison) -> Term:
        operator = "IS NOT DISTINCT FROM" if node.operator == "<=>" else node.operator
        return Term(self._compared(node, node.left, operator, node.right), BOOLEAN)

    def _compared(self, node: Expression, left: Expression, operator: str, right: Expression) -> str:
        one, other = self._print(left), self._print(right)
        if one.type is not None and other.type is not None and not are_comparable(one.type, other.type):
            self._refuse(
                node, f"{one.type} and {other.type} are compared differently in PostgreSQL", "CAST one of them"
            )
        ordered = operator in ("<", "<=", ">", ">=")
        sides = [_in_order(term) if ordered else term.sql for term in (one, other)]
        return f"({sides[0]} {operator} {sides[1]})"

    def _between(self, node: e.Between) -> Term:
        low = self._compared(node, node.child, ">=", node.low)
        return Term(f"({low} AND {self._compared(node, node.child, '<=', node.high)})", BOOLEAN)

    def _in(self, node: e.In) -> Term:
        tests = " OR ".join(self._compared(node, node.child, "=", value) for value in node.options)
        return Term(f"({tests})", BOOLEAN)

    def _like(self, node: e.Call) -> Term:
        value, _ = self._of(node.arguments[0], _is_string, "a STRING")
        pattern = node.arguments[1]
        if not isinstance(pattern, e.Literal) or pattern.type != STRING or "\\" in str(pattern.value):
            self._refuse(node, "the pattern must be a constant without \\")
        return Term(f"({value} LIKE {string(str(pattern.value))})", BOOLEAN)

    # choices ---------------------------------------------------------------------------------------

    def _case(self, node: e.Case) -> Term:
        terms, kind = self._united(node, node.values)
        texts = [f"WHEN {self._truth(test)} THEN {term}" for (test, _), term in zip(node.branches, terms, strict=False)]
        if node.default is not None:
            texts.append(f"ELSE {terms[-1]}")
        return Term(f"CASE {' '.join(texts)} END", kind)

    def _if(self, node: e.Call) -> Term:
        test, *values = node.arguments
        terms, kind = self._united(node, values)
        rest = f" ELSE {terms[1]}" if len(terms) > 1 else ""
        return Term(f"CASE WHEN {self._truth(test)} THEN {terms[0]}{rest} END", kind)

    def _coalesce(self, node: e.Call) -> Term:
        terms, kind = self._united(node, node.arguments)
        return Term(f"coalesce({', '.join(terms)})", kind)

    def _nullif(self, node: e.Call) -> Term:
        one, other = node.arguments
        text, kind = self._typed(one)
        return Term(f"CASE WHEN {self._compared(node, one, '=', other)} THEN NULL ELSE {text} END", kind)

    def _extreme(self, node: e.Call) -> Term:
        terms, kind = self._united(node, node.arguments)
        name = node.name
        if kind is not None and kind.name == "string":
            ordered = [f'{term} COLLATE "C"' for term in terms]
            return Term(f'({name}({", ".join(ordered)}) COLLATE "default")', kind)
        return Term(f"{name}({', '.join(terms)})", kind)

    def _united(self, node: Expression, values: Sequence[Expression]) -> tuple[list[str], Type | None]:
        """Values cast to their common type, and that type."""
        terms = [self._print(value) for value in values]
        kind: Type | None = None
        for term in terms:
            if term.type is None:
                continue
            joint = common(kind, term.type) if kind is not None else term.type
            if joint is None:
                self._refuse(node, f"{kind} and {term.type} have no type in common that PostgreSQL would choose too")
            kind = joint
        if kind is None:
            return [term.sql for term in terms], None
        return [term.sql if term.type == kind else f"CAST({term.sql} AS {spelled(kind)})" for term in terms], kind

    # numbers ---------------------------------------------------------------------------------------

    def _arithmetic(self, node: e.Arithmetic) -> Term:
        match node.operator:
            case "/":
                return self._quotient(node)
            case "%":
                return self._rest(node)
            case "div":
                self._refuse(node, "PostgreSQL has no function that is known to mean the same")
        operator = node.operator
        one, other = self._print(node.left), self._print(node.right)
        kinds = self._numbers(node, one, other)
        text = f"({one.sql} {operator} {other.sql})"
        if kinds[0].is_float or kinds[1].is_float:
            parts = [t.sql if k.is_float else _as_double(t.sql) for t, k in zip((one, other), kinds, strict=True)]
            return Term(f"({parts[0]} {operator} {parts[1]})", kinds[0] if kinds[0] == kinds[1] else DOUBLE)
        if kinds[0].is_integer and kinds[1].is_integer:
            return Term(text, common(*kinds))
        left, right = _exact(one, kinds[0]), _exact(other, kinds[1])
        if operator == "*":
            kind = decimal(left.precision + right.precision + 1, left.scale + right.scale)
        else:
            scale = max(left.scale, right.scale)
            kind = decimal(max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale)
        if kind is None:
            self._refuse(node, "the result has more than 38 digits, and Spark would round it", "CAST to fewer digits")
        return Term(text, kind)

    def _numbers(self, node: Expression, *terms: Term) -> list[Type]:
        kinds = []
        for term in terms:
            if term.type is None or not (is_number(term.type) or term.type.is_float):
                self._refuse(node, f"numbers are expected here, not {term.type or 'NULL'}", "CAST it in the query")
            kinds.append(term.type)
        if any(kind.name == "tinyint" for kind in kinds):
            self._refuse(node, "a TINYINT is a SMALLINT in PostgreSQL, and overflows later", "CAST it to INT")
        if any(kind.name == "float" for kind in kinds) and len({kind.name for kind in kinds}) > 1:
            self._refuse(node, "FLOAT is widened differently in PostgreSQL", "CAST it to DOUBLE")
        return kinds

    def _quotient(self, node: e.Arithmetic) -> Term:
        one, other = self._print(node.left), self._print(node.right)
        kinds = self._numbers(node, one, other)
        if any(kind.name == "decimal" for kind in kinds) and not any(kind.name == "double" for kind in kinds):
            self._refuse(node, "a quotient of DECIMALs has other digits in PostgreSQL", "CAST them to DOUBLE")
        if kinds[0].name == "float":
            self._refuse(node, "a quotient of FLOATs has other digits in PostgreSQL", "CAST them to DOUBLE")
        return Term(f"({_as_double(one.sql)} / {_as_double(other.sql)})", DOUBLE)

    def _rest(self, node: e.Arithmetic) -> Term:
        one, other = self._print(node.left), self._print(node.right)
        kinds = self._numbers(node, one, other)
        if not all(kind.is_integer for kind in kinds):
            self._refuse(node, "only remainders of integers are the same in PostgreSQL")
        return Term(f"({one.sql} % {other.sql})", common(*kinds))

    def _negative(self, node: e.Negative) -> Term:
        term = self._print(node.child)
        kinds = self._numbers(node, term)
        return Term(f"(-{term.sql})", kinds[0], term.digits)

    def _absolute(self, node: e.Call) -> Term:
        term = self._print(node.arguments[0])
        return Term(f"abs({term.sql})", self._numbers(node, term)[0])

    # strings and dates -----------------------------------------------------------------------------

    def _concatenated(self, node: e.Call) -> Term:
        texts = [self._of(part, _is_string, "a STRING")[0] for part in node.arguments]
        return Term(f"({' || '.join(texts)})", STRING)

    def _string_function(self, node: e.Call) -> Term:
        name = {"trim": "btrim", "replace": "replace"}.get(node.name, "char_length")
        if name == "replace" and len(node.arguments) == 2:
            self._refuse(node, "PostgreSQL asks for what to replace it with", "add ''")
        texts = [self._of(part, _is_string, "a STRING")[0] for part in node.arguments]
        return Term(f"{name}({', '.join(texts)})", INT if name == "char_length" else STRING)

    def _substring(self, node: e.Call) -> Term:
        value, _ = self._of(node.arguments[0], _is_string, "a STRING")
        numbers = [_whole(place) for place in node.arguments[1:]]
        if None in numbers or numbers[0] == 0:
            self._refuse(node, "positions must be constants here, and the first is 1")
        return Term(f"substr({value}, {', '.join(map(str, numbers))})", STRING)

    def _part_of_date(self, node: e.Call) -> Term:
        value, _ = self._of(node.arguments[0], lambda kind: kind.name == "date", "a DATE")
        part = "day" if node.name == "dayofmonth" else node.name
        return Term(f"CAST(extract({part} FROM {value}) AS integer)", INT)

    def _days_later(self, node: e.Call) -> Term:
        value, _ = self._of(node.arguments[0], lambda kind: kind.name == "date", "a DATE")
        days, _ = self._of(node.arguments[1], lambda kind: kind.name in ("smallint", "int"), "an INT")
        return Term(f"({value} {'-' if node.name == 'date_sub' else '+'} {days})", Type("date"))

    # casts -----------------------------------------------------------------------------------------

    def _cast(self, node: e.Cast) -> Term:
        if node.implicit:
            return self._print(node.child)
        wanted, inside = node.type, node.child
        name = spelled(wanted)
        if isinstance(inside, e.Literal) and inside.type == STRING:
            return self._constant(node, str(inside.value), wanted)
        if isinstance(inside, e.Arithmetic) and (average := self._average(inside, wanted)):
            return average
        term = self._print(inside)
        if isinstance(inside, e.Literal) and inside.value is not None:
            small = wanted.name == "tinyint" and 0 < term.digits <= 2
            if term.type is None or not (small or _casts_alike(term.type, wanted)):
                self._refuse(node, f"a cast of {term.type} to {wanted} differs in PostgreSQL")
            return Term(f"CAST({term.sql} AS {name})", wanted)
        if term.type is not None and not _casts_alike(term.type, wanted):
            self._refuse(node, f"a cast of {term.type} to {wanted} differs in PostgreSQL")
        return Term(term.sql if term.type == wanted else f"CAST({term.sql} AS {name})", wanted)

    def _constant(self, node: Expression, text: str, wanted: Type) -> Term:
        pattern = {"date": _DATE, "timestamp_ntz": _MOMENT, "string": re.compile(".*", re.DOTALL)}.get(wanted.name)
        if wanted.name == "decimal":
            pattern = re.compile(rf"\d+(\.\d{{1,{wanted.scale}}})?")
        if pattern is None or not pattern.fullmatch(text) or not _is_moment(text, wanted):
            why = "depends on the time zone" if wanted.name == "timestamp" else "cannot be written in PostgreSQL"
            hint = "use TIMESTAMP_NTZ" if wanted.name == "timestamp" else None
            self._refuse(node, f"this constant {why}", hint)
        return Term(f"CAST({string(text)} AS {spelled(wanted)})", wanted)

    def _average(self, node: e.Arithmetic, wanted: Type) -> Term | None:
        """A sum divided by a count: with five more digits than the result has, it is rounded as in Spark."""
        if wanted.name != "decimal" or node.operator != "/":
            return None
        one, other = self._print(node.left), self._print(node.right)
        if one.type is None or other.type is None or one.type.name != "decimal":
            return None
        if one.type.scale < wanted.scale + 5 or other.type != Type("decimal", 12, 0):
            return None
        return Term(f"CAST({one.sql} / {other.sql} AS {spelled(wanted)})", wanted)

    # aggregates and window functions ----------------------------------------------------------------

    def _called(self, node: Expression, text: str) -> str:
        """An aggregate with its OVER."""
        if self._where == ROW:
            self._refuse(node, "an aggregate cannot stand here")
        return text + self._over

    def _arguments(self, node: e.Call) -> str:
        if node.distinct and self._where == WINDOW:
            self._refuse(node, "PostgreSQL has no DISTINCT in window functions")
        return "DISTINCT " if node.distinct else ""

    def _count(self, node: e.Call) -> Term:
        distinct = self._arguments(node)
        if not distinct and len(node.arguments) == 1 and isinstance(node.arguments[0], e.Literal):
            return Term(self._called(node, "count(*)"), BIGINT)
        texts = [self._print(value).sql for value in node.arguments]
        if len(texts) == 1:
            return Term(self._called(node, f"count({distinct}{texts[0]})"), BIGINT)
        if not distinct or self._over:
            self._refuse(node, "count of several values has no counterpart in PostgreSQL")
        there = " AND ".join(f"{text} IS NOT NULL" for text in texts)
        return Term(self._called(node, f"count(DISTINCT ({', '.join(texts)})) FILTER (WHERE {there})"), BIGINT)

    def _count_if(self, node: e.Call) -> Term:
        return Term(self._called(node, f"count(*) FILTER (WHERE {self._truth(node.arguments[0])})"), BIGINT)

    def _total(self, node: e.Call) -> Term:
        distinct = self._arguments(node)
        text, kind = self._typed(node.arguments[0])
        if not (kind.is_integer or kind.name == "decimal"):
            self._refuse(node, f"a sum of {kind} depends on the order of rows here", "CAST it to DECIMAL")
        wanted = BIGINT if kind.is_integer else Type("decimal", min(38, kind.precision + 10), kind.scale)
        return Term(f"CAST({self._called(node, f'sum({distinct}{text})')} AS {spelled(wanted)})", wanted)

    def _mean(self, node: e.Call) -> Term:
        distinct = self._arguments(node)
        text, kind = self._typed(node.arguments[0])
        if not kind.is_integer:
            self._refuse(node, f"an average of {kind} has other digits in PostgreSQL here", "CAST it to BIGINT")
        total, count = (self._called(node, f"{name}({distinct}{text})") for name in ("sum", "count"))
        return Term(f"({_as_double(total)} / nullif({count}, 0))", DOUBLE)

    def _least_or_most(self, node: e.Call) -> Term:
        text, kind = self._typed(node.arguments[0])
        return Term(extremum(_EXTREMA[node.name], text, kind, self._called(node, "")), kind)

    def _middle(self, node: e.Call) -> Term:
        if self._where != GROUP:
            self._refuse(node, "PostgreSQL has it for groups only")
        text, kind = self._typed(node.arguments[0])
        share = node.arguments[1] if len(node.arguments) > 1 else e.Literal("0.5", Type("decimal", 1, 1))
        part = str(share.value) if isinstance(share, e.Literal) else ""
        if not re.fullmatch(r"0(\.\d+)?|1|1\.0", part) or not is_number(kind):
            self._refuse(node, "a number and a constant part from 0 to 1 are expected here")
        order = f"WITHIN GROUP (ORDER BY {_as_double(text)})"
        return Term(self._called(node, f"percentile_cont({part}) {order}"), DOUBLE)

    def _spread(self, node: e.Call) -> Term:
        text, kind = self._typed(node.arguments[0])
        if not (kind.is_integer or kind.name == "decimal"):
            self._refuse(node, f"it depends on the order of rows for {kind}", "CAST it to DECIMAL")
        return Term(_as_double(self._called(node, f"{_SPREADS[node.name]}({text})")), DOUBLE)

    def _ranking(self, node: e.Call) -> Term:
        if self._where != WINDOW:
            self._refuse(node, "a window function cannot stand here")
        if node.name in ("percent_rank", "cume_dist"):
            return Term(f"{node.name}(){self._over}", DOUBLE)
        argument = ""
        if node.name == "ntile":
            count = _whole(node.arguments[0]) if node.arguments else None
            if not count:
                self._refuse(node, "a constant is expected here")
            argument = str(count)
        return Term(f"CAST({node.name}({argument}){self._over} AS integer)", INT)

    def _neighbor(self, node: e.Call) -> Term:
        """lag, lead, first_value, last_value, nth_value."""
        if self._where != WINDOW:
            self._refuse(node, "a window function cannot stand here")
        value, kind = self._typed(node.arguments[0])
        arguments = [value]
        if len(node.arguments) > 1:
            offset = _whole(node.arguments[1])
            if offset is None:
                self._refuse(node, "a constant is expected here")
            arguments.append(str(offset))
        if len(node.arguments) > 2:
            other = self._print(node.arguments[2])
            if other.type is not None and not (other.type == kind or (kind.is_integer and other.type == INT)):
                self._refuse(node, f"a {kind} is expected as its last argument")
            arguments.append(f"CAST({other.sql} AS {spelled(kind)})")
        return Term(f"{_NEIGHBORS[node.name]}({', '.join(arguments)}){self._over}", kind)

    def _window(self, node: e.Over) -> Term:
        """A window function with its OVER, of which only the type is used."""
        return Scalars(WINDOW, "OVER ()")._print(node.call)


def _float_values(node: Expression) -> tuple[str, str] | None:
    """The value of a sum of floats in the order of their values, and DISTINCT if it has each of them once."""
    match node:
        case e.Case(((_, e.Call("aggregate", (e.Call("array_sort", (e.Call() as all_values,)), *_))),)):
            match all_values:
                case e.Call("collect_list" | "collect_set" as kind, (e.Cast(e.Column(attribute)),)):
                    value = f"CAST({attribute.label} AS double precision)"
                    return value, "DISTINCT " if kind == "collect_set" else ""
    return None


def _signed(term: Term, text: str) -> Term:
    return Term(f"(-{term.sql})", term.type, term.digits) if text.startswith("-") else term


def _whole(node: Expression) -> int | None:
    """The value of a constant without a sign."""
    value = node.value if isinstance(node, e.Literal) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def text_of(expression: Expression, where: str = ROW, over: str = "") -> str:
    """An expression as PostgreSQL text."""
    return Scalars(where, over).term(expression).sql


def condition_of(expression: Expression) -> str:
    """A condition as PostgreSQL text."""
    term = Scalars().term(expression)
    if term.type not in (None, BOOLEAN):
        raise NotMaintainable(f"{expression} is no condition: it is {term.type}")
    return term.sql


def extremum(function: str, text: str, kind: Type, behind: str = "") -> str:
    """min or max. Strings are compared by their bytes, as Spark does."""
    if kind.name == "boolean":
        return f"{'bool_and' if function == 'min' else 'bool_or'}({text}){behind}"
    if kind.name == "string":
        return f'({function}({text} COLLATE "C"){behind} COLLATE "default")'
    if kind.name == "binary":
        raise NotMaintainable(f"PostgreSQL has no {function} of BINARY")
    return f"{function}({text}){behind}"


class PostgresTyper:
    """Finds the types of expressions in PostgreSQL; refuses what cannot be printed, with its position."""

    coerces = True

    def columns(self, items: Sequence[Expression]) -> list[tuple[str, str]]:
        """Names and types of `SELECT items FROM (typed NULLs as their attributes)`."""
        kinds = [Scalars(GROUP).term(item).type for item in items]
        return [("", kind.ddl if kind is not None else "void") for kind in kinds]


def _in_order(term: Term) -> str:
    return f'{term.sql} COLLATE "C"' if term.type is not None and term.type.name == "string" else term.sql


def _is_moment(text: str, kind: Type) -> bool:
    """Whether a text is a valid date or timestamp, if `kind` is one."""
    if kind.name not in ("date", "timestamp_ntz"):
        return True
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _as_double(text: str) -> str:
    return f"CAST({text} AS double precision)"


def _exact(term: Term, kind: Type) -> Type:
    return Type("decimal", term.digits, 0) if term.digits else as_decimal(kind)


def _is_string(kind: Type) -> bool:
    return kind.name == "string"


def _casts_alike(kind: Type, wanted: Type) -> bool:
    """Whether a cast returns the same in both systems, or fails in both."""
    if kind.name == wanted.name:
        return True
    if wanted.name == "tinyint":
        return False
    if kind.is_integer:
        return wanted.is_integer or wanted.name in ("decimal", "double", "string")
    if kind.name == "decimal":
        return wanted.name == "double" or (wanted.is_integer and kind.scale == 0)
    if kind.name == "boolean":
        return wanted.name in ("int", "string")
    return kind.name == "float" and wanted.name == "double"


_EXTREMA = {
    **{"min": "min", "max": "max"},
    **dict.fromkeys(("bool_and", "every"), "min"),
    **dict.fromkeys(("bool_or", "any", "some"), "max"),
}
_SPREADS = {
    **dict.fromkeys(("stddev", "stddev_samp", "std"), "stddev_samp"),
    "stddev_pop": "stddev_pop",
    **dict.fromkeys(("variance", "var_samp"), "var_samp"),
    "var_pop": "var_pop",
}
_NEIGHBORS = {
    **{name: name for name in ("lag", "lead", "first_value", "last_value", "nth_value")},
    **{"first": "first_value", "last": "last_value"},
}

_MANY = 1_000
_Printer = Callable[[Scalars, Any], Term]
_CALLS: dict[str, tuple[_Printer, int, int]] = {
    "like": (Scalars._like, 2, 2),
    **dict.fromkeys(("if", "iff"), (Scalars._if, 2, 3)),
    **dict.fromkeys(("coalesce", "ifnull", "nvl"), (Scalars._coalesce, 1, _MANY)),
    "nullif": (Scalars._nullif, 2, 2),
    **dict.fromkeys(("greatest", "least"), (Scalars._extreme, 1, _MANY)),
    "abs": (Scalars._absolute, 1, 1),
    "concat": (Scalars._concatenated, 1, _MANY),
    **dict.fromkeys(("length", "char_length", "character_length", "len", "trim"), (Scalars._string_function, 1, 1)),
    "replace": (Scalars._string_function, 2, 3),
    **dict.fromkeys(("substring", "substr"), (Scalars._substring, 2, 3)),
    **dict.fromkeys(("year", "month", "day", "dayofmonth"), (Scalars._part_of_date, 1, 1)),
    **dict.fromkeys(("date_add", "date_sub"), (Scalars._days_later, 2, 2)),
    "count": (Scalars._count, 1, _MANY),
    "count_if": (Scalars._count_if, 1, 1),
    "sum": (Scalars._total, 1, 1),
    **dict.fromkeys(("avg", "mean"), (Scalars._mean, 1, 1)),
    **dict.fromkeys(_EXTREMA, (Scalars._least_or_most, 1, 1)),
    "percentile": (Scalars._middle, 2, 2),
    "median": (Scalars._middle, 1, 1),
    **dict.fromkeys(_SPREADS, (Scalars._spread, 1, 1)),
    **dict.fromkeys(("row_number", "rank", "dense_rank", "percent_rank", "cume_dist"), (Scalars._ranking, 0, 0)),
    "ntile": (Scalars._ranking, 0, 1),
    **dict.fromkeys(_NEIGHBORS, (Scalars._neighbor, 1, 3)),
}
"""How each function is printed, and with how many arguments; any other is refused."""

_DISTINCT = (Scalars._count, Scalars._total, Scalars._mean)
_FILTERED = (Scalars._count, Scalars._middle)

_PRINTERS: dict[type[Expression], _Printer] = {
    e.Column: Scalars._column,
    e.Literal: Scalars._literal,
    e.And: Scalars._connective,
    e.Or: Scalars._connective,
    e.Not: Scalars._not,
    e.IsNull: Scalars._is_null,
    e.Comparison: Scalars._comparison,
    e.Between: Scalars._between,
    e.In: Scalars._in,
    e.Case: Scalars._case,
    e.Arithmetic: Scalars._arithmetic,
    e.Negative: Scalars._negative,
    e.Cast: Scalars._cast,
    e.Over: Scalars._window,
}
"""How each other kind of node is printed; any other is refused."""
