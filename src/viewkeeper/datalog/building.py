"""Lark's tree as ours. Refuses what the grammar accepts but the language does not have."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar

from lark import Token, Tree

from viewkeeper.datalog import program_tree as s
from viewkeeper.datalog import terms as t
from viewkeeper.datalog.alternatives import MOST_ALTERNATIVES, count_alternatives
from viewkeeper.datalog.column_types import column_type
from viewkeeper.datalog.functors import FUNCTORS, RESERVED
from viewkeeper.datalog.refusals import refused_word
from viewkeeper.errors import DatalogError, Place

DEEPEST = 100
"""How deep brackets, operators and aggregates may be nested."""

_Tree: TypeAlias = Tree[Token]
_Built = TypeVar("_Built")


class Builder:
    """Builds the tree of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.depth = 0

    def program(self, tree: _Tree) -> s.Program:
        """The whole program."""
        items = tuple(_ITEMS[item.data](self, item) for item in tree.children if isinstance(item, Tree))
        return s.Program(items, place=Place(self.text, 1, 1))

    def place(self, at: _Tree | Token) -> Place:
        """The position of a token or of the tokens of a tree."""
        span = at if isinstance(at, Token) else at.meta
        start, end = int(span.start_pos or 0), int(span.end_pos or 0)
        return Place(self.text, int(span.line or 1), int(span.column or 1), max(1, end - start))

    # declarations and directives -------------------------------------------------------------------

    def declaration(self, tree: _Tree) -> s.Declaration:
        """`.decl`."""
        names, columns = tree.children
        place = self.place(tree)
        named = self.names(names)
        if columns is None:
            raise DatalogError(
                f"relation {named[0]} has no columns",
                hint=f"give it at least one, for instance .decl {named[0]}(x:number), as a table has",
                place=named[0].place,
            )
        return s.Declaration(named, tuple(map(self.column, columns.children)), place=place)  # type: ignore[union-attr]

    def directive(self, tree: _Tree) -> s.Directive:
        """`.input` or `.output`."""
        word, names = tree.children
        return s.Directive(str(word)[1:], self.names(names), place=self.place(tree))

    def names(self, tree: Any) -> tuple[s.Name, ...]:
        """A list of names of relations."""
        return tuple(s.Name(self.word(token), place=self.place(token)) for token in tree.children)

    def column(self, tree: Any) -> s.DeclaredColumn:
        """A column of a declaration."""
        name, kind = tree.children
        word, *sizes = kind.children
        numbers = tuple(int(size) for size in sizes if size is not None)
        spelling, type_ = column_type(str(word), numbers, self.place(kind))
        return s.DeclaredColumn(str(name), spelling, type_, place=self.place(tree))

    # clauses -----------------------------------------------------------------------------------------

    def clause(self, tree: _Tree) -> s.Clause:
        """A fact or a rule."""
        sign, heads, *body = tree.children
        atoms = tuple(map(self.atom, heads.children))  # type: ignore[union-attr]
        if not body and len(atoms) > 1:
            raise DatalogError(
                "a fact has one head only",
                hint=f"write {' '.join(f'{atom}.' for atom in atoms)}",
                place=atoms[1].place,
            )
        text = self.text[tree.meta.start_pos : tree.meta.end_pos]
        mark = str(sign.children[0]) if isinstance(sign, Tree) else ""
        built = self.body(body[0]) if body else None
        clause = s.Clause(mark, atoms, built, text, place=self.place(tree))
        self._limit_alternatives(clause)
        return clause

    def _limit_alternatives(self, clause: s.Clause) -> None:
        count = count_alternatives(clause.body) * len(clause.heads)
        if count > MOST_ALTERNATIVES:
            raise DatalogError(
                f"the semicolons of this rule stand for {count} rules; at most {MOST_ALTERNATIVES} are allowed",
                hint="give a bracket a name of its own: either(x) :- a(x); b(x). and write either(x)",
                place=clause.place,
            )

    def body(self, tree: Any) -> s.Body:
        """A body or a part of one."""
        return self._deeper(tree, _BODIES[tree.data])

    def _deeper(self, tree: Any, build: Callable[[Builder, Any], _Built]) -> _Built:
        if self.depth >= DEEPEST:
            raise DatalogError(
                f"this is nested more than {DEEPEST} deep",
                hint="take a part out into a rule of its own",
                place=self.place(tree),
            )
        self.depth += 1
        try:
            return build(self, tree)
        finally:
            self.depth -= 1

    def _conjunction(self, tree: _Tree) -> s.Body:
        return s.Conjunction(self._flat(tree, s.Conjunction), place=self.place(tree))

    def _disjunction(self, tree: _Tree) -> s.Body:
        return s.Disjunction(self._flat(tree, s.Disjunction), place=self.place(tree))

    def _flat(self, tree: _Tree, kind: type[s.Conjunction] | type[s.Disjunction]) -> tuple[s.Body, ...]:
        parts = [self.body(part) for part in tree.children]
        return tuple(p for part in parts for p in (part.parts if isinstance(part, kind) else (part,)))

    def atom(self, tree: Any) -> s.Atom:
        """A relation with its arguments."""
        name, arguments = tree.children
        relation = self.word(name)
        if arguments is None:
            raise DatalogError(
                f"relation {relation} has no arguments here",
                hint=f"every relation has at least one column: write {relation}(x), or {relation}(_) for any row",
                place=self.place(tree),
            )
        return s.Atom(relation, tuple(map(self.term, arguments.children)), place=self.place(tree))

    def _negation(self, tree: _Tree) -> s.Body:
        inner = self.body(tree.children[0])
        if isinstance(inner, s.StringTest):
            return replace(inner, negated=True, place=self.place(tree))
        assert isinstance(inner, s.Atom)
        return s.Negation(inner, place=self.place(tree))

    def _test(self, tree: _Tree) -> s.Body:
        name, left, right = tree.children
        return s.StringTest(str(name), self.term(left), self.term(right), place=self.place(tree))

    def _truth(self, tree: _Tree) -> s.Body:
        return s.Truth(str(tree.children[0]) == "true", place=self.place(tree))

    def _comparison(self, tree: _Tree) -> s.Body:
        left, operator, right = tree.children
        return s.Comparison(str(operator), self.term(left), self.term(right), place=self.place(tree))

    # terms -------------------------------------------------------------------------------------------

    def term(self, tree: Any) -> t.Term:
        """A term."""
        return self._deeper(tree, _TERMS[tree.data])

    def word(self, token: Any) -> str:
        """A name, which must not be a word of the language."""
        word = str(token)
        refusal = refused_word(word, self.place(token))
        if refusal is not None:
            raise refusal
        if word in RESERVED:
            raise DatalogError(
                f"'{word}' is a word of the language, not a name",
                hint=f"use another name, for instance {word}_",
                place=self.place(token),
            )
        return word

    def _variable(self, tree: _Tree) -> t.Term:
        return t.Variable(self.word(tree.children[0]), place=self.place(tree))

    def _wildcard(self, tree: _Tree) -> t.Term:
        return t.Wildcard(place=self.place(tree))

    def _number(self, tree: _Tree) -> t.Term:
        digits = str(tree.children[0]).rstrip("u")
        base = {"0x": 16, "0b": 2}.get(digits[:2], 10)
        return t.Number(int(digits, base), place=self.place(tree))

    def _real(self, tree: _Tree) -> t.Term:
        return t.Real(Decimal(str(tree.children[0])), place=self.place(tree))

    def _boolean(self, tree: _Tree) -> t.Term:
        return t.Boolean(str(tree.children[0]) == "true", place=self.place(tree))

    def _text(self, tree: _Tree) -> t.Term:
        token = tree.children[0]
        assert isinstance(token, Token)
        place = self.place(token)

        def meant(found: re.Match[str]) -> str:
            letter = found.group(1)
            if letter not in t.ESCAPES:
                raise DatalogError(
                    f"unknown escape sequence \\{letter} in a string",
                    hint=f"there are {', '.join(map(_escape, t.ESCAPES))}; a backslash itself is written \\\\",
                    place=Place(self.text, place.line, place.column + 1 + found.start(), 2),
                )
            return t.ESCAPES[letter]

        return t.Text(re.sub(r"\\(.)", meant, str(token)[1:-1]), place=place)

    def _unary(self, tree: _Tree) -> t.Term:
        operator, operand = str(tree.children[0]), self.term(tree.children[1])
        if operator == "-" and isinstance(operand, t.Number | t.Real) and not str(operand).startswith("-"):
            place = self.place(tree)
            if isinstance(operand, t.Real):
                return t.Real(operand.value.copy_negate(), place=place)
            return t.Number(-operand.value, place=place)
        return t.Unary(operator, operand, place=self.place(tree))

    def _binary(self, tree: _Tree) -> t.Term:
        left, operator, right = tree.children
        return t.Binary(str(operator), self.term(left), self.term(right), place=self.place(tree))

    def _call(self, tree: _Tree) -> t.Term:
        name, given = tree.children
        arguments = self._terms(given)
        functor = FUNCTORS[str(name)]
        if len(arguments) < functor.least or (functor.most is not None and len(arguments) > functor.most):
            raise DatalogError(
                f"{functor.name} takes {functor.counted}, not {len(arguments)}",
                hint=f"write {functor.name}({', '.join('abc'[: functor.least])})",
                place=self.place(tree),
            )
        return t.Call(functor.name, arguments, place=self.place(tree))

    def _user_call(self, tree: _Tree) -> t.Term:
        name, given = tree.children
        return t.Call(f"@{name}", self._terms(given), place=self.place(tree))

    def _terms(self, tree: Any) -> tuple[t.Term, ...]:
        return () if tree is None else tuple(map(self.term, tree.children))

    def _aggregate(self, tree: _Tree) -> t.Term:
        function, *target, scope = tree.children
        built = self.term(target[0]) if target else None
        body = self.body(scope)
        if count_alternatives(body) > 1:
            raise DatalogError(
                f"a semicolon inside {function} is not supported: what counts twice would be unclear",
                hint="give the alternatives a name: either(x) :- a(x); b(x). and aggregate over either(x)",
                place=self.place(tree),
            )
        return t.Aggregate(str(function), built, body, place=self.place(tree))


def _escape(letter: str) -> str:
    return "\\" + letter


_ITEMS: dict[str, Callable[[Builder, _Tree], s.Item]] = {
    "declaration": Builder.declaration,
    "directive": Builder.directive,
    "clause": Builder.clause,
}

_BODIES: dict[str, Callable[[Builder, Any], s.Body]] = {
    "conjunction": Builder._conjunction,
    "disjunction": Builder._disjunction,
    "atom": Builder.atom,
    "negation": Builder._negation,
    "test": Builder._test,
    "truth": Builder._truth,
    "comparison": Builder._comparison,
}

_TERMS: dict[str, Callable[[Builder, Any], t.Term]] = {
    "variable": Builder._variable,
    "wildcard": Builder._wildcard,
    "number": Builder._number,
    "real": Builder._real,
    "boolean": Builder._boolean,
    "text": Builder._text,
    "unary": Builder._unary,
    "binary": Builder._binary,
    "call": Builder._call,
    "user_call": Builder._user_call,
    "count": Builder._aggregate,
    "aggregate": Builder._aggregate,
}
