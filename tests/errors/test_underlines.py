"""What an error underlines: the name that is wrong, wherever else the same letters stand, word for word."""

from __future__ import annotations

import pytest

import viewkeeper as vk
from viewkeeper.errors import ViewkeeperError

CASES: list[tuple[str, str]] = [
    (
        "DELETE FROM t WHERE b = 'nope' AND nope = 1",
        """there is no column 'nope'
at line 1, column 36:
  DELETE FROM t WHERE b = 'nope' AND nope = 1
                                     ^^^^
hint: there are a, b""",
    ),
    (
        "UPDATE t SET b = 'zz', zz = 1",
        """there is no column 'zz' in t
at line 1, column 24:
  UPDATE t SET b = 'zz', zz = 1
                         ^^
hint: its columns are a, b""",
    ),
    (
        "DELETE FROM t /* nope */ WHERE nope = 1",
        """there is no column 'nope'
at line 1, column 32:
  DELETE FROM t /* nope */ WHERE nope = 1
                                 ^^^^
hint: there are a, b""",
    ),
    (
        "DELETE FROM t -- nope\nWHERE nope = 1",
        """there is no column 'nope'
at line 2, column 7:
  WHERE nope = 1
        ^^^^
hint: there are a, b""",
    ),
    (
        "UPDATE t AS nope SET b = 'x' WHERE nope.a = 1 AND nope = 2",
        """there is no column 'nope'
at line 1, column 51:
  UPDATE t AS nope SET b = 'x' WHERE nope.a = 1 AND nope = 2
                                                    ^^^^
hint: there are a, b""",
    ),
    (
        "DELETE FROM t WHERE `no pe` = 'no pe' AND a = 1",
        """there is no column 'no pe'
at line 1, column 21:
  DELETE FROM t WHERE `no pe` = 'no pe' AND a = 1
                      ^^^^^^^
hint: there are a, b""",
    ),
    (
        "UPDATE t SET a = 1, `no pe` = 2",
        """there is no column 'no pe' in t
at line 1, column 21:
  UPDATE t SET a = 1, `no pe` = 2
                      ^^^^^^^
hint: its columns are a, b""",
    ),
    (
        "DELETE FROM t WHERE a IN (SELECT x FROM s WHERE y = 'nope' AND nope = 1)",
        """there is no column 'nope'
at line 1, column 64:
  DELETE FROM t WHERE a IN (SELECT x FROM s WHERE y = 'nope' AND nope = 1)
                                                                 ^^^^
hint: there are x, y, a, b""",
    ),
    (
        "DELETE FROM t WHERE b IN (SELECT b AS nope FROM t) AND nope = 1",
        """there is no column 'nope'
at line 1, column 56:
  DELETE FROM t WHERE b IN (SELECT b AS nope FROM t) AND nope = 1
                                                         ^^^^
hint: there are a, b""",
    ),
    (
        "UPDATE t SET b = concat('nope', nope)",
        """there is no column 'nope'
at line 1, column 33:
  UPDATE t SET b = concat('nope', nope)
                                  ^^^^
hint: there are a, b""",
    ),
    (
        "INSERT INTO t (a, b, nope) VALUES (1, 'nope', 2)",
        """there is no column 'nope' in t
at line 1, column 22:
  INSERT INTO t (a, b, nope) VALUES (1, 'nope', 2)
                       ^^^^
hint: its columns are a, b""",
    ),
    (
        "INSERT INTO t (a, /* nope */ nope) VALUES (1, 'nope')",
        """there is no column 'nope' in t
at line 1, column 30:
  INSERT INTO t (a, /* nope */ nope) VALUES (1, 'nope')
                               ^^^^
hint: its columns are a, b""",
    ),
    (
        "INSERT INTO t (a, b, a) VALUES (1, 'x', 2)",
        """a column is named twice
at line 1, column 22:
  INSERT INTO t (a, b, a) VALUES (1, 'x', 2)
                       ^
hint: leave one of them out""",
    ),
    (
        "INSERT INTO t SELECT 'nope', nope FROM s",
        """there is no column 'nope'
at line 1, column 30:
  INSERT INTO t SELECT 'nope', nope FROM s
                               ^^^^
hint: check the spelling; DESCRIBE table lists its columns""",
    ),
    (
        "INSERT INTO t SELECT x, y FROM s JOIN nope ON 'nope' = s.y",
        """there is no table named 'nope'
at line 1, column 39:
  INSERT INTO t SELECT x, y FROM s JOIN nope ON 'nope' = s.y
                                        ^^^^
hint: the tables are s, t""",
    ),
    (
        "MERGE INTO t USING s ON t.a = s.x AND t.b <> 'nope' AND t.nope = 1 WHEN MATCHED THEN DELETE",
        """there is no column 'nope' in t
at line 1, column 57:
  MERGE INTO t USING s ON t.a = s.x AND t.b <> 'nope' AND t.nope = 1 WHEN MATCHED THEN DELETE
                                                          ^^^^^^
hint: there are a, b""",
    ),
    (
        "MERGE INTO t USING s ON t.a = s.x WHEN MATCHED AND s.y = 'nope' AND nope > 1 THEN DELETE",
        """there is no column 'nope'
at line 1, column 69:
  MERGE INTO t USING s ON t.a = s.x WHEN MATCHED AND s.y = 'nope' AND nope > 1 THEN DELETE
                                                                      ^^^^
hint: there are a, b, x, y""",
    ),
    (
        "MERGE INTO t USING s ON t.a = s.x WHEN MATCHED THEN UPDATE SET b = 'nope', nope = 1",
        """there is no column 'nope' in t
at line 1, column 76:
  MERGE INTO t USING s ON t.a = s.x WHEN MATCHED THEN UPDATE SET b = 'nope', nope = 1
                                                                             ^^^^
hint: its columns are a, b""",
    ),
    (
        "MERGE INTO t USING s ON t.a = s.x WHEN NOT MATCHED THEN INSERT (a, nope) VALUES (s.x, 'nope')",
        """there is no column 'nope' in t
at line 1, column 68:
  MERGE INTO t USING s ON t.a = s.x WHEN NOT MATCHED THEN INSERT (a, nope) VALUES (s.x, 'nope')
                                                                     ^^^^
hint: its columns are a, b""",
    ),
    (
        "MERGE INTO t USING s ON t.a = s.x WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.x, s.nope)",
        """there is no column 'nope' in s
at line 1, column 84:
  MERGE INTO t USING s ON t.a = s.x WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.x, s.nope)
                                                                                     ^^^^^^
hint: there are x, y""",
    ),
    (
        "MERGE INTO t USING (SELECT x, 'nope' AS n, nope FROM s) AS nope ON t.a = nope.x WHEN MATCHED THEN DELETE",
        """there is no column 'nope'
at line 1, column 44:
  MERGE INTO t USING (SELECT x, 'nope' AS n, nope FROM s) AS nope ON t.a = nope.x WHEN MATCHED THEN DELETE
                                             ^^^^
hint: there are x, y, n""",
    ),
    (
        "MERGE INTO t USING s AS nope ON t.b = 'nope' AND t.a = nope.x WHEN MATCHED THEN UPDATE SET b = nope.nope",
        """there is no column 'nope' in nope
at line 1, column 96:
  MERGE INTO t USING s AS nope ON t.b = 'nope' AND t.a = nope.x WHEN MATCHED THEN UPDATE SET b = nope.nope
                                                                                                 ^^^^^^^^^
hint: there are x, y""",
    ),
    (
        "MERGE INTO nope USING s AS nope ON nope.b = 'nope' WHEN MATCHED THEN DELETE",
        """there is no table named 'nope'
at line 1, column 12:
  MERGE INTO nope USING s AS nope ON nope.b = 'nope' WHEN MATCHED THEN DELETE
             ^^^^
hint: the tables are s, t""",
    ),
    (
        "DELETE /* nope */ FROM nope WHERE nope = 1",
        """there is no table named 'nope'
at line 1, column 24:
  DELETE /* nope */ FROM nope WHERE nope = 1
                         ^^^^
hint: the tables are s, t""",
    ),
    (
        "TRUNCATE TABLE /* nope */ nope",
        """there is no table named 'nope'
at line 1, column 27:
  TRUNCATE TABLE /* nope */ nope
                            ^^^^
hint: the tables are s, t""",
    ),
    (
        "UPDATE t SET b = 'b', b = 'c'",
        """a column is set twice
at line 1, column 23:
  UPDATE t SET b = 'b', b = 'c'
                        ^
hint: give each column one value""",
    ),
    (
        "CREATE TABLE x (a INT COMMENT 'A', A INT)",
        """there are two columns named 'A'
at line 1, column 36:
  CREATE TABLE x (a INT COMMENT 'A', A INT)
                                     ^
hint: names are compared without case""",
    ),
    (
        "CREATE TABLE x (a INT COMMENT 'nope', PRIMARY KEY (a), UNIQUE (nope))",
        """UNIQUE (nope) names a column 'nope' that the table does not have
at line 1, column 64:
  CREATE TABLE x (a INT COMMENT 'nope', PRIMARY KEY (a), UNIQUE (nope))
                                                                 ^^^^
hint: its columns are a""",
    ),
    (
        "CREATE TABLE x (a INT COMMENT 'nope', FOREIGN KEY (nope) REFERENCES t (a))",
        """FOREIGN KEY (nope) REFERENCES t (a) names a column 'nope' that the table does not have
at line 1, column 52:
  CREATE TABLE x (a INT COMMENT 'nope', FOREIGN KEY (nope) REFERENCES t (a))
                                                     ^^^^
hint: its columns are a""",
    ),
    (
        "CREATE TABLE x (nope INT REFERENCES /* nope */ nope (a))",
        """there is no table named 'nope'
at line 1, column 48:
  CREATE TABLE x (nope INT REFERENCES /* nope */ nope (a))
                                                 ^^^^
hint: the tables are s, t""",
    ),
    (
        "CREATE TABLE x (nope INT, FOREIGN KEY (nope) REFERENCES s (x, nope))",
        """there is no column 'nope' in s
at line 1, column 63:
  CREATE TABLE x (nope INT, FOREIGN KEY (nope) REFERENCES s (x, nope))
                                                                ^^^^
hint: its columns are x, y""",
    ),
    (
        "CREATE TABLE x (a INT PRIMARY KEY, b INT PRIMARY KEY)",
        """a table has at most one PRIMARY KEY
at line 1, column 36:
  CREATE TABLE x (a INT PRIMARY KEY, b INT PRIMARY KEY)
                                     ^
hint: declare the others UNIQUE""",
    ),
    (
        "CREATE TABLE x (a MAP<STRING, INT> COMMENT 'a', UNIQUE (a))",
        """column 'a' of type MAP<STRING,INT> cannot be in a key: a MAP has no order
at line 1, column 57:
  CREATE TABLE x (a MAP<STRING, INT> COMMENT 'a', UNIQUE (a))
                                                          ^
hint: take another column, or keep the map's entries as ARRAY<STRUCT<...>>""",
    ),
    (
        "CREATE TABLE x AS SELECT 'nope' AS n, nope FROM s",
        """there is no column 'nope'
at line 1, column 39:
  CREATE TABLE x AS SELECT 'nope' AS n, nope FROM s
                                        ^^^^
hint: check the spelling; DESCRIBE table lists its columns""",
    ),
    (
        "EXPLAIN DELETE FROM /* nope */ nope WHERE a = 1",
        """there is no table named 'nope'
at line 1, column 32:
  EXPLAIN DELETE FROM /* nope */ nope WHERE a = 1
                                 ^^^^
hint: the tables are s, t""",
    ),
    (
        "EXPLAIN UPDATE t SET b = 'nope', nope = 1",
        """there is no column 'nope' in t
at line 1, column 34:
  EXPLAIN UPDATE t SET b = 'nope', nope = 1
                                   ^^^^
hint: its columns are a, b""",
    ),
    (
        "SELECT 'nope' AS n FROM s WHERE nope = 1 -- nope",
        """there is no column 'nope'
at line 1, column 33:
  SELECT 'nope' AS n FROM s WHERE nope = 1
                                  ^^^^
hint: there are x, y""",
    ),
    (
        "DROP TABLE /* nope */ nope",
        """there is no table named 'nope'
at line 1, column 23:
  DROP TABLE /* nope */ nope
                        ^^^^
hint: the tables are s, t""",
    ),
    (
        "DROP VIEW IF EXISTS nope; DROP VIEW /* nope */ nope",
        """there is no table named 'nope'
in statement 2 of 2 (the statements before it stand)
at line 1, column 48:
                            DROP VIEW /* nope */ nope
                                                 ^^^^
hint: the tables are s, t""",
    ),
    (
        "REFRESH MATERIALIZED VIEW /* nope */ nope",
        """there is no table named 'nope'
at line 1, column 38:
  REFRESH MATERIALIZED VIEW /* nope */ nope
                                       ^^^^
hint: the tables are s, t""",
    ),
    (
        "DROP FUNCTION /* nope */ nope",
        """there is no function named 'nope'
at line 1, column 26:
  DROP FUNCTION /* nope */ nope
                           ^^^^
hint: SHOW FUNCTIONS lists the declared ones""",
    ),
    (
        "DELETE FROM t WHERE exists(array(1), nope -> nope > 0) AND nope = 1",
        """there is no column 'nope'
at line 1, column 60:
  DELETE FROM t WHERE exists(array(1), nope -> nope > 0) AND nope = 1
                                                             ^^^^
hint: there are a, b""",
    ),
    (
        "UPDATE t SET b = (SELECT max(y) FROM s WHERE s.x = t.a AND y <> 'nope' AND s.nope = 1)",
        """there is no column 'nope' in s
at line 1, column 76:
  UPDATE t SET b = (SELECT max(y) FROM s WHERE s.x = t.a AND y <> 'nope' AND s.nope = 1)
                                                                             ^^^^^^
hint: there are x, y""",
    ),
    (
        "MERGE INTO t USING (SELECT x, FROM s) q ON t.a = q.x WHEN MATCHED THEN DELETE",
        """bad SQL: something is missing beside this comma
at line 1, column 29:
  MERGE INTO t USING (SELECT x, FROM s) q ON t.a = q.x WHEN MATCHED THEN DELETE
                              ^""",
    ),
]


@pytest.fixture
def small(db: vk.Database) -> vk.Database:
    db.sql("CREATE TABLE t (a BIGINT, b STRING); CREATE TABLE s (x BIGINT, y STRING)")
    return db


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize(("text", "message"), CASES, ids=[text for text, _ in CASES])
def test_the_name_itself_is_underlined(small: vk.Database, text: str, message: str) -> None:
    with pytest.raises(ViewkeeperError) as caught:
        small.sql(text).rows()
    assert str(caught.value) == message


NAMED = [
    "DELETE FROM t WHERE b = 'nope' AND |nope = 1",
    "DELETE FROM t /* nope */ WHERE |nope = 1",
    "UPDATE t SET b = 'nope', |nope = 1",
    "UPDATE t SET b = concat('nope', |nope)",
    "DELETE FROM t WHERE exists(array(1L), nope -> nope > a) AND |nope = 1",
    "INSERT INTO t (a, |nope) VALUES (1, 'nope')",
    "INSERT INTO t SELECT length('nope'), |nope FROM s",
    "INSERT INTO t SELECT nope.x, |nope FROM s AS nope",
    "MERGE INTO t USING s ON t.a = s.x WHEN MATCHED AND s.y = 'nope' AND |nope > 1 THEN DELETE",
    "SELECT 'nope' AS n FROM s WHERE |nope = 1 -- nope",
]


def test_every_engine_underlines_the_name_itself(small: vk.Database) -> None:
    for marked in NAMED:
        text = marked.replace("|", "")
        with pytest.raises(ViewkeeperError) as caught:
            small.sql(text).rows()
        place = caught.value.place
        assert place is not None, text
        assert (place.line, place.column, place.length) == (1, marked.index("|") + 1, len("nope")), text
