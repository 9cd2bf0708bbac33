"""What a user reads when something is wrong, word for word, on both engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import viewkeeper as vk
from viewkeeper.errors import (
    AlreadyExists,
    ConstraintViolation,
    NotFound,
    SqlError,
    StorageError,
    TypeMismatch,
)

TABLES = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, region STRING NOT NULL, amount DECIMAL(8,2));
CREATE TABLE s (a INT, b STRING);
INSERT INTO orders VALUES (7, 'EU', 1.5), (8, 'US', 2.5)
"""


@pytest.fixture
def shop(db: vk.Database) -> vk.Database:
    db.sql(TABLES)
    return db


def caught(action: Callable[[], Any], kind: type[Exception] = vk.errors.ViewkeeperError) -> Any:
    with pytest.raises(kind) as found:
        action()
    return found.value


# Messages that no engine has a word in: one engine is enough.
RESERVED = "reserved are _weight, _epoch, _diff, _progressed and names that begin with _vk"
OWN: list[tuple[str, type[Exception], str]] = [
    (
        "SELECT * FROM ordrs",
        NotFound,
        """there is no table named 'ordrs'
at line 1, column 15:
  SELECT * FROM ordrs
                ^^^^^
hint: did you mean 'orders'?""",
    ),
    (
        "SELECT *\n  FROM orders AS o\n  JOIN nowhere AS n ON o.id = n.id",
        NotFound,
        """there is no table named 'nowhere'
at line 3, column 8:
    JOIN nowhere AS n ON o.id = n.id
         ^^^^^^^
hint: the tables are orders, s""",
    ),
    (
        "MERGE INTO orders t USING nowhere n ON t.id = n.id WHEN MATCHED THEN DELETE",
        NotFound,
        """there is no table named 'nowhere'
at line 1, column 27:
  MERGE INTO orders t USING nowhere n ON t.id = n.id WHEN MATCHED THEN DELETE
                            ^^^^^^^
hint: the tables are orders, s""",
    ),
    (
        "SELECT * FROM shop.orders",
        SqlError,
        """'shop.orders' has more than one part: there are no schemas or catalogs
hint: write `orders`""",
    ),
    (
        "UPDATE orders SET regin = 'x'",
        NotFound,
        """there is no column 'regin' in orders
at line 1, column 19:
  UPDATE orders SET regin = 'x'
                    ^^^^^
hint: its columns are id, region, amount""",
    ),
    (
        "INSERT INTO orders (id, regin) VALUES (1, 'x')",
        NotFound,
        """there is no column 'regin' in orders
at line 1, column 25:
  INSERT INTO orders (id, regin) VALUES (1, 'x')
                          ^^^^^
hint: its columns are id, region, amount""",
    ),
    (
        "INSERT INTO orders VALUES (1, 'EU', 1.0, 4)",
        TypeMismatch,
        """INSERT gives 4 values per row, orders takes 3
at line 1, column 13:
  INSERT INTO orders VALUES (1, 'EU', 1.0, 4)
              ^^^^^^
hint: the columns are id, region, amount""",
    ),
    (
        "SELEC 1",
        SqlError,
        """'SELEC' does not begin a statement
at line 1, column 1:
  SELEC 1
  ^^^^^
hint: statements begin with SELECT, INSERT, UPDATE, DELETE, MERGE, CREATE TABLE, DROP TABLE, BEGIN ...""",
    ),
    (
        "SELECT * FORM orders",
        SqlError,
        """bad SQL: 'orders' is not expected here
at line 1, column 15:
  SELECT * FORM orders
                ^^^^^^""",
    ),
    (
        "SELECT id\n  FROM orders\n WHERE (id = 1",
        SqlError,
        """bad SQL: expecting )
at line 3, column 14:
   WHERE (id = 1
               ^""",
    ),
    (
        "DELETE FROM orders\n WHERE id = = 1",
        SqlError,
        """bad SQL: something is missing here
at line 2, column 13:
   WHERE id = = 1
              ^""",
    ),
    (
        "UPDATE orders SET amount = 1 +",
        SqlError,
        """bad SQL: something is missing here
at line 1, column 30:
  UPDATE orders SET amount = 1 +
                               ^""",
    ),
    (
        "DELETE FROM orders WHERE id = 7 LIMIT 5",
        SqlError,
        """an expression cannot go on like this
at line 1, column 26:
  DELETE FROM orders WHERE id = 7 LIMIT 5
                           ^^^^^^^^^^^^^^""",
    ),
    (
        "DELETE FROM orders WHERE id = 7 UNION ALL SELECT 1, 'x', 2, 3",
        SqlError,
        """an expression cannot go on like this
at line 1, column 26:
  DELETE FROM orders WHERE id = 7 UNION ALL SELECT 1, 'x', 2, 3
                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^""",
    ),
    (
        "SELECT id, 'open\n  FROM orders",
        SqlError,
        """the SQL text cannot be read: a quote is not closed
at line 1, column 12:
  SELECT id, 'open
             ^""",
    ),
    (
        "SELECT 'it\\'s' /* open\n  FROM orders",
        SqlError,
        """the SQL text cannot be read: a comment is not closed
at line 1, column 16:
  SELECT 'it\\'s' /* open
                 ^""",
    ),
    (
        "CREATE TABLE x (a INT,\n  _weight INT)",
        SqlError,
        f"""'_weight' is a reserved column name
at line 2, column 3:
    _weight INT)
    ^^^^^^^
detail: {RESERVED}
hint: call it for instance 'weight'""",
    ),
    (
        "CREATE TABLE x (_Epoch INT)",
        SqlError,
        f"""'_Epoch' is a reserved column name
at line 1, column 17:
  CREATE TABLE x (_Epoch INT)
                  ^^^^^^
detail: {RESERVED}
hint: call it for instance 'Epoch'""",
    ),
    (
        "CREATE TABLE x (a INT, A INT)",
        SqlError,
        """there are two columns named 'A'
at line 1, column 24:
  CREATE TABLE x (a INT, A INT)
                         ^
hint: names are compared without case""",
    ),
    (
        "CREATE TABLE x (a INT, PRIMARY KEY (b))",
        NotFound,
        """PRIMARY KEY (b) names a column 'b' that the table does not have
at line 1, column 37:
  CREATE TABLE x (a INT, PRIMARY KEY (b))
                                      ^
hint: its columns are a""",
    ),
    (
        "CREATE TABLE Orders (a INT)",
        AlreadyExists,
        """there is already a table named 'Orders'
hint: DROP TABLE Orders, or CREATE TABLE IF NOT EXISTS""",
    ),
    (
        "CREATE TABLE x (a INTERVAL DAY)",
        TypeMismatch,
        """the type INTERVAL is not supported: INTERVAL cannot be stored in Parquet by every engine
at line 1, column 19:
  CREATE TABLE x (a INTERVAL DAY)
                    ^^^^^^^^
hint: use BIGINT and name the unit""",
    ),
    (
        "SELECT 1;\nSELECT 2;\nSELECT * FROM nowhere",
        NotFound,
        """there is no table named 'nowhere'
in statement 3 of 3 (the statements before it stand)
at line 3, column 15:
  SELECT * FROM nowhere
                ^^^^^^^
hint: the tables are orders, s""",
    ),
    (
        "DROP TABLE nowhere;\nSELECT 2",
        NotFound,
        """there is no table named 'nowhere'
in statement 1 of 2 (nothing was changed)
at line 1, column 12:
  DROP TABLE nowhere
             ^^^^^^^
hint: the tables are orders, s""",
    ),
    (
        "COMMIT",
        SqlError,
        """there is no open transaction to COMMIT
at line 1, column 1:
  COMMIT
  ^^^^^^
hint: BEGIN one first""",
    ),
    (
        "ROLLBACK",
        SqlError,
        """there is no open transaction to ROLLBACK
at line 1, column 1:
  ROLLBACK
  ^^^^^^^^
hint: BEGIN one first""",
    ),
    (
        "INSERT OVERWRITE TABLE orders SELECT * FROM orders",
        SqlError,
        """INSERT OVERWRITE is not supported
at line 1, column 8:
  INSERT OVERWRITE TABLE orders SELECT * FROM orders
         ^^^^^^^^^
hint: BEGIN; TRUNCATE TABLE t; INSERT INTO t ...; COMMIT""",
    ),
    (
        "UPDATE orders SET amount = s.a FROM s WHERE s.a = orders.id",
        SqlError,
        """UPDATE ... FROM is not Spark SQL
at line 1, column 32:
  UPDATE orders SET amount = s.a FROM s WHERE s.a = orders.id
                                 ^^^^
hint: use MERGE INTO ... USING ... WHEN MATCHED THEN UPDATE""",
    ),
    (
        "MERGE INTO orders t USING s ON t.id = s.a WHEN MATCHED THEN INSERT *",
        SqlError,
        """WHEN MATCHED cannot INSERT
at line 1, column 68:
  MERGE INTO orders t USING s ON t.id = s.a WHEN MATCHED THEN INSERT *
                                                                     ^""",
    ),
    (
        "SELECT * FROM orders AS OF EPOCH 99",
        NotFound,
        """there is no epoch 99 yet
hint: the newest is 3""",
    ),
    (
        "SELECT * FROM orders AS OF EPOCH 0",
        NotFound,
        """there was no table named 'orders' at epoch 0
at line 1, column 15:
  SELECT * FROM orders AS OF EPOCH 0
                ^^^^^^""",
    ),
]


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize(("text", "kind", "message"), OWN, ids=[text for text, _, _ in OWN])
def test_messages_of_our_own(shop: vk.Database, text: str, kind: type[Exception], message: str) -> None:
    before = shop.epoch
    problem = caught(lambda: shop.sql(text), kind)
    assert type(problem) is kind
    assert str(problem) == message
    assert shop.epoch == before


# Messages about values or names that an engine has looked at: the same on both.
SEEN: list[tuple[str, type[Exception], str]] = [
    (
        "INSERT INTO orders VALUES ('x', 'EU', 1.0)",
        TypeMismatch,
        "'x' does not fit column 'id' of orders, which is BIGINT",
    ),
    (
        "INSERT INTO orders VALUES (7, 'EU', 1.0)",
        ConstraintViolation,
        "PRIMARY KEY (id) of orders is broken: there would be two rows with id = 7",
    ),
    (
        "UPDATE orders SET id = 7",
        ConstraintViolation,
        "PRIMARY KEY (id) of orders is broken: there would be two rows with id = 7",
    ),
    (
        "INSERT INTO orders VALUES (NULL, 'EU', 1.0)",
        ConstraintViolation,
        "column 'id' of orders cannot be NULL (it is in the PRIMARY KEY)",
    ),
    ("UPDATE orders SET region = NULL", ConstraintViolation, "column 'region' of orders cannot be NULL"),
    (
        "UPDATE orders SET amount = 99999999999",
        TypeMismatch,
        "99999999999 does not fit column 'amount' of orders, which is DECIMAL(8,2)",
    ),
    (
        "MERGE INTO orders t USING (SELECT * FROM VALUES (7, 1), (7, 2) AS v(id, x)) n ON t.id = n.id "
        "WHEN MATCHED THEN UPDATE SET amount = n.x",
        ConstraintViolation,
        "MERGE matches the row (7, 'EU', Decimal('1.50')) of orders with several source rows",
    ),
    (
        "MERGE INTO orders t USING (SELECT 1 AS id) n ON t.id = n.id WHEN NOT MATCHED THEN INSERT *",
        NotFound,
        "the source has no column 'region' for *",
    ),
    ("CREATE TABLE x AS SELECT NULL AS a", TypeMismatch, "the type VOID is not supported: VOID holds nothing but NULL"),
    ("CREATE TABLE x AS SELECT 1 AS _weight", SqlError, "'_weight' is a reserved column name"),
]

PLACED: list[tuple[str, str, tuple[int, int]]] = [
    ("SELECT regin FROM orders", "regin", (1, 8)),
    ("SELECT 1 AS regin;\nSELECT id,\n regin FROM orders", "regin", (3, 2)),
    ("DELETE FROM orders\nWHERE regin = 'x'", "regin", (2, 7)),
    ("UPDATE orders SET region = regin", "regin", (1, 28)),
    ("INSERT INTO orders SELECT a, b, cc FROM s", "cc", (1, 33)),
    ("MERGE INTO orders t USING s ON t.id = s.aa WHEN MATCHED THEN DELETE", "aa", (1, 41)),
]


def test_messages_about_values_and_names(shop: vk.Database) -> None:
    before = shop.epoch
    for text, kind, message in SEEN:
        problem = caught(lambda text=text: shop.sql(text), kind)
        assert problem.message == message, text
    for text, column, place in PLACED:
        problem = caught(lambda text=text: shop.sql(text).rows(), NotFound)
        assert problem.message in (f"there is no column '{column}'", f"there is no column '{column}' in s"), text
        qualified = len("s.") if problem.message.endswith(" in s") else 0  # the algebra shows the whole name
        assert (problem.place.line, problem.place.column + qualified) == place, text
        assert problem.hint
    assert shop.epoch == before
    assert sorted(shop.sql("SELECT id FROM orders").rows()) == [(7,), (8,)]


def test_messages_about_rows(shop: vk.Database) -> None:
    tx = shop.transaction()
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (
            lambda: tx.insert("orders", [(1, "EU")]),
            TypeMismatch,
            "row 1 for orders has 2 values, the table has 3 columns\ndetail: the row is (1, 'EU')\n"
            "hint: the columns are id, region, amount; a dict may leave some out",
        ),
        (
            lambda: tx.insert("orders", [{"ID": 1, "Region": "x"}, {"id": 2, "regin": "x"}]),
            TypeMismatch,
            "row 2 names a column 'regin' that orders does not have\nhint: its columns are id, region, amount",
        ),
        (
            lambda: tx.insert("orders", "abc"),
            TypeMismatch,
            "a str is not a list of rows\n"
            "hint: give a list of tuples or dicts, an Arrow table, a pandas, polars or Spark DataFrame",
        ),
        (
            lambda: tx.insert("orders", [(1, "EU", "x")]),
            TypeMismatch,
            "'x' does not fit column 'amount' of orders, which is DECIMAL(8,2)\n"
            "detail: in row 1: it is a str, not a number",
        ),
        (
            lambda: tx.insert("orders", [(2**63, "EU", 1)]),
            TypeMismatch,
            "9223372036854775808 does not fit column 'id' of orders, which is BIGINT\n"
            "detail: in row 1: it is out of range: -9223372036854775808 to 9223372036854775807",
        ),
        (
            lambda: tx.insert("orders", pa.table({"id": [1], "regin": ["x"]})),
            TypeMismatch,
            "there is a column 'regin' that orders does not have\nhint: its columns are id, region, amount",
        ),
        (
            lambda: tx.insert("orders", [(7, "EU", 1)]),
            ConstraintViolation,
            "PRIMARY KEY (id) of orders is broken: there would be two rows with id = 7\n"
            "hint: change the key, or replace the row with upsert or MERGE",
        ),
        (
            lambda: tx.insert("orders", [(None, "EU", 1)]),
            ConstraintViolation,
            "column 'id' of orders cannot be NULL (it is in the PRIMARY KEY)\n"
            "hint: give it a value, or declare it without NOT NULL",
        ),
        (
            lambda: tx.insert("ordrs", []),
            NotFound,
            "there is no table named 'ordrs'\nhint: did you mean 'orders'?",
        ),
        (
            lambda: tx.delete("orders", [(9, "EU", 1)]),
            NotFound,
            "the row (9, 'EU', Decimal('1.00')) is not in orders\nhint: check its values, or pass missing='ignore'",
        ),
        (
            lambda: tx.delete("orders", [(7, "EU", 1.5), (7, "EU", 1.5)]),
            NotFound,
            "2 copies of the row (7, 'EU', Decimal('1.50')) were to be deleted from orders, there are 1\n"
            "hint: delete fewer, or pass missing='ignore'",
        ),
        (
            lambda: tx.delete_by_key("orders", [9]),
            NotFound,
            "there is no row with id = 9 in orders\nhint: pass missing='ignore' if that is fine",
        ),
        (
            lambda: tx.upsert("s", [(1, "x")]),
            ConstraintViolation,
            "s has no PRIMARY KEY\nhint: use insert and delete with whole rows, or declare a key",
        ),
        (
            lambda: tx.delete("orders", [], missing="maybe"),
            TypeMismatch,
            "missing='maybe' is not known\nhint: use missing='error' or missing='ignore'",
        ),
        (
            lambda: tx.sql("COMMIT"),
            SqlError,
            "COMMIT cannot stand inside a transaction object\nat line 1, column 1:\n  COMMIT\n  ^^^^^^\n"
            "hint: use tx.commit() or tx.rollback(), or leave the with block",
        ),
    ]
    for action, kind, message in cases:
        assert str(caught(action, kind)) == message
    assert tx.preview() == {}
    assert tx.commit() is None
    for action in (lambda: tx.insert("s", []), lambda: tx.sql("SELECT 1"), tx.commit, tx.preview):
        problem = caught(action, SqlError)
        assert str(problem) == "the transaction is over\nhint: begin another: with db.transaction() as tx"
    tx.rollback()


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_nested_begin(shop: vk.Database) -> None:
    shop.sql("BEGIN")
    problem = caught(lambda: shop.sql("BEGIN"), SqlError)
    assert str(problem) == (
        "a transaction is already open\nat line 1, column 1:\n  BEGIN\n  ^^^^^\nhint: COMMIT or ROLLBACK it first"
    )
    shop.sql("INSERT INTO s VALUES (1, 'x')")
    assert shop.sql("COMMIT").commit.changes["s"].weights() == {(1, "x"): 1}


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_an_epoch_no_longer_kept(connect: Callable[..., vk.Database]) -> None:
    db = connect(keep="0 seconds")
    db.sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    db.compact()
    problem = caught(lambda: db.sql("SELECT * FROM t AS OF EPOCH 2"), NotFound)
    assert str(problem) == "epoch 2 is no longer kept\nhint: the oldest kept epoch is 3"
    problem = caught(lambda: list(db.table("t").changes(since=1)), NotFound)
    assert str(problem) == "the changes since epoch 1 are no longer kept\nhint: the oldest kept epoch is 3"


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_a_closed_database(connect: Callable[..., vk.Database]) -> None:
    db = connect()
    db.sql("CREATE TABLE t (a INT)")
    tx = db.transaction()
    db.close()
    db.close()
    for action in (
        lambda: db.sql("SELECT 1"),
        db.transaction,
        lambda: db.table("t"),
        lambda: db.epoch,
        lambda: db.compact(),
        lambda: db.vacuum(),
        lambda: tx.insert("t", [(1,)]),
    ):
        problem = caught(action, StorageError)
        assert str(problem) == "the database is closed\nhint: connect again: viewkeeper.connect(path)"
    assert [row["name"] for row in connect().ls()] == ["t"]
