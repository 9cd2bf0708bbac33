"""Scalar expressions, aggregates and window functions as PostgreSQL text, and their types.

Only what is known to mean the same in Spark and in PostgreSQL is translated: what the tables at the end of this module
list. Everything else is refused.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from viewkeeper.algebra.expressions import Attribute, Expression
from viewkeeper.algebra.types import Type, parse_type
from viewkeeper.errors import NotMaintainable
from viewkeeper.sql.conditions import put_together
from viewkeeper.sql.dialect import COMPARISONS
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
_TRIED = re.compile(r"\btry_\w+", re.IGNORECASE)
_FLOAT_SUM = re.compile(
    r"CASE WHEN count\((?P<value>c\d+)\) > 0 THEN aggregate\(array_sort\(collect_(?P<kind>list|set)"
    r"\(CAST\((?P=value) AS DOUBLE\)\)\), CAST\(0 AS DOUBLE\), \(a, b\) -> a \+ b\) END"
)
_FLOAT_AVERAGE = re.compile(
    rf"\({_FLOAT_SUM.pattern}\) / nullif\(CAST\(count\((DISTINCT )?(?P=value)\) AS DOUBLE\), 0D\)"
)
_SINGLE = re.compile(
    r"CASE WHEN count\(1\) > 1 THEN CAST\(raise_error\('a scalar subquery gave more than one row'\) AS .*\) "
    r"ELSE first\((?P<value>c\d+)\) END"
)
ONE = '"_vk_one"'
"""The function that returns the only element of an array, and raises if there are more."""


@dataclass(frozen=True)
class Term:
    """A piece of PostgreSQL text and its type: none for a NULL. `digits`: those of an integer constant."""

    sql: str
    type: Type | None
    digits: int = 0


class Scalars:
    """Prints expressions over some columns."""

    def __init__(self, attributes: Iterable[Attribute], where: str = ROW, over: str = "") -> None:
        """`over` is the OVER (...) of a window function."""
        self._columns = {attribute.label: attribute for attribute in attributes}
        self._where = where
        self._over = f" {over}" if over else ""

    def term(self, text: str) -> Term:
        """The term of an expression in Spark SQL."""
        special = self._special(text)
        if special is not None:
            return special
        try:
            tree = sqlglot.parse_one(text, read="spark")
        except SqlglotError:
            raise NotMaintainable(f"{self._in_names(text)} cannot be written in PostgreSQL") from None
        if found := _TRIED.search(re.sub(r"'([^'\\]|\\.)*'", "''", text)):
            raise NotMaintainable(f"PostgreSQL has no function that means the same as {found.group()}")
        return self._print(tree)

    def _special(self, text: str) -> Term | None:
        """The term of an aggregate that was translated for engines, if PostgreSQL has a function for it."""
        if self._where != GROUP:
            return None
        if found := _FLOAT_AVERAGE.fullmatch(text):
            value, distinct = self._float_values(found)
            return Term(f"(sum({distinct}{value} ORDER BY {value}) / nullif(count({distinct}{value}), 0))", DOUBLE)
        if found := _FLOAT_SUM.fullmatch(text):
            value, distinct = self._float_values(found)
            return Term(f"sum({distinct}{value} ORDER BY {value})", DOUBLE)
        if found := _SINGLE.fullmatch(text):
            column = self._columns[found["value"]]
            spelled(column.type)
            return Term(f"{ONE}(array_agg({column.label}))", column.type)
        return None

    def _float_values(self, found: re.Match[str]) -> tuple[str, str]:
        return f"CAST({found['value']} AS double precision)", "DISTINCT " if found["kind"] == "set" else ""

    def _in_names(self, text: str) -> str:
        return re.sub(r"\bc\d+\b", lambda m: self._columns[m[0]].name if m[0] in self._columns else m[0], text)

    def _refuse(self, node: exp.Expr, why: str, hint: str | None = None) -> NoReturn:
        raise NotMaintainable(f"{self._in_names(node.sql(dialect='spark'))}: {why}", hint=hint)

    def _print(self, node: exp.Expr) -> Term:
        entry = _PRINTERS.get(type(node))
        if entry is None:
            self._refuse(node, "PostgreSQL has no function that is known to mean the same")
        print_it, known = entry
        strange = [name for name, value in node.args.items() if value not in (None, False, []) and name not in known]
        if strange:
            self._refuse(node, "this form of it has no counterpart in PostgreSQL")
        return print_it(self, node)

    def _typed(self, node: exp.Expr) -> tuple[str, Type]:
        term = self._print(node)
        if term.type is None:
            self._refuse(node, "a NULL without a type cannot stand here", "write for instance CAST(NULL AS INT)")
        return term.sql, term.type

    def _of(self, node: exp.Expr, wanted: Callable[[Type], bool], what: str) -> tuple[str, Type]:
        text, kind = self._typed(node)
        if not wanted(kind):
            self._refuse(node, f"{what} is expected here, it is {kind}", "CAST it in the query")
        return text, kind

    def _truth(self, node: exp.Expr) -> str:
        term = self._print(node)
        if term.type not in (None, BOOLEAN):
            self._refuse(node, f"a BOOLEAN is expected here, it is {term.type}")
        return term.sql

    # leaves ----------------------------------------------------------------------------------------

    def _column(self, node: exp.Column) -> Term:
        attribute = self._columns[node.name]
        spelled(attribute.type)
        return Term(attribute.label, attribute.type)

    def _literal(self, node: exp.Literal) -> Term:
        if node.is_string:
            return Term(f"CAST({string(node.this)} AS text)", STRING)
        text = node.this
        if re.fullmatch(r"\d+", text):
            if int(text) >= 2**63:
                self._refuse(node, "this number is too large")
            return Term(text, INT if int(text) < 2**31 else BIGINT, len(text.lstrip("0")) or 1)
        if found := re.fullmatch(r"(\d*)\.(\d*)", text):
            scale = len(found[2])
            kind = decimal(max(len(found[1].lstrip("0")) + scale, 1), scale)
            if kind is not None:
                return Term(text, kind)
        elif re.fullmatch(r"(\d+\.?\d*|\.\d+)[eE][+-]?\d+", text):
            return Term(f"CAST({text} AS double precision)", DOUBLE)
        return self._refuse(node, "this number cannot be written in PostgreSQL")

    def _boolean(self, node: exp.Boolean) -> Term:
        return Term("true" if node.this else "false", BOOLEAN)

    def _null(self, node: exp.Null) -> Term:
        return Term("NULL", None)

    def _paren(self, node: exp.Paren) -> Term:
        return self._print(node.this)

    # logic and comparison --------------------------------------------------------------------------

    def _connective(self, node: exp.Connector) -> Term:
        kind, word = (exp.And, "AND") if isinstance(node, exp.And) else (exp.Or, "OR")
        return Term(f"({f' {word} '.join(self._truth(part) for part in put_together(node, kind))})", BOOLEAN)

    def _not(self, node: exp.Not) -> Term:
        return Term(f"(NOT {self._truth(node.this)})", BOOLEAN)

    def _is(self, node: exp.Is) -> Term:
        word = "IS NOT" if node.args.get("negate") else "IS"
        if isinstance(node.expression, exp.Null):
            return Term(f"({self._print(node.this).sql} {word} NULL)", BOOLEAN)
        if isinstance(node.expression, exp.Boolean):
            return Term(f"({self._truth(node.this)} {word} {self._boolean(node.expression).sql})", BOOLEAN)
        return self._refuse(node, "PostgreSQL has no such test")

    def _comparison(self, node: exp.Expr) -> Term:
        operator = _COMPARISONS[type(node)]
        return Term(self._compared(node, node.this, operator, node.expression), BOOLEAN)

    def _compared(self, node: exp.Expr, left: exp.Expr, operator: str, right: exp.Expr) -> str:
        one, other = self._print(left), self._print(right)
        if one.type is not None and other.type is not None and not are_comparable(one.type, other.type):
            self._refuse(
                node, f"{one.type} and {other.type} are compared differently in PostgreSQL", "CAST one of them"
            )
        ordered = operator in ("<", "<=", ">", ">=")
        sides = [_in_order(term) if ordered else term.sql for term in (one, other)]
        return f"({sides[0]} {operator} {sides[1]})"

    def _between(self, node: exp.Between) -> Term:
        low = self._compared(node, node.this, ">=", node.args["low"])
        return Term(f"({low} AND {self._compared(node, node.this, '<=', node.args['high'])})", BOOLEAN)

    def _in(self, node: exp.In) -> Term:
        tests = " OR ".join(self._compared(node, node.this, "=", value) for value in node.expressions)
        return Term(f"({tests})", BOOLEAN)

    def _like(self, node: exp.Like) -> Term:
        value, _ = self._of(node.this, _is_string, "a STRING")
        pattern = node.expression
        if not (isinstance(pattern, exp.Literal) and pattern.is_string) or "\\" in pattern.this:
            self._refuse(node, "the pattern must be a constant without \\")
        word = "NOT LIKE" if node.args.get("negate") else "LIKE"
        return Term(f"({value} {word} {string(pattern.this)})", BOOLEAN)

    # choices ---------------------------------------------------------------------------------------

    def _case(self, node: exp.Case) -> Term:
        branches = node.args["ifs"]
        values = [branch.args["true"] for branch in branches]
        rest = node.args.get("default")
        terms, kind = self._united(node, [*values, rest] if rest is not None else values)
        texts = []
        for branch, term in zip(branches, terms, strict=False):
            if node.this is not None:
                condition = self._compared(node, node.this, "=", branch.this)
            else:
                condition = self._truth(branch.this)
            texts.append(f"WHEN {condition} THEN {term}")
        if rest is not None:
            texts.append(f"ELSE {terms[-1]}")
        return Term(f"CASE {' '.join(texts)} END", kind)

    def _if(self, node: exp.If) -> Term:
        values = [node.args["true"], *([node.args["false"]] if node.args.get("false") is not None else [])]
        terms, kind = self._united(node, values)
        rest = f" ELSE {terms[1]}" if len(terms) > 1 else ""
        return Term(f"CASE WHEN {self._truth(node.this)} THEN {terms[0]}{rest} END", kind)

    def _coalesce(self, node: exp.Coalesce) -> Term:
        terms, kind = self._united(node, [node.this, *node.expressions])
        return Term(f"coalesce({', '.join(terms)})", kind)

    def _nullif(self, node: exp.Nullif) -> Term:
        text, kind = self._typed(node.this)
        return Term(
            f"CASE WHEN {self._compared(node, node.this, '=', node.expression)} THEN NULL ELSE {text} END", kind
        )

    def _extreme(self, node: exp.Func) -> Term:
        terms, kind = self._united(node, [node.this, *node.expressions])
        name = "greatest" if isinstance(node, exp.Greatest) else "least"
        if kind is not None and kind.name == "string":
            ordered = [f'{term} COLLATE "C"' for term in terms]
            return Term(f'({name}({", ".join(ordered)}) COLLATE "default")', kind)
        return Term(f"{name}({', '.join(terms)})", kind)

    def _united(self, node: exp.Expr, values: Sequence[exp.Expr]) -> tuple[list[str], Type | None]:
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

    def _sum_of(self, node: exp.Binary) -> Term:
        operator = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}[type(node)]
        one, other = self._print(node.this), self._print(node.expression)
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

    def _numbers(self, node: exp.Expr, *terms: Term) -> list[Type]:
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

    def _quotient(self, node: exp.Div) -> Term:
        one, other = self._print(node.this), self._print(node.expression)
        kinds = self._numbers(node, one, other)
        if any(kind.name == "decimal" for kind in kinds) and not any(kind.name == "double" for kind in kinds):
            self._refuse(node, "a quotient of DECIMALs has other digits in PostgreSQL", "CAST them to DOUBLE")
        if kinds[0].name == "float":
            self._refuse(node, "a quotient of FLOATs has other digits in PostgreSQL", "CAST them to DOUBLE")
        return Term(f"({_as_double(one.sql)} / {_as_double(other.sql)})", DOUBLE)

    def _rest(self, node: exp.Mod) -> Term:
        one, other = self._print(node.this), self._print(node.expression)
        kinds = self._numbers(node, one, other)
        if not all(kind.is_integer for kind in kinds):
            self._refuse(node, "only remainders of integers are the same in PostgreSQL")
        return Term(f"({one.sql} % {other.sql})", common(*kinds))

    def _negative(self, node: exp.Neg) -> Term:
        term = self._print(node.this)
        kinds = self._numbers(node, term)
        return Term(f"(-{term.sql})", kinds[0], term.digits)

    def _absolute(self, node: exp.Abs) -> Term:
        term = self._print(node.this)
        return Term(f"abs({term.sql})", self._numbers(node, term)[0])

    # strings and dates -----------------------------------------------------------------------------

    def _concatenated(self, node: exp.Expr) -> Term:
        parts = node.expressions if isinstance(node, exp.Concat) else [node.this, node.expression]
        texts = [self._of(part, _is_string, "a STRING")[0] for part in parts]
        return Term(f"({' || '.join(texts)})", STRING)

    def _string_function(self, node: exp.Func) -> Term:
        name = {exp.Length: "char_length", exp.Trim: "btrim", exp.Replace: "replace"}[type(node)]
        parts = [node.this]
        if isinstance(node, exp.Replace):
            parts += [node.expression, *([node.args["replacement"]] if node.args.get("replacement") else [])]
            if len(parts) == 2:
                self._refuse(node, "PostgreSQL asks for what to replace it with", "add ''")
        texts = [self._of(part, _is_string, "a STRING")[0] for part in parts]
        return Term(f"{name}({', '.join(texts)})", INT if isinstance(node, exp.Length) else STRING)

    def _substring(self, node: exp.Substring) -> Term:
        value, _ = self._of(node.this, _is_string, "a STRING")
        places = [node.args["start"], *([node.args["length"]] if node.args.get("length") is not None else [])]
        numbers = [p.this if isinstance(p, exp.Literal) and re.fullmatch(r"\d+", p.this) else "" for p in places]
        if "" in numbers or numbers[0] == "0":
            self._refuse(node, "positions must be constants here, and the first is 1")
        return Term(f"substr({value}, {', '.join(numbers)})", STRING)

    def _part_of_date(self, node: exp.Func) -> Term:
        date = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
        value, _ = self._of(date, lambda kind: kind.name == "date", "a DATE")
        return Term(f"CAST(extract({type(node).__name__.lower()} FROM {value}) AS integer)", INT)

    def _days_later(self, node: exp.TsOrDsAdd) -> Term:
        value, _ = self._of(node.this, lambda kind: kind.name == "date", "a DATE")
        days, _ = self._of(node.expression, lambda kind: kind.name in ("smallint", "int"), "an INT")
        if node.args["unit"].name.upper() != "DAY":
            self._refuse(node, "only adding days means the same in PostgreSQL")
        return Term(f"({value} + {days})", Type("date"))

    # casts -----------------------------------------------------------------------------------------

    def _cast(self, node: exp.Cast) -> Term:
        wanted = parse_type(node.to.sql(dialect="spark"))
        name = spelled(wanted)
        inside: Any = node.this
        while isinstance(inside, exp.Paren):
            inside = inside.this
        if isinstance(inside, exp.Literal):
            return self._constant(node, inside, wanted)
        if isinstance(inside, exp.Div) and (average := self._average(inside, wanted)):
            return average
        term = self._print(inside)
        if term.type is not None and not _casts_alike(term.type, wanted):
            self._refuse(node, f"a cast of {term.type} to {wanted} differs in PostgreSQL")
        return Term(term.sql if term.type == wanted else f"CAST({term.sql} AS {name})", wanted)

    def _constant(self, node: exp.Expr, value: exp.Literal, wanted: Type) -> Term:
        if not value.is_string:
            term = self._literal(value)
            small = wanted.name == "tinyint" and 0 < term.digits <= 2
            if term.type is None or not (small or _casts_alike(term.type, wanted)):
                self._refuse(node, f"a cast of {term.type} to {wanted} differs in PostgreSQL")
            return Term(f"CAST({term.sql} AS {spelled(wanted)})", wanted)
        pattern = {"date": _DATE, "timestamp_ntz": _MOMENT, "string": re.compile(".*", re.DOTALL)}.get(wanted.name)
        if wanted.name == "decimal":
            pattern = re.compile(rf"\d+(\.\d{{1,{wanted.scale}}})?")
        if pattern is None or not pattern.fullmatch(value.this) or not _is_moment(value.this, wanted):
            why = "depends on the time zone" if wanted.name == "timestamp" else "cannot be written in PostgreSQL"
            hint = "use TIMESTAMP_NTZ" if wanted.name == "timestamp" else None
            self._refuse(node, f"this constant {why}", hint)
        return Term(f"CAST({string(value.this)} AS {spelled(wanted)})", wanted)

    def _average(self, node: exp.Div, wanted: Type) -> Term | None:
        """A sum divided by a count: with five more digits than the result has, it is rounded as in Spark."""
        if wanted.name != "decimal":
            return None
        one, other = self._print(node.this), self._print(node.expression)
        if one.type is None or other.type is None or one.type.name != "decimal":
            return None
        if one.type.scale < wanted.scale + 5 or other.type != Type("decimal", 12, 0):
            return None
        return Term(f"CAST({one.sql} / {other.sql} AS {spelled(wanted)})", wanted)

    # aggregates and window functions ----------------------------------------------------------------

    def _called(self, node: exp.Expr, text: str) -> str:
        """An aggregate with its OVER."""
        if self._where == ROW:
            self._refuse(node, "an aggregate cannot stand here")
        return text + self._over

    def _filtered(self, node: exp.Filter) -> Term:
        condition = self._truth(node.expression.this)
        around, self._over = self._over, f" FILTER (WHERE {condition}){self._over}"
        try:
            if not isinstance(node.this, (exp.Count, exp.Quantile, exp.Median)):
                self._refuse(node, "FILTER on this aggregate has no counterpart here", "use CASE WHEN")
            return self._print(node.this)
        finally:
            self._over = around

    def _arguments(self, node: exp.Expr) -> tuple[str, list[exp.Expr]]:
        if isinstance(node.this, exp.Distinct):
            if self._where == WINDOW:
                self._refuse(node, "PostgreSQL has no DISTINCT in window functions")
            return "DISTINCT ", list(node.this.expressions)
        return "", [node.this]

    def _count(self, node: exp.Count) -> Term:
        distinct, values = self._arguments(node)
        if isinstance(node.this, (exp.Star, exp.Literal)):
            return Term(self._called(node, "count(*)"), BIGINT)
        texts = [self._print(value).sql for value in values]
        if len(texts) == 1:
            return Term(self._called(node, f"count({distinct}{texts[0]})"), BIGINT)
        if not distinct or self._over:
            self._refuse(node, "count of several values has no counterpart in PostgreSQL")
        there = " AND ".join(f"{text} IS NOT NULL" for text in texts)
        return Term(self._called(node, f"count(DISTINCT ({', '.join(texts)})) FILTER (WHERE {there})"), BIGINT)

    def _count_if(self, node: exp.CountIf) -> Term:
        return Term(self._called(node, f"count(*) FILTER (WHERE {self._truth(node.this)})"), BIGINT)

    def _total(self, node: exp.Sum) -> Term:
        distinct, values = self._arguments(node)
        text, kind = self._typed(values[0])
        if len(values) > 1 or not (kind.is_integer or kind.name == "decimal"):
            self._refuse(node, f"a sum of {kind} depends on the order of rows here", "CAST it to DECIMAL")
        wanted = BIGINT if kind.is_integer else Type("decimal", min(38, kind.precision + 10), kind.scale)
        return Term(f"CAST({self._called(node, f'sum({distinct}{text})')} AS {spelled(wanted)})", wanted)

    def _mean(self, node: exp.Avg) -> Term:
        distinct, values = self._arguments(node)
        text, kind = self._typed(values[0])
        if len(values) > 1 or not kind.is_integer:
            self._refuse(node, f"an average of {kind} has other digits in PostgreSQL here", "CAST it to BIGINT")
        total, count = (self._called(node, f"{name}({distinct}{text})") for name in ("sum", "count"))
        return Term(f"({_as_double(total)} / nullif({count}, 0))", DOUBLE)

    def _least_or_most(self, node: exp.Expr) -> Term:
        text, kind = self._typed(node.this)
        if node.expressions:
            self._refuse(node, "this form of it has no counterpart in PostgreSQL")
        return Term(extremum(_EXTREMA[type(node)], text, kind, self._called(node, "")), kind)

    def _middle(self, node: exp.Expr) -> Term:
        if self._where != GROUP:
            self._refuse(node, "PostgreSQL has it for groups only")
        text, kind = self._typed(node.this)
        share = node.args.get("quantile")
        part = "0.5" if share is None else share.this if isinstance(share, exp.Literal) else ""
        if not re.fullmatch(r"0(\.\d+)?|1|1\.0", part) or not is_number(kind):
            self._refuse(node, "a number and a constant part from 0 to 1 are expected here")
        order = f"WITHIN GROUP (ORDER BY {_as_double(text)})"
        return Term(self._called(node, f"percentile_cont({part}) {order}"), DOUBLE)

    def _spread(self, node: exp.Expr) -> Term:
        text, kind = self._typed(node.this)
        if not (kind.is_integer or kind.name == "decimal"):
            self._refuse(node, f"it depends on the order of rows for {kind}", "CAST it to DECIMAL")
        return Term(_as_double(self._called(node, f"{_SPREADS[type(node)]}({text})")), DOUBLE)

    def _ranking(self, node: exp.Expr) -> Term:
        if self._where != WINDOW:
            self._refuse(node, "a window function cannot stand here")
        name = _RANKINGS[type(node)]
        if name in ("percent_rank", "cume_dist"):
            return Term(f"{name}(){self._over}", DOUBLE)
        argument = ""
        if isinstance(node, exp.Ntile):
            argument = node.this.this if isinstance(node.this, exp.Literal) else ""
            if not re.fullmatch(r"[1-9]\d*", argument):
                self._refuse(node, "a constant is expected here")
        return Term(f"CAST({name}({argument}){self._over} AS integer)", INT)

    def _neighbor(self, node: exp.Expr) -> Term:
        """lag, lead, first_value, last_value, nth_value."""
        if self._where != WINDOW:
            self._refuse(node, "a window function cannot stand here")
        value, kind = self._typed(node.this)
        arguments = [value]
        offset, default = node.args.get("offset"), node.args.get("default")
        if offset is not None:
            if not (isinstance(offset, exp.Literal) and re.fullmatch(r"\d+", offset.this)):
                self._refuse(node, "a constant is expected here")
            arguments.append(offset.this)
        if default is not None:
            other = self._print(default)
            if other.type is not None and not (other.type == kind or (kind.is_integer and other.type == INT)):
                self._refuse(node, f"a {kind} is expected as its last argument")
            arguments.append(f"CAST({other.sql} AS {spelled(kind)})")
        return Term(f"{_NEIGHBORS[type(node)]}({', '.join(arguments)}){self._over}", kind)

    def _window(self, node: exp.Window) -> Term:
        """A window function with its OVER, of which only the type is used."""
        return Scalars(self._columns.values(), WINDOW, "OVER ()")._print(node.this)


def text_of(expression: Expression, where: str = ROW, over: str = "") -> str:
    """An expression as PostgreSQL text."""
    return Scalars(expression.attributes, where, over).term(expression.sql).sql


def condition_of(expression: Expression) -> str:
    """A condition as PostgreSQL text."""
    term = Scalars(expression.attributes).term(expression.sql)
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

    def columns(self, inputs: Sequence[Attribute], items: Sequence[str], more: str = "") -> list[tuple[str, str]]:
        """Names and types of `SELECT items FROM (typed NULLs as inputs) more`."""
        kinds = [Scalars(inputs, GROUP).term(item).type for item in items]
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


_COMPARISONS: dict[type[exp.Expr], str] = {
    **COMPARISONS,
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
_EXTREMA: dict[type[exp.Expr], str] = {exp.Min: "min", exp.Max: "max", exp.LogicalAnd: "min", exp.LogicalOr: "max"}
_SPREADS: dict[type[exp.Expr], str] = {
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
}
_RANKINGS: dict[type[exp.Expr], str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist",
    exp.Ntile: "ntile",
}
_NEIGHBORS: dict[type[exp.Expr], str] = {
    exp.Lag: "lag",
    exp.Lead: "lead",
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
    exp.NthValue: "nth_value",
}

_TWO = ("this", "expression")
_PRINTERS: dict[type[exp.Expr], tuple[Callable[[Scalars, Any], Term], tuple[str, ...]]] = {
    exp.Column: (Scalars._column, ("this",)),
    exp.Literal: (Scalars._literal, ("this", "is_string")),
    exp.Boolean: (Scalars._boolean, ("this",)),
    exp.Null: (Scalars._null, ()),
    exp.Paren: (Scalars._paren, ("this",)),
    exp.And: (Scalars._connective, _TWO),
    exp.Or: (Scalars._connective, _TWO),
    exp.Not: (Scalars._not, ("this",)),
    exp.Is: (Scalars._is, (*_TWO, "negate")),
    **dict.fromkeys(_COMPARISONS, (Scalars._comparison, _TWO)),
    exp.Between: (Scalars._between, ("this", "low", "high")),
    exp.In: (Scalars._in, ("this", "expressions")),
    exp.Like: (Scalars._like, (*_TWO, "negate")),
    exp.Case: (Scalars._case, ("this", "ifs", "default")),
    exp.If: (Scalars._if, ("this", "true", "false")),
    exp.Coalesce: (Scalars._coalesce, ("this", "expressions")),
    exp.Nullif: (Scalars._nullif, _TWO),
    exp.Greatest: (Scalars._extreme, ("this", "expressions", "ignore_nulls")),
    exp.Least: (Scalars._extreme, ("this", "expressions", "ignore_nulls")),
    exp.Add: (Scalars._sum_of, _TWO),
    exp.Sub: (Scalars._sum_of, _TWO),
    exp.Mul: (Scalars._sum_of, _TWO),
    exp.Div: (Scalars._quotient, (*_TWO, "typed", "safe")),
    exp.Mod: (Scalars._rest, _TWO),
    exp.Neg: (Scalars._negative, ("this",)),
    exp.Abs: (Scalars._absolute, ("this",)),
    exp.Concat: (Scalars._concatenated, ("expressions", "safe", "coalesce")),
    exp.DPipe: (Scalars._concatenated, (*_TWO, "safe")),
    exp.Length: (Scalars._string_function, ("this",)),
    exp.Trim: (Scalars._string_function, ("this",)),
    exp.Replace: (Scalars._string_function, (*_TWO, "replacement")),
    exp.Substring: (Scalars._substring, ("this", "start", "length")),
    exp.Year: (Scalars._part_of_date, ("this",)),
    exp.Month: (Scalars._part_of_date, ("this",)),
    exp.Day: (Scalars._part_of_date, ("this",)),
    exp.TsOrDsAdd: (Scalars._days_later, (*_TWO, "unit")),
    exp.Cast: (Scalars._cast, ("this", "to", "_type")),
    exp.TryCast: (Scalars._cast, ("this", "to", "_type")),
    exp.Filter: (Scalars._filtered, _TWO),
    exp.Count: (Scalars._count, ("this", "big_int")),
    exp.CountIf: (Scalars._count_if, ("this",)),
    exp.Sum: (Scalars._total, ("this",)),
    exp.Avg: (Scalars._mean, ("this",)),
    **dict.fromkeys(_EXTREMA, (Scalars._least_or_most, ("this",))),
    exp.Quantile: (Scalars._middle, ("this", "quantile")),
    exp.Median: (Scalars._middle, ("this",)),
    **dict.fromkeys(_SPREADS, (Scalars._spread, ("this",))),
    **dict.fromkeys(_RANKINGS, (Scalars._ranking, ("this",))),
    **dict.fromkeys(_NEIGHBORS, (Scalars._neighbor, ("this", "offset", "default"))),
    exp.Window: (Scalars._window, ("this", "partition_by", "order", "spec", "over")),
}
"""How each kind of syntax node is printed, and its supported arguments; any other argument is refused."""
