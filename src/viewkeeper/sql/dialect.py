"""Apache Spark's SQL as a syntax tree, with every function call exactly as it was written.

A call `f(a, b)` is an `Anonymous` node with its name and arguments as written, whatever `f` is, so
that nothing is rewritten on the way to the engine. Operators bind as in Spark's grammar. Literals with a type
(`1L`, `DATE'2024-01-31'`), intervals and type names stay text and are rendered unchanged.

Special syntax becomes:
- CAST, `::` and typed literals: `Cast`; TRY_CAST: `TryCast`; EXTRACT(x FROM y): `Extract`; TRIM(BOTH x FROM y): `Trim`
- SUBSTRING(x FROM y FOR z), POSITION(x IN y), OVERLAY(x PLACING y FROM z): calls with their arguments in order
- a path into a variant, v:a.b[0]: `JSONExtract` with the path as `Var`
- `a >>> b`: a call of shiftrightunsigned; `+a`: a call of positive
- the unit in DATEADD(DAY, 1, x) and the like: `Var`
- CURRENT_DATE and the like without brackets: `Column`, since Spark looks for a column of that name first
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import exp, parser
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from viewkeeper.errors import Place, SqlError
from viewkeeper.sql.conditions import put_together

# A chain of a thousand terms is a tree a thousand levels deep; a level of parentheses or CASE takes a parser 24 calls.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}

OLD_STATE = "@old"
"""What the name of a table ends with that is read AS OF OLD: as it was before the transaction."""

_LITERAL = "literal"
_SOURCE = "source"

_TYPED_LITERALS = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
_NUMBER_SUFFIXES = frozenset({"L", "S", "Y", "D", "F", "BD"})
_INTERVAL_UNITS = frozenset(
    f"{unit}{ending}"
    for unit in ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND")
    for ending in ("", "S")
)
_UNIT_FUNCTIONS = frozenset(
    {"timestampadd", "dateadd", "date_add", "timestampdiff", "datediff", "date_diff", "timediff"}
)
_UNITS = frozenset(
    ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFYEAR", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
)
_CLAUSES = {
    "where": "WHERE",
    "group": "GROUP BY",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "order": "ORDER BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "sort": "SORT BY",
    "limit": "LIMIT",
}
"""The clauses after FROM in their required order; WINDOW may come at several points."""
_STRINGS = frozenset({TokenType.STRING, TokenType.RAW_STRING})


def _operand(kind: type[exp.Expr]) -> Callable[[Any, exp.Expr | None], exp.Expr | None]:
    """Parses the right side of LIKE and RLIKE."""

    def read(self: _Parser, this: exp.Expr | None) -> exp.Expr | None:
        pattern = self._parse_comparison()
        return self._parse_escape(self.expression(kind(this=this, expression=pattern)))

    return read


class _Parser(SparkParser):
    STRICT_CAST = True
    COLON_IS_VARIANT_EXTRACT = True
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, type[exp.Func]]] = {}
    BRACKETS: ClassVar[frozenset[TokenType]] = frozenset({TokenType.L_BRACKET})
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {"CASE": lambda self: self._parse_case()}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "CAST": lambda self: self._parse_cast(True),
        "TRY_CAST": lambda self: self._parse_cast(False, safe=True),
        "EXTRACT": lambda self: self._call_or(self._parse_extract_from),
        "TRIM": lambda self: self._call_or(self._parse_trim_from),
        "SUBSTRING": lambda self: self._call_or(self._parse_substring_from),
        "SUBSTR": lambda self: self._call_or(self._parse_substring_from),
        "POSITION": lambda self: self._call_or(self._parse_position_in),
        "OVERLAY": lambda self: self._call_or(self._parse_overlay_placing),
    }
    PRIMARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **SparkParser.PRIMARY_PARSERS,
        TokenType.HEX_STRING: lambda self, token: self._parse_hex(token),
    }
    _BEGINS_A_TABLE: ClassVar[frozenset[TokenType]] = frozenset(
        {
            *(TokenType.COMMA, TokenType.JOIN, TokenType.LATERAL),
            *(*SparkParser.JOIN_METHODS, *SparkParser.JOIN_SIDES, *SparkParser.JOIN_KINDS),
        }
    )
    COMPARISON: ClassVar[dict[TokenType, type[exp.Binary]]] = {**SparkParser.EQUALITY, **SparkParser.COMPARISON}
    TERM: ClassVar[dict[TokenType, type[exp.Binary]]] = {
        TokenType.DASH: exp.Sub,
        TokenType.PLUS: exp.Add,
        TokenType.DPIPE: exp.DPipe,
    }
    FACTOR: ClassVar[dict[TokenType, type[exp.Binary]]] = {
        TokenType.DIV: exp.IntDiv,
        TokenType.MOD: exp.Mod,
        TokenType.SLASH: exp.Div,
        TokenType.STAR: exp.Mul,
    }
    RANGE_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        TokenType.BETWEEN: lambda self, this: self._parse_between(this),
        TokenType.ILIKE: _operand(exp.ILike),
        TokenType.IN: lambda self, this: self._parse_in(this),
        TokenType.IS: lambda self, this: self._parse_is(this),
        TokenType.LIKE: _operand(exp.Like),
        TokenType.RLIKE: _operand(exp.RegexpLike),
    }
    UNARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        TokenType.PLUS: lambda self: self.expression(exp.Anonymous(this="positive", expressions=[self._parse_unary()])),
        TokenType.NOT: SparkParser.UNARY_PARSERS[TokenType.NOT],
        TokenType.TILDE: SparkParser.UNARY_PARSERS[TokenType.TILDE],
        TokenType.DASH: SparkParser.UNARY_PARSERS[TokenType.DASH],
    }

    def parse(self, raw_tokens: list[Token], sql: str) -> list[exp.Expr | None]:
        """The statements of a text; ALL and DISTINCT are names where Spark reads them as names."""
        return super().parse(_with_names(raw_tokens), sql)

    def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
        """The parts of a list. A missing part is an error: it may be a column whose name is a keyword."""
        first = parse_method()
        items = [] if first is None else [first]
        while self._match(sep):
            last = self._prev
            part = parse_method() if items else None
            if part is None:
                self.raise_error("Something is missing beside this comma", last)
            items.append(part)
        return items

    def _parse_cube_or_rollup(self, with_prefix: bool = False) -> exp.Cube | exp.Rollup | None:
        found = super()._parse_cube_or_rollup(with_prefix)
        if found is not None and with_prefix and self._curr.token_type == TokenType.COMMA:
            self.raise_error("A key cannot follow WITH ROLLUP or WITH CUBE")
        return found

    def _parse_query_modifiers(self, this: Any) -> Any:
        """The clauses of a query, in Spark's order; tables and joins come before all of them."""
        if not isinstance(this, exp.Query):
            return super()._parse_query_modifiers(this)
        before = [name for clause, name in _CLAUSES.items() if this.args.get(clause)]
        if before and self._curr is not None and self._curr.token_type in self._BEGINS_A_TABLE:
            self.raise_error(f"A table cannot follow {before[-1]}")
        if this.args.get("limit") is None:
            this.args.pop("limit", None)  # so that clauses stay in the order in which they are found
        made = super()._parse_query_modifiers(this)
        if not isinstance(made, exp.Select):  # a set operation takes over the clauses of its last query
            return made
        found = [clause for clause, value in made.args.items() if value and clause in _CLAUSES]
        order = list(_CLAUSES)
        for one, other in pairwise(found):
            if order.index(one) > order.index(other):
                self.raise_error(f"The clause {_CLAUSES[other]} cannot follow {_CLAUSES[one]}")
        return made

    def _parse_version(self) -> exp.Version | None:
        if self._match_text_seq("AS", "OF", "OLD"):
            version = exp.Version(this="OLD", kind="AS OF")
            version.meta["end"] = self._prev.end
            return version
        return super()._parse_version()

    def _parse_table(self, *arguments: Any, **options: Any) -> exp.Expr | None:
        """A table; `t AS OF OLD` is one named `t@old`, known as t."""
        table = super()._parse_table(*arguments, **options)
        version = table.args.get("version") if isinstance(table, exp.Table) else None
        if isinstance(table, exp.Table) and version is not None and version.name == "OLD":
            called = table.this.copy()
            table.set("version", None)
            table.this.set("this", f"{table.name}{OLD_STATE}")
            table.this.meta["end"] = version.meta["end"]
            if not table.alias:
                table.set("alias", exp.TableAlias(this=called))
                table.meta["implied"] = called.name  # an alias that does not stand in the text
        return table

    # Operators, from those that bind least to those that bind most.

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        this = self._parse_comparison()
        return self._parse_range(this, parse_is=True) if this and parse_is else this

    def _parse_comparison(self, this: exp.Expr | None = None) -> exp.Expr | None:
        this = this or self._parse_bitwise()
        while self._match_set(self.COMPARISON):
            kind = self.COMPARISON[self._prev.token_type]
            this = self.expression(kind(this=this, expression=self._parse_bitwise()))
        return this

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        low = self._parse_comparison()
        if not self._match(TokenType.AND):
            self.raise_error("Expected AND after BETWEEN")
        return self.expression(exp.Between(this=this, low=low, high=self._parse_comparison()))

    def _parse_is_rhs(self, distinct: bool = False) -> exp.Expr | None:
        if distinct:
            return self._parse_comparison()
        if self._match_text_seq("UNKNOWN"):
            return exp.var("UNKNOWN")
        return super()._parse_is_rhs()

    def _parse_bitwise(self) -> exp.Expr | None:
        return self._parse_bits((TokenType.PIPE, TokenType.CARET, TokenType.AMP))

    def _parse_bits(self, levels: tuple[TokenType, ...]) -> exp.Expr | None:
        if not levels:
            return self._parse_shift()
        this = self._parse_bits(levels[1:])
        while self._match(levels[0]):
            this = self.expression(self.BITWISE[levels[0]](this=this, expression=self._parse_bits(levels[1:])))
        return this

    def _parse_shift(self) -> exp.Expr | None:
        this = self._parse_term()
        while True:
            if self._match_pair(TokenType.LT, TokenType.LT):
                this = self.expression(exp.BitwiseLeftShift(this=this, expression=self._parse_term()))
            elif self._match_pair(TokenType.GT, TokenType.GT):
                if self._match(TokenType.GT):
                    arguments = [this, self._parse_term()]
                    this = self.expression(exp.Anonymous(this="shiftrightunsigned", expressions=arguments))
                else:
                    this = self.expression(exp.BitwiseRightShift(this=this, expression=self._parse_term()))
            else:
                return this

    # Literals, types and calls.

    def _parse_atom(self) -> exp.Expr | None:
        return None if self._curr.token_type in _STRINGS else super()._parse_atom()

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> exp.Expr | None:
        this: exp.Expr | None = self._parse_interval() if parse_interval else None
        this = this or self._parse_typed_literal()
        if this is not None:
            this = self._parse_column_ops(this)
        elif fallback_to_identifier:
            this = self._parse_id_var()
        else:
            this = self._parse_atom() or self._parse_column()
        while this is not None and self._match(TokenType.COLLATE):
            first = self._curr
            while self._advance_any(ignore_reserved=True) and self._match(TokenType.DOT):
                pass
            this = self.expression(exp.Collate(this=this, expression=exp.var(self._find_sql(first, self._prev))))
        return this

    def _parse_typed_literal(self) -> exp.Expr | None:
        name = self._curr.text.upper()
        if self._next.token_type not in _STRINGS or self._curr.token_type in (TokenType.IDENTIFIER, *_STRINGS):
            return None
        if name == "X":
            self._advance(2)
            return self.expression(exp.HexString(this=self._prev.text), self._prev)
        if name not in _TYPED_LITERALS:
            return None
        self._advance()
        kind = exp.DataType.from_str(name, dialect="spark")
        cast = self.expression(exp.Cast(this=self._parse_primary(), to=kind))
        cast.meta[_LITERAL] = name
        return cast

    def _parse_placeholder(self) -> exp.Expr | None:
        first = self._curr
        made = super()._parse_placeholder()
        if made is not None and first is not None:
            made.meta.update(start=first.start, end=self._prev.end)
        return made

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> exp.Interval | None:
        if self._curr.token_type != TokenType.INTERVAL:
            return None
        index, first = self._index, self._curr
        self._advance()
        found = False
        while True:
            start = self._index
            if not (self._match(TokenType.DASH) or self._match(TokenType.PLUS)):
                pass
            if not self._match_set((TokenType.NUMBER, *_STRINGS)):
                self._retreat(start)
                break
            unit = self._match_texts(_INTERVAL_UNITS)
            if not unit and not (not found and self._prev.token_type in _STRINGS):
                self._retreat(start)
                break
            found = True
            if unit and self._match_text_seq("TO"):
                self._match_texts(_INTERVAL_UNITS)
                break
            if not unit:
                break
        if not found:
            self._retreat(index)
            return None
        return self.expression(exp.Interval(this=exp.var(self._find_sql(first, self._prev))))

    def _parse_primary(self) -> exp.Expr | None:
        if self._curr.token_type not in _STRINGS:
            return super()._parse_primary()
        first = self._curr
        text = ""
        last: Token | None = None
        while self._match_set(_STRINGS):
            token = self._prev
            quote = self.sql[token.start]
            if last is not None and last.end + 1 == token.start and self.sql[last.start] == quote and quote in "'\"":
                text += quote  # a doubled quote inside a string
            text += token.text
            last = token
        return self.expression(exp.Literal(this=text, is_string=True), first)

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        return None if this is None else super()._parse_bracket(this)

    def _parse_hex(self, token: Token) -> exp.Expr:
        if self.sql[token.start] == "0":
            self.raise_error("Numbers cannot be written like this", token)
        return self.expression(exp.HexString(this=token.text), token)

    def _parse_value(self, values: bool = True) -> exp.Tuple | None:
        row = self._parse_disjunction()
        while isinstance(row, exp.Paren):
            row = row.this
        if row is None or isinstance(row, exp.Tuple):
            return row
        return self.expression(exp.Tuple(expressions=[row]))

    def _parse_colon_as_variant_extract(self, this: exp.Expr | None) -> exp.Expr | None:
        """A path into a variant: v:a.b[0]['c']."""
        if this is None or not self._match(TokenType.COLON):
            return this
        first = self._curr
        if not self._match(TokenType.L_BRACKET, advance=False):
            self._advance_any(ignore_reserved=True)
        while True:
            if self._match(TokenType.DOT):
                self._advance_any(ignore_reserved=True)
            elif self._match(TokenType.L_BRACKET):
                self._advance()
                if not self._match(TokenType.R_BRACKET):
                    self.raise_error("Expected ]")
            else:
                break
        if self._prev.start < first.start:
            self.raise_error("Expected a path after :")
        path = exp.var(self._find_sql(first, self._prev))
        return self._parse_column_ops(self.expression(exp.JSONExtract(this=this, expression=path)))

    def build_cast(self, strict: bool, **kwargs: Any) -> exp.Expr:
        suffix = self._prev.text.upper()
        cast = parser.Parser.build_cast(self, strict, **kwargs)
        if suffix in _NUMBER_SUFFIXES and cast.this.is_number:
            cast.meta[_LITERAL] = suffix
        return cast

    def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        first = self._curr
        this = parser.Parser._parse_types(self, *args, **kwargs)
        if isinstance(this, exp.DataType):
            this.meta[_SOURCE] = self._find_sql(first, self._prev)
        return this

    def _parse_cast(self, strict: bool, safe: bool | None = None) -> exp.Expr:
        this = self._parse_disjunction()
        if not self._match(TokenType.ALIAS):
            self.raise_error("Expected AS after CAST")
        index = self._index
        to = self._try_parse(lambda: self._parse_types(with_collation=True))
        if not isinstance(to, exp.DataType) or self._curr.token_type != TokenType.R_PAREN:
            self._retreat(index)
            to = self._parse_other_type()
        return self.expression((exp.Cast if strict else exp.TryCast)(this=this, to=to, safe=safe))

    def _parse_other_type(self) -> exp.DataType:
        """A type that sqlglot does not know, as text."""
        first = self._curr
        depth = 0
        while self._curr and (depth or self._curr.token_type != TokenType.R_PAREN):
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(self._curr.token_type, 0)
            self._advance()
        if self._prev.start < first.start:
            self.raise_error("Expected a type after AS")
        kind = exp.DataType(this=exp.DType.USERDEFINED, kind=self._find_sql(first, self._prev))
        kind.meta[_SOURCE] = self._find_sql(first, self._prev)
        return kind

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        call = super()._parse_function_call(*args, **kwargs)
        if isinstance(call, exp.Anonymous) and call.name.lower() in _UNIT_FUNCTIONS and len(call.expressions) == 3:
            unit = call.expressions[0]
            if isinstance(unit, exp.Column) and not unit.table and unit.name.upper() in _UNITS:
                unit.replace(exp.var(unit.name))
        return call

    def _call_or(self, special: Callable[[], exp.Expr | None]) -> exp.Expr | None:
        """A call whose arguments may be separated by keywords."""
        name, index = self._tokens[self._index - 2].text, self._index
        found = self._try_parse(special)
        if found is not None and self._curr.token_type == TokenType.R_PAREN:
            return found
        self._retreat(index)
        return self.expression(exp.Anonymous(this=name, expressions=self._parse_function_args(alias=True)))

    def _parse_extract_from(self) -> exp.Expr | None:
        field = self._parse_var_or_string() or self._parse_id_var(any_token=True)
        if field is None or not self._match(TokenType.FROM):
            return None
        return self.expression(exp.Extract(this=field, expression=self._parse_comparison()))

    def _parse_trim_from(self) -> exp.Expr | None:
        position = self._prev.text.upper() if self._match_texts(self.TRIM_TYPES) else None
        characters = None if self._curr.token_type == TokenType.FROM else self._parse_comparison()
        if not self._match(TokenType.FROM):
            return None
        return self.expression(exp.Trim(this=self._parse_comparison(), expression=characters, position=position))

    def _parse_substring_from(self) -> exp.Expr | None:
        name = self._tokens[self._index - 2].text
        arguments = [self._parse_comparison()]
        if not self._match(TokenType.FROM):
            return None
        arguments.append(self._parse_comparison())
        if self._match(TokenType.FOR):
            arguments.append(self._parse_comparison())
        return self.expression(exp.Anonymous(this=name, expressions=arguments))

    def _parse_position_in(self) -> exp.Expr | None:
        name = self._tokens[self._index - 2].text
        arguments = [self._parse_comparison()]
        if not self._match(TokenType.IN):
            return None
        arguments.append(self._parse_comparison())
        return self.expression(exp.Anonymous(this=name, expressions=arguments))

    def _parse_overlay_placing(self) -> exp.Expr | None:
        name = self._tokens[self._index - 2].text
        arguments = [self._parse_comparison()]
        if not self._match_text_seq("PLACING"):
            return None
        arguments.append(self._parse_comparison())
        if not self._match(TokenType.FROM):
            return None
        arguments.append(self._parse_comparison())
        if self._match(TokenType.FOR):
            arguments.append(self._parse_comparison())
        return self.expression(exp.Anonymous(this=name, expressions=arguments))


_ENDS = frozenset(
    {
        *(TokenType.COMMA, TokenType.DOT, TokenType.R_PAREN, TokenType.SEMICOLON, TokenType.FROM, TokenType.WHERE),
        *(TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.ORDER_BY, TokenType.LIMIT),
    }
)
"""Tokens that cannot follow a quantifier: before them, ALL and DISTINCT are names of columns."""


_SET_OPERATIONS = frozenset({TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT})
_QUANTIFIED = frozenset({TokenType.SELECT, TokenType.HINT, TokenType.L_PAREN})


def _with_names(tokens: list[Token]) -> list[Token]:
    """Tokens in which ALL, DISTINCT, and WINDOW after GROUP BY are names where Spark reads them as names."""
    made = list(tokens)
    for index in range(1, len(tokens)):
        token, before = tokens[index], tokens[index - 1].token_type
        after = tokens[index + 1].token_type if index + 1 < len(tokens) else TokenType.SEMICOLON
        if _is_name(token.token_type, before, after):
            start, end = token.start, token.end
            made[index] = Token(TokenType.VAR, token.text, token.line, token.col, start, end, token.comments)
    return made


def _is_name(kind: TokenType, before: TokenType, after: TokenType) -> bool:
    """Whether a word of some kind between two others is the name of a column."""
    if before == TokenType.GROUP_BY:
        follows = after in (TokenType.COMMA, TokenType.DOT)
        return kind == TokenType.WINDOW or (kind in (TokenType.ALL, TokenType.DISTINCT) and follows)
    if kind not in (TokenType.ALL, TokenType.DISTINCT) or before in _SET_OPERATIONS:
        return False
    if before in _QUANTIFIED:
        return after in _ENDS
    if kind == TokenType.ALL:  # beside = ALL (query)
        return after != TokenType.L_PAREN
    return before not in (TokenType.IS, TokenType.NOT)  # beside IS NOT DISTINCT FROM


_REWRITTEN = (
    exp.AtTimeZone,
    exp.BitwiseLeftShift,
    exp.BitwiseRightShift,
    exp.From,
    exp.JSONExtract,
    exp.Pivot,
    exp.Select,
    exp.Table,
    exp.Trim,
    exp.TryCast,
    exp.Unnest,
    exp.WithinGroup,
)

_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0", "\x1a": "\\Z"}


class _Generator(SparkGenerator):
    TRANSFORMS: ClassVar[dict[Any, Any]] = {
        kind: how for kind, how in SparkGenerator.TRANSFORMS.items() if kind not in _REWRITTEN
    }

    def escape_str(self, text: str, *args: Any, **kwargs: Any) -> str:
        return "".join(_ESCAPES.get(letter, letter) for letter in text)

    def rawstring_sql(self, expression: exp.RawString) -> str:
        return f"'{self.escape_str(expression.this)}'"

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        literal = expression.meta.get(_LITERAL)
        if literal in _NUMBER_SUFFIXES:
            return f"{self.sql(expression, 'this')}{literal}"
        if literal:
            return f"{literal} {self.sql(expression, 'this')}"
        return f"{safe_prefix or ''}CAST({self.sql(expression, 'this')} AS {self.sql(expression, 'to')})"

    def trycast_sql(self, expression: exp.TryCast) -> str:
        return self.cast_sql(expression, safe_prefix="TRY_")

    def datatype_sql(self, expression: exp.DataType) -> str:
        source = expression.meta.get(_SOURCE)
        return str(source) if source else super().datatype_sql(expression)

    def interval_sql(self, expression: exp.Interval) -> str:
        return self.sql(expression.this) if isinstance(expression.this, exp.Var) else super().interval_sql(expression)

    def jsonextract_sql(self, expression: exp.JSONExtract) -> str:
        return f"{self.sql(expression, 'this')}:{self.sql(expression, 'expression')}"

    def trim_sql(self, expression: exp.Trim) -> str:
        parts = [expression.args.get("position"), self.sql(expression, "expression"), "FROM", self.sql(expression.this)]
        return f"TRIM({' '.join(part for part in parts if part)})"

    def nullsafeeq_sql(self, expression: exp.NullSafeEQ) -> str:
        return self.binary(expression, "<=>")

    def collate_sql(self, expression: exp.Collate) -> str:
        return self.binary(expression, "COLLATE")

    def dpipe_sql(self, expression: exp.DPipe) -> str:
        """A long chain as one call: the time engines take for a nested one grows with its square or worse."""
        parts = put_together(expression, exp.DPipe)
        return self.binary(expression, "||") if len(parts) == 2 else self.func("concat", *parts, normalize=False)


class Verbatim(Spark):
    """Spark's dialect with functions, types and literals as they were written."""

    NORMALIZE_FUNCTIONS: bool | str = False
    Parser = _Parser
    Generator = _Generator


def literal_suffix(node: exp.Expr) -> str:
    """The suffix or prefix of a typed literal (`L`, `DATE` ...); empty for a cast that is written as one."""
    return str(node.meta.get(_LITERAL, ""))


def type_source(node: exp.Expr) -> str:
    """The type that a cast names, as it is written."""
    return str(node.args["to"].meta.get(_SOURCE) or node.args["to"].sql("spark"))


def parse(text: str, whole: str | None = None) -> exp.Expr:
    """The syntax tree of a query, or an error with its position in the user's text."""
    return _only_query(_trees(lambda: Verbatim().parse(text), text, whole), place_in(text, 0, 1, whole))


def parse_expression(text: str) -> exp.Expr:
    """The syntax tree of an expression or condition."""
    return parse_expression_tokens(Verbatim().tokenize(text), text)


_SELECT = (TokenType.SELECT, "SELECT")


def parse_source_tokens(tokens: Sequence[Token], text: str) -> exp.Expr:
    """The syntax tree of a parenthesized item of FROM, from its tokens; its positions are those in the text."""
    before = (_SELECT, (TokenType.STAR, "*"), (TokenType.FROM, "FROM"))
    source: exp.Expr = _parse_after(before, tokens, text).args["from_"].this.pop()
    return source


def parse_expression_tokens(tokens: Sequence[Token], text: str) -> exp.Expr:
    """The syntax tree of an expression, from its tokens; its positions are those in the text."""
    before = (_SELECT, (TokenType.NUMBER, "1"), (TokenType.WHERE, "WHERE"))
    tree = _parse_after(before, tokens, text)
    where = tree.args.get("where")
    more = [name for name, part in tree.args.items() if part and name not in ("expressions", "where", "kind")]
    if not isinstance(tree, exp.Select) or where is None or more:
        place = Place.at(text, tokens[0].start, tokens[-1].end + 1 - tokens[0].start)
        raise SqlError("an expression cannot go on like this", place=place)
    condition: exp.Expr = where.this.pop()
    return condition


def _parse_after(before: Sequence[tuple[TokenType, str]], tokens: Sequence[Token], text: str) -> exp.Expr:
    """The syntax tree of a query that begins with `before` and continues with some tokens of a text."""
    first = tokens[0]
    made = [Token(kind, word, first.line, first.col, first.start, first.start) for kind, word in before]
    trees = _trees(lambda: Verbatim().parser().parse([*made, *tokens], text), text, None)
    return _only_query(trees, Place.at(text, first.start))


def _trees(read: Callable[[], list[exp.Expr | None]], text: str, whole: str | None) -> list[exp.Expr]:
    """The syntax trees of a text, or an error with its position in the user's text."""
    try:
        return [tree for tree in read() if tree is not None]
    except ParseError as problem:
        raise _at_its_place(problem, text, whole) from None
    except AssertionError:  # sqlglot gives up like this on some set operations after |>
        raise SqlError("bad SQL: the query cannot be read", place=place_in(text, 0, 1, whole)) from None
    except SqlglotError as problem:
        raise SqlError(f"bad SQL: {str(problem).splitlines()[0]}", place=place_in(text, 0, 1, whole)) from None


def _only_query(trees: list[exp.Expr], place: Place) -> exp.Expr:
    if len(trees) != 1 or not isinstance(trees[0], (exp.Query, exp.Values)):
        raise SqlError("bad SQL: expected a query", place=place)
    return trees[0]


def render(tree: exp.Expr) -> str:
    """The text of a query or expression for the engine."""
    return Verbatim().generate(tree, comments=False)


class SourceText(str):
    """A piece of a text with its source span: the text, and where it starts there."""

    __slots__ = ("start", "whole")
    start: int
    whole: str

    @staticmethod
    def of(text: str, start: int, end: int) -> SourceText:
        """The piece of a text between two offsets."""
        piece = SourceText(text[start:end])
        piece.start, piece.whole = start, text
        return piece


def parse_after(before: str, piece: SourceText, after: str) -> exp.Expr:
    """Parses a piece of a text between words that do not stand there; errors show their position in the text."""
    query = f"{before}{piece}{after}"
    try:
        return parse(query, query)
    except SqlError as problem:
        problem.place = moved_place(problem.place, piece, len(before))
        raise


def moved_place(place: Place | None, piece: SourceText, shift: int) -> Place | None:
    """A position in a query that has a piece of a text after `shift` letters, as a position in the text."""
    if place is None:
        return None
    offset = max(0, min(place.offset - shift, len(piece)))
    return Place.at(piece.whole, piece.start + offset, place.length)


def place_in(query: str, offset: int, length: int, whole: str | None) -> Place:
    """A position in a query as a position in the whole text that the query is a piece of."""
    if whole is not None and (start := _start_in(query, whole)) >= 0:
        return Place.at(whole, start + max(0, offset), length)
    return Place.at(whole if whole is not None else query, max(0, offset) if whole is None else 0, length)


def _start_in(query: str, whole: str) -> int:
    if isinstance(query, SourceText) and whole.startswith(query, query.start):
        return query.start
    return whole.find(query)


def offset_of(text: str, line: int, column: int) -> int:
    """The offset of a line and column, both counted from 1."""
    lines = text.split("\n")
    return sum(len(part) + 1 for part in lines[: line - 1]) + column - 1


def _at_its_place(problem: ParseError, text: str, whole: str | None) -> SqlError:
    about = problem.errors[0] if problem.errors else {}
    what = str(about.get("description") or "the query cannot be read").rstrip(".")
    what = re.sub(r"<Token .*?text: (.*?), line.*?>", r"'\1'", what)
    what = re.sub(r"^Required keyword: .*", "Something is missing here", what)
    if what == "Invalid expression / Unexpected token":
        what = f"'{about.get('highlight')}' is not expected here"
    offset = offset_of(text, int(about.get("line") or 1), int(about.get("col") or 1))
    length = max(1, len(str(about.get("highlight") or " ")))
    return SqlError(f"bad SQL: {what[0].lower() + what[1:]}", place=place_in(text, offset - length + 1, length, whole))
