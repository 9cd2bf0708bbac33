"""Programs that make sense: what the check gives, and what it remarks."""

from __future__ import annotations

import pytest

from tests.datalog.programs import CONTRACT
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.types import Type
from viewkeeper.datalog.grounding import bound_variables
from viewkeeper.datalog.normal import normalize
from viewkeeper.datalog.parsing import parse
from viewkeeper.datalog.rule_queries import column_names
from viewkeeper.datalog.safety import Checked, check
from viewkeeper.errors import DatalogError

ORDERS = Schema((Column("id", Type("bigint")), Column("region", Type("string")), Column("day", Type("date"))))
OUTSIDE = {"node": None, "edge": None, "orders": ORDERS}


def checked(text: str) -> Checked:
    return check(parse(text), OUTSIDE)


def test_the_contract_s_example() -> None:
    found = checked(CONTRACT)
    assert [str(rule) for rule in found.rules] == [
        "path(x, y) :- edge(x, y).",
        "path(x, z) :- path(x, y), edge(y, z).",
        "lonely(x) :- node(x), !path(x, _).",
        "deg(x, n) :- node(x), _1 = count : { edge(x, _) }, n = _1.",
    ]
    assert (found.inputs, found.outputs, found.removed, found.remarks) == (("edge",), ("path",), (), ())
    assert found.schemas["path"].ddl == "`x` string, `y` string"
    assert [column_names(rule) for rule in found.rules[2:]] == [("x",), ("x", "n")]


@pytest.mark.parametrize(
    "text",
    [
        "p(x) :- y = x, node(y).",
        "p(z) :- z = y + 1, y = x + 1, node(x).",
        "p(x) :- x = 3.",
        'p(x) :- x = cat("a", "b"), contains("a", x).',
        "p(n + 1) :- n = count : { node(_) }.",
        "p(m) :- n = count : { node(_) }, m = n * 2, m > 3.",
        "p(n) :- node(x), y = x + 1, n = count : { edge(y, _) }.",
        "p(n) :- node(x), k = count : { edge(x, _) }, n = count : { edge(_, k) }.",
        "p(x) :- node(x), 0 = count : { edge(x, y), z = y + 1, node(z), z < x, !edge(z, _) }.",
        "p(x) :- node(x), edge(x, x + 1).",
        "p(x) :- node(x), !edge(x, x + 1), !edge(_, x).",
        "p(1 + 2, count : { node(_) }).",
        "p(x), q(y) :- edge(x, y).",
        "p(x) :- node(x); edge(x, _).",
        'p(x) :- orders(x, "EU", "2024-12-31"), orders(_, r, d), d > "2024-01-01", r != "US".',
        "p(x) :- orders(x, r, _), r = to_string(x), strlen(r) < x.",
        'p(m) :- m = max r : { orders(_, r, _) }, contains("E", m).',
        "p(y) :- node(x), y = x ^ 2.",
    ],
)
def test_safe_rules(text: str) -> None:
    checked(text)


def test_bound_variables() -> None:
    (rule,) = normalize(parse("p(a) :- node(x), b = a, a = x + 1, c < 1, d + 1 = x, !edge(e, _).").clauses[0])
    assert bound_variables(rule.body) == {"x", "a", "b"}
    assert bound_variables(rule.body, ["e"]) == {"x", "a", "b", "e"}


def test_constants_of_all_types() -> None:
    checked(
        """
        .decl t(n:number, u:unsigned, f:float, s:symbol, i:tinyint, d:decimal(4,2), e:date, m:timestamp, b:boolean)
        t(-1, 1, 1, "a", -128, 12.5, "2024-02-29", "2024-02-29 12:30:00.5", true).
        t(9223372036854775807, 0, -1.25, "", 127, -99.990, "0001-01-01", "2024-02-29T12:30Z", false).
        """
    )


def test_rules_that_are_removed_are_kept_apart() -> None:
    found = checked("+ p(x) :- node(x).\n- p(x) :- edge(x, _).")
    assert [str(rule) for rule in found.rules] == ["p(x) :- node(x)."]
    assert [str(rule) for rule in found.removed] == ["p(x) :- edge(x, _)."]


def test_a_rule_for_a_relation_that_is_there_already() -> None:
    assert checked("+ orders(x, r, d) :- edge(x, r), edge(r, d).").schemas == {}
    with pytest.raises(DatalogError, match="Mismatching arity of relation orders"):
        checked("+ orders(x, r) :- edge(x, r).")


def test_a_table_may_have_facts() -> None:
    checked('.decl e(x:symbol)\n.input e\ne("a").')


def test_functions_that_are_declared() -> None:
    program = parse("p(y) :- node(x), y = @f(x).")
    assert len(check(program, OUTSIDE, functions=["f"]).rules) == 1


def test_inferred_names_of_columns() -> None:
    found = checked("p(x, x, 3, _y, Z, z, ?w) :- edge(x, _y), edge(Z, z), node(?w).")
    assert column_names(found.rules[0]) == ("x", "c2", "c3", "c4", "Z", "c6", "c7")
    found = checked("p(c2, 3, C4, 5) :- edge(c2, C4).")
    assert column_names(found.rules[0]) == ("c2", "c2_", "C4", "c4_")


def test_remarks() -> None:
    found = checked(
        ".decl q(x:number)\n"
        "p(x) :- edge(x, y), q(x).\n"
        "r(_x) :- node(_x), edge(_once, _).\n"
        "s(n) :- n = count : { node(z) }."
    )
    assert [str(remark) for remark in found.remarks] == [
        """No rules/facts defined for relation q
at line 1, column 7:
  .decl q(x:number)
        ^
hint: write .input q if it is a table, or rules for it""",
        """Variable y only occurs once
at line 2, column 17:
  p(x) :- edge(x, y), q(x).
                  ^
hint: write _ if any value will do""",
        """Variable _x marked as singleton but occurs more than once
at line 3, column 3:
  r(_x) :- node(_x), edge(_once, _).
    ^^
hint: begin its name with a letter, or write _ for any value each time""",
        """Variable z only occurs once
at line 4, column 28:
  s(n) :- n = count : { node(z) }.
                             ^
hint: write _ if any value will do""",
    ]
