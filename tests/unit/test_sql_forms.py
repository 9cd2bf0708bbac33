"""Every form of SQL statement that the foundation takes, on both engines."""

from __future__ import annotations

from typing import Any

import pytest

import viewkeeper as vk


@pytest.fixture
def shop(db: vk.Database) -> vk.Database:
    db.sql(
        "BEGIN; CREATE TABLE t (id INT PRIMARY KEY, s STRING, x DECIMAL(8,2)); CREATE TABLE u (id INT, s STRING);"
        "INSERT INTO t VALUES (1, 'a', 1.5), (2, 'b', 2.5), (3, NULL, NULL);"
        "INSERT INTO u VALUES (1, 'p'), (1, 'q'), (4, 'r');"
        "COMMIT"
    )
    return db


def rows(db: vk.Database, query: str) -> list[tuple[Any, ...]]:
    return sorted(db.sql(query).rows(), key=repr)


def weights(db: vk.Database, text: str, table: str = "t") -> dict[Any, int]:
    commit = db.sql(text).commit
    return {} if commit is None else {row[:2]: weight for row, weight in commit.changes[table].weights().items()}


def test_insert(shop: vk.Database) -> None:
    assert weights(shop, "INSERT INTO t VALUES (4, 'd', 0), (5, 'e', NULL)") == {(4, "d"): 1, (5, "e"): 1}
    assert weights(shop, "INSERT INTO t (x, ID) VALUES (1, 6)") == {(6, None): 1}
    assert weights(shop, "INSERT INTO TABLE t (s, id) SELECT upper(s), id + 10 FROM t WHERE id < 3") == {
        (11, "A"): 1,
        (12, "B"): 1,
    }
    assert weights(shop, "INSERT INTO u SELECT id, s FROM u WHERE id = 1", "u") == {(1, "p"): 1, (1, "q"): 1}
    assert weights(shop, "INSERT INTO u WITH c AS (SELECT max(id) AS m FROM t) SELECT m, 'top' FROM c", "u") == {
        (12, "top"): 1
    }
    assert weights(shop, "INSERT INTO u (SELECT 9, 'in brackets')", "u") == {(9, "in brackets"): 1}
    assert weights(shop, "INSERT INTO u SELECT id, s FROM u WHERE false", "u") == {}


@pytest.mark.spark_long
def test_create_and_drop(shop: vk.Database) -> None:
    commit = shop.sql("CREATE TABLE c AS SELECT id, concat(s, '!') AS loud, x * 2 AS twice FROM t").commit
    assert commit.changes["c"].inserted.num_rows == 3
    assert shop.sql("SELECT `column`, type FROM VALUES (1, 'x') AS v(`column`, type)").rows() == [(1, "x")]
    assert [row[:2] for row in shop.sql("DESCRIBE c").rows()][:2] == [("id", "INT"), ("loud", "STRING")]
    epoch = shop.epoch
    assert shop.sql("CREATE TABLE IF NOT EXISTS c (other INT)").commit is None
    assert shop.sql("CREATE TABLE IF NOT EXISTS c AS SELECT 1 AS one").commit is None
    assert shop.sql("DROP TABLE IF EXISTS nowhere").commit is None
    assert shop.epoch == epoch
    assert shop.sql("DROP TABLE c").commit.epoch == epoch + 1
    assert rows(shop, f"SELECT id, loud FROM c AS OF EPOCH {epoch}") == [(1, "a!"), (2, "b!"), (3, None)]
    shop.sql("CREATE TABLE c (id INT, UNIQUE (id))")
    assert rows(shop, "SELECT * FROM c") == []


def test_update(shop: vk.Database) -> None:
    assert weights(shop, "UPDATE t SET id = id + 1") == {
        (1, "a"): -1,
        (2, "a"): 1,
        (2, "b"): -1,
        (3, "b"): 1,
        (3, None): -1,
        (4, None): 1,
    }
    assert weights(shop, "UPDATE t AS target SET target.s = 'z', x = x + 1 WHERE target.id = 2") == {
        (2, "a"): -1,
        (2, "z"): 1,
    }
    assert weights(shop, "UPDATE t SET s = (SELECT max(s) FROM u) WHERE id IN (SELECT id FROM u)") == {
        (4, None): -1,
        (4, "r"): 1,
    }
    assert weights(shop, "UPDATE t SET s = s, x = x") == {}
    assert weights(shop, "UPDATE u SET s = CASE WHEN id = 1 THEN 'one' ELSE s END", "u") == {
        (1, "p"): -1,
        (1, "q"): -1,
        (1, "one"): 2,
    }


def test_delete(shop: vk.Database) -> None:
    assert weights(shop, "DELETE FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND u.s = 'p')") == {
        (1, "a"): -1
    }
    assert weights(shop, "DELETE FROM t AS o WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.id = o.id) AND o.id > 2") == {
        (3, None): -1
    }
    assert weights(shop, "DELETE FROM u WHERE id = (SELECT max(id) FROM u)", "u") == {(4, "r"): -1}
    assert weights(shop, "DELETE FROM u WHERE s IS NULL", "u") == {}
    assert weights(shop, "TRUNCATE TABLE u", "u") == {(1, "p"): -1, (1, "q"): -1}
    assert weights(shop, "DELETE FROM t") == {(2, "b"): -1}


def test_merge_of_all_kinds(shop: vk.Database) -> None:
    shop.sql("INSERT INTO t VALUES (10, 'old', 1), (11, 'older', 2)")
    found = weights(
        shop,
        """
        MERGE INTO t AS target
        USING (SELECT * FROM VALUES (1, 'one', 1.0), (2, 'two', 2.0), (3, 'three', 3.0), (4, 'four', 4.0),
               (5, 'five', 5.0) AS v(id, s, x)) AS source
        ON target.id = source.id
        WHEN MATCHED AND source.s = 'one' THEN DELETE
        WHEN MATCHED AND target.s IS NULL THEN UPDATE SET s = concat(source.s, '?'), x = target.x
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED AND source.id = 4 THEN INSERT (id, s) VALUES (source.id, upper(source.s))
        WHEN NOT MATCHED BY TARGET THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND target.s = 'old' THEN UPDATE SET s = 'lone'
        WHEN NOT MATCHED BY SOURCE THEN DELETE
        """,
    )
    assert found == {
        (1, "a"): -1,
        (2, "b"): -1,
        (2, "two"): 1,
        (3, None): -1,
        (3, "three?"): 1,
        (4, "FOUR"): 1,
        (5, "five"): 1,
        (10, "old"): -1,
        (10, "lone"): 1,
        (11, "older"): -1,
    }
    assert weights(
        shop, "MERGE INTO t USING u ON t.id = u.id AND u.s = 'r' WHEN MATCHED THEN UPDATE SET t.s = u.s"
    ) == {
        (4, "FOUR"): -1,
        (4, "r"): 1,
    }
    assert weights(shop, "MERGE INTO u USING t ON u.id = t.id WHEN MATCHED THEN DELETE", "u") == {(4, "r"): -1}
    nothing = "MERGE INTO t USING (SELECT 99 AS id) AS n ON t.id = n.id WHEN MATCHED THEN DELETE"
    assert shop.sql(nothing).commit is None
    twice = "MERGE INTO t USING (SELECT * FROM VALUES (2), (2) AS v(id)) AS n ON t.id = n.id WHEN MATCHED THEN DELETE"
    assert weights(shop, twice) == {(2, "two"): -1}


@pytest.mark.spark_long
def test_a_transaction_over_several_calls(shop: vk.Database) -> None:
    epoch = shop.epoch
    shop.sql("BEGIN TRANSACTION")
    assert shop.sql("INSERT INTO u VALUES (7, 'x')").commit is None
    assert rows(shop, "SELECT s FROM u WHERE id = 7") == [("x",)]
    with pytest.raises(vk.errors.NotFound):
        shop.sql("DELETE FROM u; INSERT INTO nowhere VALUES (1)")
    assert rows(shop, "SELECT count(*) FROM u") == [(0,)]
    assert rows(shop, f"SELECT count(*) FROM u AS OF EPOCH {epoch}") == [(3,)]
    shop.sql("ROLLBACK")
    assert shop.epoch == epoch
    assert rows(shop, "SELECT count(*) FROM u") == [(3,)]
    shop.sql("START TRANSACTION; UPDATE u SET id = 8 WHERE id = 4; DELETE FROM t WHERE id = 1")
    commit = shop.sql("COMMIT WORK").commit
    assert (commit.epoch, sorted(commit.changes)) == (epoch + 1, ["t", "u"])
    assert shop.sql("BEGIN; INSERT INTO u VALUES (7, 'x'); DELETE FROM u WHERE id = 7; COMMIT").commit is None


def test_queries(shop: vk.Database) -> None:
    assert rows(shop, "WITH t AS (SELECT 7 AS id) SELECT id FROM t") == [(7,)]
    assert rows(shop, "WITH t AS (SELECT id + 100 AS id FROM t WHERE id = 1) SELECT id FROM t") == [(101,)]
    assert rows(shop, "WITH a AS (SELECT id FROM t), b AS (SELECT id FROM a WHERE id > 1) SELECT * FROM b") == [
        (2,),
        (3,),
    ]
    assert rows(shop, "SELECT l.id, r.id FROM t AS l JOIN t AS r ON l.id = r.id + 1") == [(2, 1), (3, 2)]
    assert rows(shop, "SELECT t.id, u.s FROM t LEFT JOIN u ON t.id = u.id WHERE t.id < 3") == [
        (1, "p"),
        (1, "q"),
        (2, None),
    ]
    assert rows(shop, "SELECT q.n FROM (SELECT count(*) AS n FROM T) q") == [(3,)]
    assert rows(shop, "SELECT id FROM t WHERE id IN (SELECT id FROM u) UNION ALL SELECT id FROM u WHERE id = 4") == [
        (1,),
        (4,),
    ]
    assert rows(shop, "(SELECT id FROM t ORDER BY id DESC LIMIT 1)") == [(3,)]
    assert rows(shop, "VALUES (1, 'x')") == [(1, "x")]
    assert shop.sql("SELECT id AS `Key`, s FROM t WHERE id = 1").columns == ["Key", "s"]


def test_forms_that_one_engine_lacks(shop: vk.Database) -> None:
    """Sail cannot run them as they are written: they go through the algebra of views, so both engines answer."""
    assert rows(shop, "FROM t SELECT max(id)") == [(3,)]
    assert weights(shop, "DELETE FROM t WHERE (id, s) IN (SELECT id + 0, s FROM u GROUP BY ALL)") == {}
    assert rows(shop, "SELECT count(*) FROM t") == [(3,)]


@pytest.mark.spark_long
def test_names_that_need_quotes(db: vk.Database) -> None:
    db.sql(
        "CREATE TABLE `my orders.v2` (`the key` INT PRIMARY KEY, `a.b` STRING, `select` INT, `{x}` INT, `ba``ck` INT)"
    )
    db.sql("INSERT INTO `my orders.v2` VALUES (1, 'x', 2, 3, 4)")
    db.sql("INSERT INTO `My Orders.V2` (`The Key`, `a.b`) VALUES (2, 'y')")
    db.sql("UPDATE `my orders.v2` SET `a.b` = concat(`a.b`, '!'), `{x}` = `select` WHERE `the key` = 1")
    db.sql("DELETE FROM `my orders.v2` AS `an alias` WHERE `an alias`.`the key` = 2")
    db.sql(
        "MERGE INTO `my orders.v2` AS `t t` USING (SELECT 1 AS `the key`, 9 AS `n.n`) AS `s s` "
        "ON `t t`.`the key` = `s s`.`the key` WHEN MATCHED THEN UPDATE SET `ba``ck` = `s s`.`n.n`"
    )
    assert db.sql("SELECT `a.b`, `{x}`, `my orders.v2`.`ba``ck` FROM `my orders.v2`").rows() == [("x!", 2, 9)]
    with db.transaction() as tx:
        tx.delete("my orders.v2", [(1, "x!", 2, 2, 9)])
        tx.upsert("my orders.v2", [{"the key": 5, "A.B": "z"}])
    assert db.table("my orders.v2").read().rows() == [(5, "z", None, None, None)]


@pytest.mark.spark_long
def test_strings_and_comments(db: vk.Database) -> None:
    db.sql(
        """
        -- a comment; with a semicolon and 'quotes'
        CREATE TABLE t (n INT /* the number; */, s STRING); -- another
        /* BEGIN; */
        INSERT INTO t VALUES (1, '{x}'), (2, 'a;b'), (3, '--'), (4, '/* */'), (5, 'it\\'s'), (6, 'it''s'), (7, "two");
        INSERT INTO t SELECT 8, concat(s, '{{y}}') /* {z} */ FROM t -- {w}
        WHERE n = 1
        """
    )
    assert rows(db, "SELECT n, s FROM t -- the end") == [
        (1, "{x}"),
        (2, "a;b"),
        (3, "--"),
        (4, "/* */"),
        (5, "it's"),
        (6, "it's"),
        (7, "two"),
        (8, "{x}{{y}}"),
    ]
    assert rows(db, "SELECT n FROM t WHERE s = 'it''s' OR s = '{x}'") == [(1,), (5,), (6,)]
    assert weights(db, "DELETE FROM t WHERE s = 'it''s' -- both\n") == {(5, "it's"): -1, (6, "it's"): -1}
    assert weights(db, "UPDATE t SET s = '''' WHERE n = 1 /* one */") == {(1, "{x}"): -1, (1, "'"): 1}
    assert weights(db, "DELETE FROM t WHERE s = '{x}{{y}}'") == {(8, "{x}{{y}}"): -1}
    assert db.sql(";; SELECT 'a''b', \"c\"\"d\", '', '''' ;;").rows() == [("a'b", 'c"d', "", "'")]
