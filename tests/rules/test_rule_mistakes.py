"""Mistakes in CREATE RULE, each with the place and what to type instead."""

from __future__ import annotations

import pytest

import viewkeeper as vk

MISTAKES = [
    (
        "CREATE RULE r ON SELECT a FROM t DO DELETE FROM log",
        "a query that a rule watches stands in brackets\nat line 1, column 18:\n"
        "  CREATE RULE r ON SELECT a FROM t DO DELETE FROM log\n"
        "                   ^^^^^^\nhint: ON (SELECT ...) DO ...",
    ),
    (
        "CREATE RULE r ON t PRIORITY 3 DO DELETE FROM log",
        "expected DO and an action here\nat line 1, column 20:\n  CREATE RULE r ON t PRIORITY 3 DO DELETE FROM log\n"
        "                     ^^^^^^^^\nhint: PRIORITY stands before ON: CREATE RULE r PRIORITY ... ON t DO ...",
    ),
    (
        "CREATE RULE r ON t IF (SELECT 1) > 1 DO DELETE FROM log",
        "expected DO and an action here\nat line 1, column 34:\n"
        "  CREATE RULE r ON t IF (SELECT 1) > 1 DO DELETE FROM log\n                                   ^\n"
        "hint: all of the condition stands in brackets: IF ((SELECT 1) ...) DO ...",
    ),
    (
        "CREATE RULE r ON (SELECT a FROM t WHERE a > :x) DO DELETE FROM log",
        "the rule has no parameter ':x'\nat line 1, column 45:\n"
        "  CREATE RULE r ON (SELECT a FROM t WHERE a > :x) DO DELETE FROM log\n"
        "                                              ^^\nhint: declare it: CREATE RULE name (x TYPE) ...",
    ),
    (
        "CREATE RULE r ON t DO INSERT INTO lg SELECT a FROM inserted",
        "there is no table named 'lg'\nat line 1, column 35:\n"
        "  CREATE RULE r ON t DO INSERT INTO lg SELECT a FROM inserted\n"
        "                                    ^^\nhint: did you mean 'log'?",
    ),
]


@pytest.fixture
def shop(db: vk.Database) -> vk.Database:
    """A table and one for rules to write to."""
    db.sql("CREATE TABLE t (a INT PRIMARY KEY); CREATE TABLE log (a INT, b INT)")
    return db


@pytest.mark.spark_long
@pytest.mark.parametrize(("statement", "told"), MISTAKES)
def test_mistakes(shop: vk.Database, statement: str, told: str) -> None:
    with pytest.raises(vk.errors.ViewkeeperError) as caught:
        shop.sql(statement)
    assert str(caught.value) == told


def test_an_action_with_too_few_values_is_refused_when_the_rule_is_made(shop: vk.Database) -> None:
    with pytest.raises(vk.errors.TypeMismatch, match="found in the action of the rule"):
        shop.sql("CREATE RULE r ON t DO INSERT INTO log SELECT a FROM inserted")
    assert shop.sql("SHOW RULES").rows() == []
