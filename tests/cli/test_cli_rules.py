"""The command line over rules and assertions: show, ls, history, doctor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import viewkeeper as vk
from viewkeeper.catalog.active_rules import Waiting
from viewkeeper.cli.database_checks import _check_rules


@pytest.fixture
def rules(run: Any, items: None) -> None:
    """Over the table of items: a rule, a rule with a parameter that is active for 10, and an assertion that warns."""
    run(
        "sql",
        "CREATE TABLE asked (item STRING, least INT);"
        "CREATE RULE reorder ON (SELECT item FROM items WHERE quantity < 20)"
        " DO INSERT INTO asked SELECT item, 20 FROM inserted;"
        "CREATE RULE below (least INT) IMMEDIATE PRIORITY 2 ON (SELECT item FROM items WHERE quantity < :least)"
        " DO INSERT INTO asked SELECT item, :least FROM inserted;"
        "ACTIVATE RULE below (10);"
        "CREATE ASSERTION has_price ON VIOLATION WARN CHECK (NOT EXISTS (SELECT * FROM items WHERE price IS NULL))",
    )


def test_show_has_the_definition_of_a_rule_and_its_last_firings(run: Any, rows: Any, rules: None) -> None:
    assert "it has not fired yet" in run("show", "below").stdout
    assert "fired: below, reorder" in run("sql", "UPDATE items SET quantity = 5 WHERE item = 'shoe'").stderr
    about = rows("show", "BELOW")
    assert about["definition"].startswith("CREATE RULE below (least INT) IMMEDIATE PRIORITY 2 ON (SELECT item")
    facts = {name: about[name] for name in ("kind", "on", "when", "coupling", "semantics", "priority", "enabled")}
    assert facts == {
        "kind": "rule",
        "on": "(SELECT item FROM items WHERE quantity < :least)",
        "when": "inserted",
        "coupling": "immediate",
        "semantics": "strict",
        "priority": 2,
        "enabled": True,
    }
    assert (about["parameters"], about["activations"]) == ([{"name": "least", "type": "INT"}], 1)
    assert about["uses"] == ["asked"]
    assert [(firing["rows"], firing["outcome"]) for firing in about["firings"]] == [(1, "done")]
    text = run("show", "below").stdout
    assert "activations: 1\nuses:        asked\n" in text
    assert "activations" not in run("show", "reorder").stdout
    run("sql", f"DROP RULE reorder; {rows('show', 'reorder')['definition']}")
    assert 'definition,"CREATE RULE reorder ON' in run("--format", "csv", "show", "reorder").stdout


def test_show_finds_a_rule_that_has_the_name_of_a_table(run: Any, rows: Any, rules: None) -> None:
    run("sql", "CREATE RULE items ON items DO INSERT INTO asked SELECT item, 0 FROM inserted")
    assert rows("show", "items")["kind"] == "table"
    assert rows("show", "items", "--rule")["kind"] == "rule"
    assert "hint: did you mean 'reorder'?" in run("show", "--rule", "reoder", code=1).stderr
    assert "hint: did you mean 'reorder'?" in run("show", "reoder", code=1).stderr
    assert "reorder is a rule" in run("show", "reorder", "--rows", "1", code=2).stderr


def test_show_and_ls_know_assertions(run: Any, rows: Any, rules: None) -> None:
    assert {row["name"]: row["kind"] for row in rows("ls")}["has_price"] == "assertion"
    about = rows("show", "has_price", "--rows", "9")
    assert about["definition"] == (
        "CREATE ASSERTION has_price ON VIOLATION WARN CHECK (NOT EXISTS (\nSELECT * FROM items WHERE price IS NULL\n));"
    )
    assert (about["on_violation"], about["reads"]) == ("warn", ["items"])
    assert [row["item"] for row in about["rows"]] == ["shirt"]
    assert "violation:   warn" in run("show", "has_price").stdout
    run("sql", f"DROP ASSERTION has_price; {about['definition']}")
    assert rows("show", "has_price")["definition"] == about["definition"]


def test_hidden_relations_are_called_after_their_rules(rows: Any, rules: None) -> None:
    hidden = {row["name"] for row in rows("ls", "--all")} - {row["name"] for row in rows("ls")}
    assert hidden == {
        "query of the rule reorder",
        "distinct rows of the rule reorder",
        "query of the rule below",
        "distinct rows of the rule below",
        "activations of the rule below",
    }


def test_history_says_what_was_done_to_rules_and_which_fired(run: Any, rows: Any, rules: None) -> None:
    run(
        "sql",
        "UPDATE items SET quantity = 5 WHERE item = 'shoe'; ALTER RULE reorder DISABLE; ALTER RULE reorder ENABLE;"
        "CREATE OR REPLACE RULE reorder ON items DO INSERT INTO asked SELECT item, 1 FROM inserted; DROP RULE below",
    )
    told = [row["changes"] for row in rows("history")][:8]
    assert told[:4] == [
        "dropped the rule below",
        "replaced the rule reorder",
        "enabled the rule reorder",
        "disabled the rule reorder",
    ]
    assert told[4].endswith("rule below fired for 1 row; rule reorder fired for 1 row")
    listed = rows("history", "--rules")
    assert [(row["rule"], row["rows"], row["outcome"]) for row in listed] == [
        ("below", 1, "done"),
        ("reorder", 1, "done"),
    ]
    assert rows("history", "--rules", "--limit", "1") == listed[:1]
    assert run("history", "--rules").stdout.startswith("epoch | rule ")


def test_history_names_the_rule_whose_activations_change(run: Any, rows: Any, rules: None) -> None:
    run("sql", "ACTIVATE RULE below (20)")
    assert rows("history", "--limit", "1")[0]["changes"] == "changed the activations of the rule below"
    assert "no rule has fired yet" in run("history", "--rules").stderr


def test_history_without_rules(run: Any, items: None) -> None:
    assert "there are no rules" in run("history", "--rules").stderr


def test_doctor_reports_parked_firings(run: Any, rows: Any, rules: None, tmp_path: Path) -> None:
    assert "Rule" not in {row["check"] for row in rows("doctor", "--quick")}
    with vk.connect(tmp_path / "lake") as db, db.transaction() as tx:
        rule = next(rule for rule in db._store.state.rules.values() if rule.name == "reorder")
        parked = [Waiting(rule.id, epoch, 1, attempts=9, parked="it answered 500") for epoch in (2, 3)]
        tx._tx.waiting += [firing.to_json() for firing in parked]
    (found,) = [row for row in rows("doctor", "--quick") if row["check"] == "Rule"]
    assert (found["status"], found["found"], found["todo"]) == (
        "note",
        "2 firings of reorder are parked, the first one of epoch 2: it answered 500",
        "mend the cause, then RETRY RULE reorder",
    )


def test_doctor_reports_a_rule_whose_table_is_gone(rules: None, tmp_path: Path) -> None:
    with vk.connect(tmp_path / "lake") as db:
        state = db._store.state
    without = {key: relation for key, relation in state.relations.items() if relation.name != "asked"}
    found = list(_check_rules(replace(state, relations=without)))
    assert [finding.status for finding in found] == ["problem", "problem"]
    assert found[0].found == "reorder watches or uses a relation that is not there any more"
