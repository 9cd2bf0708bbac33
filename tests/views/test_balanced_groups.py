"""The changes of virtual group-bys whose counts and sums stay what they were for some groups."""

from __future__ import annotations

from decimal import Decimal

import pytest

import viewkeeper as vk


@pytest.mark.spark_long
def test_only_groups_that_move_change(db: vk.Database) -> None:
    db.sql("CREATE TABLE p (account INT, amount DECIMAL(38, 2), note STRING)")
    db.sql("INSERT INTO p VALUES (1, 10.00, 'a'), (1, -4.00, 'b'), (2, 5.00, 'c'), (NULL, 1.00, 'e')")
    db.sql("CREATE VIEW v AS SELECT account, count(*) AS n, sum(amount) AS total FROM p GROUP BY account")
    db.sql("CREATE VIEW low AS SELECT account, min(amount) AS least, count(amount) AS n FROM p GROUP BY account")
    with db.transaction() as tx:
        tx.sql("UPDATE p SET amount = amount + 3 WHERE note = 'b'; UPDATE p SET amount = amount - 3 WHERE note = 'a'")
        assert {name: change.weights() for name, change in tx.preview().items() if name != "p"} == {
            "low": {(1, Decimal("-4.00"), 2): -1, (1, Decimal("-1.00"), 2): 1}
        }
        tx.sql("UPDATE p SET amount = NULL WHERE note = 'e'; INSERT INTO p VALUES (2, 0.00, 'f')")
        assert tx.preview()["v"].weights() == {
            (None, 1, Decimal("1.00")): -1,
            (None, 1, None): 1,
            (2, 1, Decimal("5.00")): -1,
            (2, 2, Decimal("5.00")): 1,
        }
