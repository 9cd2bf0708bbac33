"""Tokens of SQL text with their positions, made by sqlglot, and a cursor over them."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from viewkeeper.errors import Name, Place, SqlError
from viewkeeper.sql.dialect import SourceText, parse_expression_tokens, parse_source_tokens


class _Tokenizer(Spark.Tokenizer):
    """Spark's tokens, also after EXPLAIN and SHOW; sqlglot would make the rest of those one string."""

    COMMANDS: ClassVar[set[TokenType]] = set()


def tokenize(text: str) -> list[Token]:
    """The tokens of a text, as the parser of queries and expressions expects them."""
    try:
        return list(_Tokenizer(dialect=Dialect.get_or_raise("spark")).tokenize(text))
    except SqlglotError as problem:
        start = _unclosed(text)
        kind = "comment" if text.startswith("/*", start) else "quote"
        what = f"a {kind} is not closed" if start >= 0 else str(problem).splitlines()[0]
        raise SqlError(f"the SQL text cannot be read: {what}", place=Place.at(text, max(start, 0))) from None


_CLOSED = re.compile(r"""[^'"`/-]+|'([^'\\]|\\.)*'|"([^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/|/(?!\*)|-""", re.DOTALL)


def _unclosed(text: str) -> int:
    """The offset of a quote or comment that is not closed; -1 if there is none."""
    start = 0
    while start < len(text):
        found = _CLOSED.match(text, start)
        if found is None:
            return start
        start = found.end()
    return -1


def _single_words(text: str, token: Token) -> list[Token]:
    """A keyword of several words (PRIMARY KEY) as one token each."""
    source = text[token.start : token.end + 1]
    if source[:1] in "`'\"" or not re.fullmatch(r"\w+(\s+\w+)+", source):
        return [token]
    return [
        Token(
            TokenType.VAR, word.group(), token.line, token.col, token.start + word.start(), token.start + word.end() - 1
        )
        for word in re.finditer(r"\w+", source)
    ]


@dataclass(frozen=True)
class Statement:
    """One statement of the user's text: its tokens, one per word, and those that the parser expects."""

    text: str
    tokens: tuple[Token, ...]
    parsed: tuple[Token, ...]

    @property
    def start(self) -> int:
        """Offset of its first letter."""
        return int(self.tokens[0].start)

    @property
    def end(self) -> int:
        """Offset after its last letter."""
        return int(self.tokens[-1].end) + 1

    @cached_property
    def alone(self) -> str:
        """The whole text with all but this statement blank, so that positions in it are positions in the text."""
        return _blank(self.text[: self.start]) + self.sql + _blank(self.text[self.end :]).rstrip()

    @property
    def sql(self) -> str:
        """The statement's own text."""
        return self.text[self.start : self.end]

    def between(self, start: int, end: int) -> tuple[Token, ...]:
        """The tokens between two offsets, as the parser expects them."""
        first = bisect.bisect_left(self.parsed, start, key=_start)
        return self.parsed[first : bisect.bisect_left(self.parsed, end, key=_start)]


def _start(token: Token) -> int:
    return int(token.start)


def _blank(text: str) -> str:
    """A text with all characters but line breaks replaced by blanks."""
    return "\n".join(" " * len(line) for line in text.split("\n"))


def escape_quotes(text: str) -> str:
    """The same SQL with doubled quotes in strings escaped: Sail reads 'it''s' as two adjacent strings."""
    if "''" not in text and '""' not in text:
        return text
    tokens = tokenize(text)
    parts: list[str] = []
    position = 0
    for left, right in itertools.pairwise(tokens):
        strings = left.token_type == right.token_type == TokenType.STRING
        if strings and left.end + 1 == right.start and text[left.start] == text[right.start]:
            parts += [text[position : left.end], "\\", text[right.start]]
            position = right.start + 1
    return "".join([*parts, text[position:]])


def split(text: str) -> list[Statement]:
    """The statements of a text, separated by semicolons. The DO BEGIN ... END of an active rule belongs to it."""
    statements: list[Statement] = []
    parsed: list[Token] = []
    current: list[Token] = []
    words: list[str] = []
    depth = 0  # of BEGIN and CASE within an active rule
    for given in tokenize(text):
        if given.token_type == TokenType.SEMICOLON and depth == 0:
            if current:
                statements.append(Statement(text, tuple(current), tuple(parsed)))
            parsed, current, words = [], [], []
            continue
        parsed.append(given)
        for token in _single_words(text, given):
            word = "" if text[token.start] in "`'\"" else str(token.text).upper()
            if word == "BEGIN" and words[-1:] == ["DO"] and _makes_rule(words):
                depth += 1
            elif depth and word in ("CASE", "END"):
                depth += 1 if word == "CASE" else -1
            current.append(token)
            words.append(word)
    if current:
        statements.append(Statement(text, tuple(current), tuple(parsed)))
    return statements


def are_whole(text: str) -> bool:
    """Whether the statements of a text are complete: the last one ends with a semicolon of its own."""
    tokens = tokenize(text)
    if not tokens:
        return True
    statements = split(text)
    ends = tokens[-1].token_type == TokenType.SEMICOLON
    return ends and (not statements or statements[-1].end <= tokens[-1].start)


def _makes_rule(words: list[str]) -> bool:
    return words[:2] == ["CREATE", "RULE"] or words[:4] == ["CREATE", "OR", "REPLACE", "RULE"]


class Cursor:
    """Reads a statement token by token."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.tokens = statement.tokens
        self.index = 0

    @property
    def at_end(self) -> bool:
        """Whether all tokens are read."""
        return self.index >= len(self.tokens)

    def word(self, ahead: int = 0) -> str:
        """The token at the cursor in capitals; empty at the end, and for quoted names and strings."""
        index = self.index + ahead
        if index >= len(self.tokens):
            return ""
        token = self.tokens[index]
        quoted = self.statement.text[token.start] in "`'\""
        return "" if quoted else str(token.text).upper()

    def accept(self, *words: str) -> bool:
        """Reads these words if they come next."""
        if all(self.word(i) == word for i, word in enumerate(words)):
            self.index += len(words)
            return True
        return False

    def expect(self, *words: str) -> None:
        """Reads these words, or raises that they are missing."""
        for word in words:
            if not self.accept(word):
                raise self.error(f"expected {word} here")

    def name(self, what: str) -> Name:
        """Reads an identifier."""
        if self.at_end:
            raise self.error(f"expected {what} at the end")
        token = self.tokens[self.index]
        first = self.statement.text[token.start]
        if not (first == "`" or first.isalpha() or first == "_"):
            raise self.error(f"expected {what} here")
        self.index += 1
        if self.word() == "." and self.index + 1 < len(self.tokens):
            raise self.error("names have one part: there are no schemas or catalogs", back=0)
        return Name.at(str(token.text), self.statement.alone, token.start, token.end + 1)

    def names(self) -> tuple[Name, ...]:
        """Reads column names in brackets."""
        self.expect("(")
        found = [self.name("a column name")]
        while self.accept(","):
            found.append(self.name("a column name"))
        self.expect(")")
        return tuple(found)

    def skip_to(self, stops: Iterable[str]) -> tuple[int, int]:
        """The token range up to the first of these words outside parentheses and CASE; moves there."""
        wanted = set(stops)
        start = self.index
        depth = cases = 0
        while not self.at_end:
            word = self.word()
            if depth == 0 and cases == 0 and word in wanted:
                break
            if word in ("(", "["):
                depth += 1
            elif word in (")", "]"):
                if depth == 0:
                    break
                depth -= 1
            elif word == "CASE":
                cases += 1
            elif word == "END" and cases:
                cases -= 1
            self.index += 1
        return start, self.index

    def text_of(self, start: int, stop: int) -> SourceText:
        """The source text of a token range."""
        if start >= stop:
            return SourceText.of(self.statement.alone, 0, 0)
        return SourceText.of(self.statement.alone, self.tokens[start].start, self.tokens[stop - 1].end + 1)

    def expression(self, stops: Iterable[str], what: str) -> exp.Expr:
        """Reads an expression up to one of these words; its positions are those in the text."""
        start, stop = self.skip_to(stops)
        if start == stop:
            raise self.error(f"expected {what} here")
        return parse_expression_tokens(self._between(start, stop), self.statement.alone)

    def last_expression(self, what: str) -> exp.Expr:
        """Reads an expression up to the end of the statement."""
        start, self.index = self.index, len(self.tokens)
        if start == self.index:
            raise self.error(f"expected {what} at the end")
        return parse_expression_tokens(self._between(start, self.index), self.statement.alone)

    def source(self) -> exp.Expr:
        """Reads a parenthesized query or tables, as in FROM; its positions are those in the text."""
        start = self.index
        self.expect("(")
        self.skip_to(())
        self.expect(")")
        return parse_source_tokens(self._between(start, self.index), self.statement.alone)

    def _between(self, start: int, stop: int) -> tuple[Token, ...]:
        return self.statement.between(self.tokens[start].start, self.tokens[stop - 1].end + 1)

    def rest(self, what: str) -> SourceText:
        """The source text up to the end of the statement."""
        start, self.index = self.index, len(self.tokens)
        if start == self.index:
            raise self.error(f"expected {what} at the end")
        return self.text_of(start, self.index)

    def finish(self) -> None:
        """Raises if any token is left."""
        if not self.at_end:
            raise self.error(f"'{self.tokens[self.index].text}' is not expected here")

    def place(self, index: int | None = None) -> Place:
        """The position of a token, or of the end of the statement."""
        at = self.index if index is None else index
        if at >= len(self.tokens):
            return Place.at(self.statement.text, self.statement.end)
        token = self.tokens[at]
        return Place.at(self.statement.text, token.start, token.end - token.start + 1)

    def error(self, message: str, *, hint: str | None = None, back: int = 0) -> SqlError:
        """An error at the cursor."""
        return SqlError(message, place=self.place(self.index - back), hint=hint)
