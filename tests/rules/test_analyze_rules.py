"""The analysis of a file with rules and assertions, without a database and without an engine."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.rules.test_explain_rule import LEGEND
from viewkeeper import errors
from viewkeeper.advice.script_analysis import analyze_script

TABLES = "CREATE TABLE item (id INT PRIMARY KEY, q INT, note STRING); CREATE TABLE orders (item INT, q INT);"
VIEWS = """
CREATE MATERIALIZED VIEW low AS SELECT id, q FROM item WHERE q < 5;
CREATE VIEW idle AS SELECT l.id FROM low l WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.item = l.id);
"""
BUY = "CREATE RULE buy ON idle WHEN INSERTED DO INSERT INTO orders SELECT id, 9 FROM inserted;"
FILL = """
CREATE RULE fill ON orders WHEN INSERTED IF (EXISTS (SELECT * FROM low))
    DO UPDATE item SET q = 3 WHERE id IN (SELECT item FROM inserted);
"""
CYCLE = (
    "the rules fill and buy may trigger each other: fill writes item, buy writes orders; "
    "a cascade without end is given up, and nothing is changed"
)
ORDER = (
    "the rules buy and fill have the same priority, and buy writes orders, which fill reads: buy, the older one, "
    "goes first; PRIORITY can say otherwise"
)


def test_rules_of_a_file() -> None:
    found = analyze_script(TABLES + VIEWS + BUY + FILL)
    assert [view.name for view in found.views] == ["low", "idle"]
    assert "\n".join(map(str, found.rules)) == dedent(
        f"""\
        buy: a rule that changes of item, orders can trigger, writes orders
        fill: a rule that changes of orders can trigger, writes item
          {CYCLE}
          {ORDER}"""
    )
    assert found.to_json()["rules"][1] == {
        "rule": "fill",
        "watches": ["orders"],
        "writes": ["item"],
        "warnings": [CYCLE, ORDER],
    }


def test_columns_and_kinds_that_cannot_trigger() -> None:
    found = analyze_script(
        TABLES
        + VIEWS
        + "CREATE RULE note ON low WHEN INSERTED DO UPDATE item SET note = 'low';"
        + "CREATE RULE copy PRIORITY 1 ON orders WHEN DELETED DO INSERT INTO orders SELECT item, 0 FROM deleted;"
        + "CREATE RULE hook DETACHED ON (SELECT id FROM item) WHEN DELETED DO WEBHOOK 'https://example.com/';"
    )
    assert [rule.warnings for rule in found.rules] == [(), (), ()]
    assert str(found.rules[2]) == "hook: a rule that changes of item can trigger"


def test_what_a_python_function_writes_is_not_known() -> None:
    (found,) = analyze_script(TABLES + "CREATE RULE f ON orders DO PYTHON f;").rules
    assert str(found) == "f: a rule that changes of orders can trigger, writes what is not known"
    assert (found.writes, found.to_json()["writes"], found.warnings) == (None, None, ())


def test_a_nervous_rule_with_parameters() -> None:
    text = (
        "CREATE RULE r (which INT) NERVOUS ON (SELECT id FROM item WHERE id = :which) "
        "WHEN INSERTED DO DELETE FROM item WHERE id = :which;"
        "CREATE RULE s (which INT) NERVOUS ON (SELECT count(*) AS n FROM item WHERE id = :which) "
        "WHEN INSERTED DO DELETE FROM item WHERE id = :which;"
    )
    r, s = analyze_script(TABLES + text).rules
    assert r.warnings == ()
    assert s.warnings[0].startswith("the rule s may trigger itself: it writes item, which it watches")


def test_an_assertion_of_a_file() -> None:
    found = analyze_script(
        TABLES + "CREATE ASSERTION paid CHECK (NOT EXISTS "
        "(SELECT o.item FROM orders o WHERE o.q > 10 AND NOT EXISTS (SELECT 1 FROM item i WHERE i.id = o.item)))"
    )
    assert (
        str(found)
        == dedent(
            """\
        paid: an assertion
        orders
          DELETE cannot break it: deletes from orders can only delete rows of the query
          INSERT and UPDATE are checked:
            only changed rows with q > 10 are looked at
            δ = (σ[q > 10](δorders) ▷ item@new)[item = id]
            reads item@new by id
        item
          INSERT cannot break it: inserts into item can only delete rows of the query
          UPDATE of q, note cannot break it: the query does not read them
          DELETE and UPDATE of id are checked:
            δ = new−old ((σ[q > 10](orders@old)⋉K[item] ▷ item@old⋉K[id] | ⊎ δitem)[item = id ∧ state = state])
            reads orders@old by item
            reads item@old by id
        """
        )
        + LEGEND
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE RULE r ON nowhere WHEN INSERTED DO DELETE FROM item", "there is no table or view named 'nowhere'"),
        ("CREATE RULE r ON item WHEN INSERTED DO DELETE FROM nowhere", "there is no table or view named 'nowhere'"),
        ("CREATE RULE r ON item WHEN INSERTED DO SELECT 1", "the action of a rule changes tables: SELECT cannot"),
        ("DROP TABLE item", "this is neither a table, a view, an assertion nor a rule"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(errors.ViewkeeperError) as caught:
        analyze_script(TABLES + text)
    assert message in str(caught.value)
