"""EXPLAIN RULE, word for word: the rule, and the network through which changes reach it."""

from __future__ import annotations

from textwrap import dedent

import pytest

import viewkeeper as vk

pytestmark = pytest.mark.spark_long

LEGEND = "δR = ΔR − ∇R: inserted rows less deleted ones; @old and @new: before and after; ⋉K: only touched keys"

TABLES = """
CREATE TABLE item (id BIGINT PRIMARY KEY, name STRING, quantity INT NOT NULL, threshold INT NOT NULL);
CREATE TABLE supplies (supplier STRING, item BIGINT, days INT, PRIMARY KEY (supplier, item));
CREATE TABLE orders (item BIGINT, amount INT);
"""


def explained(db: vk.Database, name: str) -> str:
    """The explanation, in which no hidden name may stand."""
    text = "\n".join(line for (line,) in db.sql(f"EXPLAIN RULE {name}").rows())
    assert text == db.explain_rule(name)
    assert "_vk" not in text
    return text


def lines(text: str) -> str:
    return dedent(text).strip().replace("LEGEND", LEGEND)


INVENTORY = """
CREATE VIEW low AS
    SELECT i.id, s.supplier, i.quantity FROM item i JOIN supplies s ON s.item = i.id WHERE i.quantity < i.threshold;
CREATE RULE order_more {} ON low WHEN INSERTED DO INSERT INTO orders SELECT id, quantity FROM inserted
"""


def test_the_inventory(db: vk.Database) -> None:
    db.sql(TABLES + INVENTORY.format("STRICT PRIORITY 5"))
    assert explained(db, "ORDER_MORE") == lines(
        """
        order_more: an active rule, strict, deferred
        watches low, a view
        triggered by inserted rows
          rows with the same (id, supplier) before and after are updates, neither inserted nor deleted
        considered before the commit, with priority 5
        action, once for all rows:
          INSERT INTO orders SELECT id, quantity FROM inserted
        propagation network:
          level 0, tables: item, supplies
          level 1, low: not stored; its change is derived when one of these changes
            item → low carries +
              − is pruned: deletes from item can only delete rows
              updates of name are pruned: it is not read
              δ = (σ[quantity < threshold](δitem) ⋈ supplies@old)[item = id]
              reads supplies@old by item
            supplies → low carries +
              − is pruned: deletes from supplies can only delete rows
              updates of days are pruned: it is not read
              δ = (σ[quantity < threshold](item@new) ⋈ δsupplies)[item = id]
              reads item@new by id
          a transaction with nothing but pruned changes derives nothing; beside others they may cancel rows
        stored for the rule: nothing
        LEGEND
        """
    )


def test_the_inventory_nervous(db: vk.Database) -> None:
    db.sql(TABLES + INVENTORY.format("NERVOUS"))
    assert explained(db, "order_more") == lines(
        """
        order_more: an active rule, nervous, deferred
        watches low, a view
        triggered by inserted rows
          also by rows that were there before, if a change has touched them and they are there after it
        considered before the commit, with priority 0
        action, once for all rows:
          INSERT INTO orders SELECT id, quantity FROM inserted
        propagation network:
          level 0, tables: item, supplies
          level 1, low: not stored; its change is derived when one of these changes
            item → low carries +
              − is pruned: no operator counts or negates rows
              updates of name are pruned: it is not read
              N = (σ[quantity < threshold](Δitem) ⋈ supplies@new)[item = id]
              reads supplies@new by item
            supplies → low carries +
              − is pruned: no operator counts or negates rows
              updates of days are pruned: it is not read
              N = (σ[quantity < threshold](item@new) ⋈ Δsupplies)[item = id]
              reads item@new by id
        stored for the rule: nothing
        N: the rows that are there after the change and were touched by it; ΔR: inserted rows; LEGEND
        """
    )


def test_an_aggregate_over_a_stored_view(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE MATERIALIZED VIEW big AS SELECT item, amount FROM orders WHERE amount > 10")
    db.sql(
        "CREATE RULE many ON (SELECT item, count(*) AS n, sum(amount) AS total FROM big GROUP BY item) "
        "WHEN UPDATED OR DELETED IF (EXISTS (SELECT * FROM new WHERE n > 3)) "
        "DO UPDATE item SET threshold = 0 WHERE id IN (SELECT item FROM new)"
    )
    assert explained(db, "many") == lines(
        """
        many: an active rule, strict, deferred
        watches a query:
          SELECT item, count(*) AS n, sum(amount) AS total FROM big GROUP BY item
        triggered by updated rows and by deleted rows
          rows with the same (item) before and after are updates, neither inserted nor deleted
        considered before the commit, with priority 0
        condition: EXISTS (SELECT * FROM new WHERE n > 3)
        action, once for all rows:
          UPDATE item SET threshold = 0 WHERE id IN (SELECT item FROM new)
        propagation network:
          level 0, tables: orders
          level 1, big: a materialized view, maintained anyway (EXPLAIN VIEW big)
            orders → big carries + and −
          level 2, the query of the rule: not stored; its change is derived when one of these changes
            big → the query of the rule carries + and −
              δ = π[item, count(*), sum(amount)](new−old (γ[item, state; count(*), sum(amount)](big@old⋉K[item] | ⊎ δbig)))
              looks only at groups of big by item whose count or sum of amount changes
              reads big@old by item
        stored for the rule: nothing
        LEGEND
        """  # noqa: E501
    )


def test_a_stored_view_carries_what_can_trigger(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE MATERIALIZED VIEW idle AS SELECT id FROM item EXCEPT SELECT item FROM orders")
    db.sql("CREATE RULE busy ON idle WHEN DELETED DO INSERT INTO orders SELECT id, 1 FROM deleted")
    assert (
        explained(db, "busy").splitlines()[7:]
        == lines(
            """
        propagation network:
          level 0, tables: item, orders
          level 1, idle: a materialized view, maintained anyway (EXPLAIN VIEW idle); the rule sees its change
            item → idle carries −
              + cannot trigger the rule: inserts into item can only insert rows
            orders → idle carries +
              − cannot trigger the rule: deletes from orders can only insert rows
        stored for the rule: nothing
        LEGEND
        """
        ).splitlines()
    )


def test_a_recursion(db: vk.Database) -> None:
    db.sql(TABLES + "CREATE TABLE edge (x INT, y INT)")
    db.sql(
        "CREATE VIEW path AS WITH RECURSIVE p(x, y) AS "
        "(SELECT x, y FROM edge UNION SELECT p.x, e.y FROM p JOIN edge e ON e.x = p.y) SELECT x, y FROM p"
    )
    db.sql("CREATE RULE cut ON path WHEN DELETED DO INSERT INTO orders SELECT x, y FROM deleted")
    assert explained(db, "cut") == lines(
        """
        cut: an active rule, strict, deferred
        watches path, a view
        triggered by deleted rows
          its key has all columns: there are no updates
        considered before the commit, with priority 0
        action, once for all rows:
          INSERT INTO orders SELECT x, y FROM deleted
        propagation network:
          level 0, tables: edge
          level 1, path: not stored; its change is derived when one of these changes
            edge → path carries −
              + is pruned: inserts into edge can only insert rows
              δ = δμ[p: 2 rules]
              p is a recursion that is not stored: round by round, edge is read by keys
                p :- SELECT x, y FROM edge
                p :- SELECT p.x, e.y FROM p JOIN edge AS e ON e.x = p.y
          a transaction with nothing but pruned changes derives nothing; beside others they may cancel rows
        stored for the rule: nothing
        LEGEND
        """
    )


def test_an_anti_join_turns_the_polarity(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql(
        "CREATE RULE alone IMMEDIATE ON (SELECT i.name FROM item i WHERE i.quantity < 5 AND NOT EXISTS "
        "(SELECT 1 FROM orders o WHERE o.item = i.id)) WHEN INSERTED DO INSERT INTO supplies VALUES ('a', 1, 2)"
    )
    assert explained(db, "alone") == lines(
        """
        alone: an active rule, strict, immediate
        watches a query:
          SELECT i.name FROM item i WHERE i.quantity < 5 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.item = i.id)
        triggered by inserted rows
          it has no key: there are no updates, and a row counts once however often it occurs
        considered after each statement and before the commit, with priority 0
        action, once for all rows:
          INSERT INTO supplies VALUES ('a', 1, 2)
        propagation network:
          level 0, tables: item, orders
          level 1, the distinct rows of the query of the rule: not stored; its change is derived when one of these changes
            item → the distinct rows of the query of the rule carries +
              − is pruned: deletes from item can only delete rows
              updates of threshold are pruned: it is not read
              rows without quantity < 5 are pruned before anything is read
              δ = new−old (ε((σ[quantity < 5](item@old) ▷ orders@old)[id = item]⋉K[name] | ⊎ (σ[quantity < 5](δitem) ▷ orders@new)[id = item]))
              reads orders@new and orders@old by item
              reads item@old by name
            orders → the distinct rows of the query of the rule carries −
              + is pruned: inserts into orders can only delete rows
              updates of amount are pruned: it is not read
              δ = new−old (ε((σ[quantity < 5](item@old) ▷ orders@old)[id = item]⋉K[name] | ⊎ new−old ((σ[quantity < 5](item@old)⋉K[id] ▷ orders@old⋉K[item] | ⊎ δorders)[id = item ∧ state = state])))
              reads item@old by id
              reads orders@old by item
              reads item@old by name
          a transaction with nothing but pruned changes derives nothing; beside others they may cancel rows
        stored for the rule: nothing
        LEGEND
        """  # noqa: E501
    )


def test_parameters_and_activations(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql(
        "CREATE RULE watch (which BIGINT) ON (SELECT id, quantity FROM item WHERE id = :which AND quantity < 10) "
        "WHEN INSERTED FOR EACH ROW DO INSERT INTO orders VALUES (:which, new.quantity)"
    )
    db.sql("ACTIVATE RULE watch (1); ACTIVATE RULE watch (2); ALTER RULE watch DISABLE")
    assert explained(db, "watch") == lines(
        """
        watch: an active rule, strict, deferred, disabled
        watches a query:
          SELECT id, quantity FROM item WHERE id = :which AND quantity < 10
        triggered by inserted rows
          rows with the same (id) before and after are updates, neither inserted nor deleted
        considered before the commit, with priority 0
        parameters :which bigint; 2 activations
        action, for each row of an activation:
          INSERT INTO orders VALUES (:which, new.quantity)
        propagation network:
          level 0, tables: activations, item
          level 1, the query of the rule: not stored; its change is derived when one of these changes
            activations → the query of the rule carries nothing: an activation counts from the next transaction on
            item → the query of the rule carries +
              − is pruned: deletes from item can only delete rows
              updates of name, threshold are pruned: they are not read
              rows without quantity < 10 are pruned before anything is read
              δ = (activations@new ⋈ σ[quantity < 10](δitem))[id = which]
              reads activations@new by which
          a transaction with nothing but pruned changes derives nothing; beside others they may cancel rows
        stored for the rule: its activations
        LEGEND
        """
    )


def test_a_table_and_a_webhook(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql(
        "CREATE RULE told DETACHED ON item WHEN UPDATED "
        "DO WEBHOOK 'https://example.com/hook' WITH (secret = 'hush', timeout = '5 seconds')"
    )
    text = explained(db, "told")
    assert "hush" not in text
    assert text == lines(
        """
        told: an active rule, strict, detached
        watches item, a table
        triggered by updated rows
          rows with the same (id) before and after are updates, neither inserted nor deleted
        considered after the commit, in a transaction of its own, with priority 0
        action: POST to https://example.com/hook, signed, within 5 seconds
        propagation network:
          level 0, item: the rule sees its own change, of which it wants + and −
        stored for the rule: nothing
        """
    )


def test_an_unknown_rule(db: vk.Database) -> None:
    db.sql(TABLES + "CREATE RULE told ON item WHEN DELETED DO INSERT INTO orders SELECT id, 1 FROM deleted")
    with pytest.raises(vk.errors.NotFound) as caught:
        db.sql("EXPLAIN RULE tolt")
    assert str(caught.value) == (
        "there is no rule named 'tolt'\nat line 1, column 14:\n  EXPLAIN RULE tolt\n               ^^^^\n"
        "hint: did you mean 'told'?"
    )
    with pytest.raises(vk.errors.NotFound, match="there is no rule named 'tolt'"):
        db.explain_rule("tolt")
