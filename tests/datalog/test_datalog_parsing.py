"""Reading programs: what each construct becomes, where it stands, and that its text reads back to the same tree."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.datalog.programs import CONTRACT, READABLE
from viewkeeper.algebra.types import Type
from viewkeeper.datalog import program_tree as s
from viewkeeper.datalog import terms as t
from viewkeeper.datalog.parsing import parse
from viewkeeper.datalog.terms import Node
from viewkeeper.datalog.walking import walk


@pytest.mark.parametrize("text", READABLE)
def test_canonical_text_reads_back_to_an_equal_tree(text: str) -> None:
    program = parse(text)
    again = parse(str(program))
    assert again == program
    assert str(again) == str(program)
    assert hash(again) == hash(program)


def test_the_contract_s_example() -> None:
    assert (
        str(parse(CONTRACT))
        == """\
.decl edge(x:symbol, y:symbol)
.input edge
.decl path(x:symbol, y:symbol)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
lonely(x) :- node(x), !path(x, _).
deg(x, n) :- node(x), n = count : { edge(x, _) }.
"""
    )


def only_argument(text: str) -> t.Term:
    (clause,) = parse(f"p({text}).").clauses
    return clause.heads[0].arguments[0]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1+2*3", "1 + 2 * 3"),
        ("(1+2)*3", "(1 + 2) * 3"),
        ("1-2-3", "1 - 2 - 3"),
        ("1-(2-3)", "1 - (2 - 3)"),
        ("2^3^4", "2 ^ 3 ^ 4"),
        ("(2^3)^4", "(2 ^ 3) ^ 4"),
        ("-2^2", "-2 ^ 2"),
        ("(-2)^2", "(-2) ^ 2"),
        ("-(3)", "-3"),
        ("- -3", "-(-3)"),
        ("1--3", "1 - -3"),
        ("1 bor 2 bxor 3 band 4 bshl 5 + 6", "1 bor 2 bxor 3 band 4 bshl 5 + 6"),
        ("((((1 bor 2) bxor 3) band 4) bshl 5) + 6", "((((1 bor 2) bxor 3) band 4) bshl 5) + 6"),
        ("bnot 1 + 2", "bnot 1 + 2"),
        ("bnot (1 + 2)", "bnot (1 + 2)"),
        ("7u", "7"),
        ("0xff", "255"),
        ("0b101u", "5"),
        ("1.50", "1.50"),
        ("-0.1234567890123456789012345678901234567", "-0.1234567890123456789012345678901234567"),
    ],
)
def test_terms(text: str, canonical: str) -> None:
    assert str(only_argument(text)) == canonical


def test_operators_bind_as_in_souffle() -> None:
    def grouped(term: t.Term) -> str:
        match term:
            case t.Binary():
                return f"({grouped(term.left)} {term.operator} {grouped(term.right)})"
            case t.Unary():
                return f"({term.operator} {grouped(term.operand)})"
            case _:
                return str(term)

    assert grouped(only_argument("1 + 2 * 3 - 4 % 5 / 6")) == "((1 + (2 * 3)) - ((4 % 5) / 6))"
    assert grouped(only_argument("-2 ^ 2")) == "(- (2 ^ 2))"
    assert grouped(only_argument("2 ^ -3 ^ 4")) == "(2 ^ (- (3 ^ 4)))"
    assert grouped(only_argument("2 ^ 3 ^ 4")) == "(2 ^ (3 ^ 4))"
    assert grouped(only_argument("-2 * 3")) == "(-2 * 3)"
    assert grouped(only_argument("1 bor 2 bxor 3 band 4 bshr 5 + 6")) == "(1 bor (2 bxor (3 band (4 bshr (5 + 6)))))"


def test_constants_have_their_values() -> None:
    values = [
        term.value
        for term in parse(r'p(0x1F, -3, 1.50, "a\n\"b\"\\", true).').clauses[0].heads[0].arguments
        if isinstance(term, t.Number | t.Real | t.Text | t.Boolean)
    ]
    assert values == [31, -3, Decimal("1.50"), 'a\n"b"\\', True]


def test_types_of_columns() -> None:
    (declaration,) = parse(
        ".decl a(n:number, u:unsigned, f:float, s:symbol, i:INT, d:DECIMAL(10, 2), v:varchar(5), r:real, t:Timestamp)"
    ).declarations
    assert [(column.spelling, column.type) for column in declaration.columns] == [
        ("number", Type("bigint")),
        ("unsigned", Type("bigint")),
        ("float", Type("double")),
        ("symbol", Type("string")),
        ("int", Type("int")),
        ("decimal(10,2)", Type("decimal", 10, 2)),
        ("varchar(5)", Type("string", length=5)),
        ("real", Type("float")),
        ("timestamp", Type("timestamp")),
    ]


def test_brackets_and_flattening() -> None:
    (clause,) = parse("p(x) :- (a(x), (b(x), c(x))), (d(x); (e(x); f(x))).").clauses
    assert isinstance(clause.body, s.Conjunction)
    assert [str(part) for part in clause.body.parts] == ["a(x)", "b(x)", "c(x)", "d(x); e(x); f(x)"]
    assert str(clause) == "p(x) :- a(x), b(x), c(x), (d(x); e(x); f(x))."


def test_an_aggregate_without_braces_is_the_same() -> None:
    assert parse("p(n) :- n = count : a(_).") == parse("p(n) :- n = count : { a(_) }.")


def test_signs_and_exact_texts() -> None:
    text = "+ path(x,y)  :-  ferry(x,y). // new\n- path(x,\n  y) :- /* old */ bus(x, y).\nnode(1)."
    plus, minus, plain = parse(text).clauses
    assert (plus.sign, plus.text) == ("+", "+ path(x,y)  :-  ferry(x,y).")
    assert (minus.sign, minus.text) == ("-", "- path(x,\n  y) :- /* old */ bus(x, y).")
    assert (plain.sign, plain.text, plain.body) == ("", "node(1).", None)
    assert str(minus) == "- path(x, y) :- bus(x, y)."


def test_every_node_knows_its_place() -> None:
    text = "p(x) :- edge(x, y),\n  !q(y, 3),\n  n = count : { r(x) }, n < y + 1."
    places = {str(node): node.place for node in walk(parse(text).clauses[0])}

    def underlined(node: str) -> str:
        place = places[node]
        assert place.text == text
        line = text.split("\n")[place.line - 1]
        return line[place.column - 1 : place.column - 1 + place.length]

    for node in ("edge(x, y)", "!q(y, 3)", "q(y, 3)", "3", "count : { r(x) }", "r(x)", "n < y + 1", "y + 1"):
        assert underlined(node) == node
    assert places["!q(y, 3)"].line == 2


def test_places_do_not_count() -> None:
    assert parse("p(x):-q(x).") == parse("\n\n  p( x ) :-\n q( x ) .")
    assert parse("p(x) :- q(x).") != parse("p(y) :- q(y).")


def test_walk_reaches_every_kind_of_node() -> None:
    found = {type(node) for text in READABLE for node in walk(parse(text))}

    def kinds(kind: type[Node]) -> set[type[Node]]:
        return {kind}.union(*(kinds(below) for below in kind.__subclasses__()))

    own = {kind for kind in kinds(Node) if kind.__module__ in (s.__name__, t.__name__)} - {Node}
    assert own == found
