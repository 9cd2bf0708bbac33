"""Foreign keys: checked when a transaction commits, whatever the order of its statements."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import viewkeeper as vk
from tests.marks import spark_long

TABLES = """
    CREATE TABLE customer (id INT PRIMARY KEY, name STRING);
    CREATE TABLE orders (id INT PRIMARY KEY, customer INT REFERENCES customer, amount INT);
    INSERT INTO customer VALUES (1, 'a'), (2, 'b');
    INSERT INTO orders VALUES (10, 1, 5), (11, NULL, 6)
"""


def broken(db: vk.Database, *statements: str) -> str:
    tx = db.transaction()
    for statement in statements:
        tx.sql(statement)
    with pytest.raises(vk.errors.ConstraintViolation) as caught:
        tx.commit()
    return caught.value.message


MISSING = "FOREIGN KEY (customer) REFERENCES customer (id) of orders is broken: customer has no row for customer = {}"


def test_what_refers_to_nothing_is_refused(db: vk.Database) -> None:
    db.sql(TABLES)
    assert broken(db, "INSERT INTO orders VALUES (12, 3, 1)") == MISSING.format(3)
    assert broken(db, "UPDATE orders SET customer = 9 WHERE id = 10") == MISSING.format(9)
    assert broken(db, "DELETE FROM customer WHERE id = 1") == MISSING.format(1)
    assert broken(db, "UPDATE customer SET id = 7 WHERE id = 1") == MISSING.format(1)
    assert broken(db, "TRUNCATE TABLE customer") == MISSING.format(1)
    assert sorted(db.sql("SELECT id FROM orders").rows()) == [(10,), (11,)]
    assert sorted(db.sql("SELECT id FROM customer").rows()) == [(1,), (2,)]


@pytest.mark.spark_long
def test_only_the_end_of_a_transaction_counts(db: vk.Database) -> None:
    db.sql(TABLES)
    with db.transaction() as tx:
        tx.sql("INSERT INTO orders VALUES (12, 3, 1); DELETE FROM customer WHERE id = 1")
        tx.sql("INSERT INTO customer VALUES (3, 'c'); UPDATE orders SET customer = 3 WHERE id = 10")
    with db.transaction() as tx:
        tx.sql("DELETE FROM customer WHERE id = 3; INSERT INTO customer VALUES (3, 'again')")
    with db.transaction() as tx:
        tx.sql("DELETE FROM customer WHERE id = 3; DELETE FROM orders WHERE customer = 3")
    assert db.sql("SELECT id FROM orders").rows() == [(11,)]


@pytest.mark.spark_long
def test_keys_of_several_columns_and_to_the_table_itself(db: vk.Database) -> None:
    db.sql("CREATE TABLE p (a INT, b STRING NOT NULL, UNIQUE (a, b)); INSERT INTO p VALUES (1, 'x'), (NULL, 'y')")
    db.sql("CREATE TABLE c (k INT, x INT, y STRING, FOREIGN KEY (x, y) REFERENCES p (a, b))")
    db.sql("INSERT INTO c VALUES (1, 1, 'x'), (2, NULL, 'z'), (3, 5, NULL)")
    assert "has no row for x = 1, y = 'z'" in broken(db, "INSERT INTO c VALUES (4, 1, 'z')")
    db.sql("CREATE TABLE tree (id INT PRIMARY KEY, above INT REFERENCES tree (id))")
    db.sql("INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2)")
    assert "tree has no row for above = 2" in broken(db, "DELETE FROM tree WHERE id = 2")
    db.sql("DELETE FROM tree")


def test_many_rows(connect: Callable[..., vk.Database]) -> None:
    db = connect(tuning=vk.Tuning(small_rows=100))
    db.sql(TABLES)
    numbers = list(range(1_000, 3_000))
    with db.transaction() as tx:
        tx.insert("orders", pa.table({"id": numbers, "customer": [1] * 2_000, "amount": numbers}))
    more = [number + 5_000 for number in numbers]
    tx = db.transaction()
    tx.insert("orders", pa.table({"id": more, "customer": [1] * 1_999 + [4], "amount": numbers}))
    with pytest.raises(vk.errors.ConstraintViolation, match="has no row for customer = 4"):
        tx.commit()
    assert db.sql("SELECT count(*) FROM orders").rows() == [(2_002,)]


@pytest.mark.spark_long
def test_two_transactions_at_a_time(db: vk.Database) -> None:
    db.sql(TABLES)
    one, other = db.transaction(), db.transaction()
    one.sql("DELETE FROM customer WHERE id = 2")
    other.sql("INSERT INTO orders VALUES (12, 2, 1)")
    one.commit()
    with pytest.raises((vk.errors.ConstraintViolation, vk.errors.Conflict)):
        other.commit()
    first, second = db.transaction(), db.transaction()
    first.sql("INSERT INTO orders VALUES (13, 1, 1)")
    second.sql("DELETE FROM orders WHERE id = 10")
    second.sql("DELETE FROM customer WHERE id = 1")
    first.commit()
    with pytest.raises((vk.errors.ConstraintViolation, vk.errors.Conflict)):
        second.commit()
    rows = db.sql("SELECT o.id FROM orders o LEFT JOIN customer c ON o.customer = c.id WHERE c.id IS NULL").rows()
    assert rows == [(11,)]


REFUSED = {
    "CREATE TABLE o (c INT REFERENCES nowhere)": "there is no table named 'nowhere'",
    "CREATE TABLE o (c INT REFERENCES customer (nothing))": "there is no column 'nothing' in customer",
    "CREATE TABLE o (c STRING REFERENCES customer (name))": "(name) is no key of customer",
    "CREATE TABLE o (c STRING REFERENCES customer)": "c is STRING, and id of customer is INT",
    "CREATE TABLE o (c INT, FOREIGN KEY (d) REFERENCES customer)": "names a column 'd' that the table does not have",
    "CREATE TABLE o (c INT, d INT, FOREIGN KEY (c, d) REFERENCES customer)": "pairs 2 columns with 1",
    "CREATE TABLE o (c INT REFERENCES customer ON DELETE CASCADE)": "ON is not supported for a foreign key",
    "DROP TABLE customer": "customer cannot be dropped: foreign keys of orders name it",
}


@pytest.mark.spark_long
@pytest.mark.parametrize("statement", REFUSED)
def test_refused(db: vk.Database, statement: str) -> None:
    db.sql(TABLES)
    with pytest.raises(vk.errors.ViewkeeperError) as caught:
        db.sql(statement)
    assert REFUSED[statement] in caught.value.message
    assert caught.value.hint


@pytest.mark.spark_long
def test_they_are_there_after_connecting_again(connect: Callable[..., vk.Database]) -> None:
    db = connect("kept")
    db.sql(TABLES)
    db.close()
    again = connect("kept")
    assert broken(again, "INSERT INTO orders VALUES (12, 3, 1)") == MISSING.format(3)
    again.sql("DROP TABLE orders; DROP TABLE customer")


JOIN = "SELECT o.id, c.name, o.amount FROM orders o JOIN customer c ON o.customer = c.id"
GROUPED = (
    "SELECT c.name, count(*) AS n FROM customer c, orders o WHERE o.customer = c.id AND o.amount > 1 GROUP BY c.name"
)


@pytest.mark.parametrize("query", [GROUPED, *spark_long(JOIN)])
def test_rows_that_nothing_refers_to_yet_reach_no_view(db: vk.Database, query: str) -> None:
    db.sql(TABLES)
    db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    report = db.sql("INSERT INTO customer VALUES (3, 'c'), (4, 'd')").commit.report["v"]
    assert (report.strategy, report.rows_read) == ("none", 0)
    assert "rows that are only inserted do not matter" in db.explain("v")
    with db.transaction() as tx:  # what refers to a new row counts, in any order
        tx.sql("INSERT INTO orders VALUES (12, 5, 7), (13, 3, 8); INSERT INTO customer VALUES (5, 'e')")
    assert tx.commit_info is not None
    assert tx.commit_info.report["v"].strategy == "incremental"
    assert db.verify().equal
    db.sql("UPDATE customer SET name = 'x' WHERE id = 1; UPDATE customer SET name = NULL WHERE id = 3")
    assert db.verify().equal
    with db.transaction() as tx:
        tx.sql("DELETE FROM orders WHERE customer = 5; DELETE FROM customer WHERE id = 5")
        tx.sql("INSERT INTO customer VALUES (6, 'f')")
    assert db.verify().equal


@pytest.mark.spark_long
def test_without_a_foreign_key_they_are_looked_for(db: vk.Database) -> None:
    db.sql(TABLES.replace(" REFERENCES customer", ""))
    db.sql(f"CREATE MATERIALIZED VIEW v AS {JOIN}")
    db.sql("INSERT INTO orders VALUES (12, 3, 1)")
    commit = db.sql("INSERT INTO customer VALUES (3, 'c')").commit
    assert commit.changes["v"].weights() == {(12, "c", 1): 1}
    assert "rows that are only inserted do not matter" not in db.explain("v")


@pytest.mark.spark_long
def test_the_analysis_knows_them(db: vk.Database) -> None:
    db.sql(TABLES)
    customer = next(r for r in db.analyze(JOIN).to_json()["references"] if r["table"] == "customer")
    efforts = {operation: told["effort"] for operation, told in customer["operations"].items()}
    assert efforts == {"insert": "nothing", "delete": "bound", "update": "bound"}
