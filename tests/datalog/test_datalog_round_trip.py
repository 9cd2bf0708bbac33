"""Random trees: their text reads back to an equal tree."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from viewkeeper.datalog import program_tree as s
from viewkeeper.datalog import terms as t
from viewkeeper.datalog.normal import normalize
from viewkeeper.datalog.parsing import parse
from viewkeeper.datalog.sameness import same_rule
from viewkeeper.datalog.walking import names, renamed, variables
from viewkeeper.errors import Place

HERE = Place("", 1, 1)

constants = st.one_of(
    st.integers(-(10**20), 10**20).map(lambda value: t.Number(value, place=HERE)),
    st.decimals(-1000, 1000, places=3).map(lambda value: t.Real(Decimal(value), place=HERE)),
    st.text(st.characters(exclude_characters="\r", exclude_categories=("Cs",))).map(lambda v: t.Text(v, place=HERE)),
)
names_of_variables = st.sampled_from(["x", "y", "z", "_w", "?v"])
leaves = st.one_of(
    constants,
    names_of_variables.map(lambda name: t.Variable(name, place=HERE)),
    st.just(t.Wildcard(place=HERE)),
)


def unary(operator: str, operand: t.Term) -> t.Term:
    """As the parser makes it: the sign of a number belongs to the number."""
    if operator == "-" and isinstance(operand, t.Number | t.Real) and not str(operand).startswith("-"):
        return operand
    return t.Unary(operator, operand, place=HERE)


def wider(term: st.SearchStrategy[t.Term]) -> st.SearchStrategy[t.Term]:
    several = st.lists(term, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(unary, st.sampled_from(["-", "bnot"]), term),
        st.builds(lambda o, a, b: t.Binary(o, a, b, place=HERE), st.sampled_from(sorted(t.LEVELS)), term, term),
        st.builds(lambda f, a: t.Call(f, a, place=HERE), st.sampled_from(["cat", "min", "max", "@f"]), several),
        st.builds(lambda a: t.Aggregate("count", None, a, place=HERE), literals(term)),
        st.builds(
            lambda f, a, b: t.Aggregate(f, a, b, place=HERE),
            st.sampled_from(["sum", "min", "max", "mean"]),
            term,
            literals(term),
        ),
    )


def atoms(term: st.SearchStrategy[t.Term]) -> st.SearchStrategy[s.Atom]:
    argument = st.one_of(term, st.booleans().map(lambda value: t.Boolean(value, place=HERE)))
    arguments = st.lists(argument, min_size=1, max_size=3).map(tuple)
    return st.builds(lambda n, a: s.Atom(n, a, place=HERE), st.sampled_from(["p", "q", "Edge"]), arguments)


def literals(term: st.SearchStrategy[t.Term]) -> st.SearchStrategy[s.Literal]:
    operators = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
    tests = st.sampled_from(["contains", "match"])
    return st.one_of(
        atoms(term),
        atoms(term).map(lambda atom: s.Negation(atom, place=HERE)),
        st.builds(lambda o, a, b: s.Comparison(o, a, b, place=HERE), operators, term, term),
        st.builds(lambda n, a, b, c: s.StringTest(n, a, b, c, place=HERE), tests, term, term, st.booleans()),
        st.booleans().map(lambda holds: s.Truth(holds, place=HERE)),
    )


terms = st.recursive(leaves, wider, max_leaves=8)


def joined(kind: type[s.Conjunction] | type[s.Disjunction], parts: list[s.Body]) -> s.Body:
    """As the parser makes it: no conjunction right in a conjunction, no disjunction right in a disjunction."""
    flat = tuple(p for part in parts for p in (part.parts if isinstance(part, kind) else (part,)))
    return kind(flat, place=HERE) if len(flat) > 1 else flat[0]


bodies: st.SearchStrategy[s.Body] = st.recursive(
    literals(terms),
    lambda body: st.one_of(
        st.lists(body, min_size=2, max_size=3).map(lambda parts: joined(s.Conjunction, parts)),
        st.lists(body, min_size=2, max_size=3).map(lambda parts: joined(s.Disjunction, parts)),
    ),
    max_leaves=5,
)
clauses = st.builds(
    lambda sign, heads, body: s.Clause(sign, tuple(heads), body, "", place=HERE),
    st.sampled_from(["", "+", "-"]),
    st.lists(atoms(terms), min_size=1, max_size=2),
    bodies,
)


programs = st.lists(clauses, max_size=2).map(lambda items: s.Program(tuple(items), place=HERE))


def few(max_examples: int) -> settings:
    """What the normal run tries; the long form tries ten times as many."""
    return settings(max_examples=max_examples, deadline=None)


def many(max_examples: int) -> settings:
    return settings(max_examples=10 * max_examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def reads_back(program: s.Program) -> None:
    assert parse(str(program)) == program


def stays_the_same(clause: s.Clause) -> None:
    other = renamed(clause, {"x": "a", "y": "x", "z": "y", "_w": "?w", "?v": "_v"})
    assert same_rule(clause, other)


def has_one_variable_for_a_name(clause: s.Clause) -> None:
    """Variables of an aggregate that are not shared stand nowhere else."""
    for rule in normalize(clause):
        around = set(names(variables([rule.head, *rule.body.positive, *rule.body.negated, *rule.body.constraints])))
        for aggregate in rule.body.aggregates:
            inside = set(names(variables([aggregate.body])))
            assert inside & around <= {variable.name for variable in aggregate.outer}
            others = [other for other in rule.body.aggregates if other is not aggregate]
            shared = {variable.name for variable in aggregate.outer}
            assert not (inside - shared) & set(names(variables(others)))


@few(80)
@given(programs)
def test_random_programs_read_back(program: s.Program) -> None:
    reads_back(program)


@few(60)
@given(clauses)
def test_a_rule_stays_the_same_when_its_variables_are_renamed(clause: s.Clause) -> None:
    stays_the_same(clause)


@few(60)
@given(clauses)
def test_in_a_normal_rule_a_name_is_one_variable(clause: s.Clause) -> None:
    has_one_variable_for_a_name(clause)


@pytest.mark.long
@many(80)
@given(programs)
def test_many_random_programs_read_back(program: s.Program) -> None:
    reads_back(program)


@pytest.mark.long
@many(60)
@given(clauses)
def test_many_rules_stay_the_same_and_have_one_variable_for_a_name(clause: s.Clause) -> None:
    stays_the_same(clause)
    has_one_variable_for_a_name(clause)
