"""View statements as values, and what a user reads when one is wrong, word for word."""

from __future__ import annotations

from typing import Any

import pytest

from viewkeeper.errors import SqlError
from viewkeeper.sql.dialect import parse_expression
from viewkeeper.sql.parsed_statements import (
    AlterView,
    CreateTable,
    CreateView,
    Delete,
    Describe,
    DropTable,
    DropView,
    Explain,
    Insert,
    Merge,
    Refresh,
    Select,
    Show,
    Update,
    Verify,
    ViewOptions,
    parse,
)
from viewkeeper.sql.tokens import split


def read(text: str) -> Any:
    (statement,) = split(text)
    return parse(statement)


def made(**fields: Any) -> CreateView:
    known: dict[str, Any] = {
        "name": "v",
        "columns": None,
        "query": "SELECT 1",
        "materialized": True,
        "or_replace": False,
        "if_not_exists": False,
        "options": ViewOptions(),
    }
    return CreateView(**{**known, **fields})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE VIEW v AS SELECT 1", made(materialized=False)),
        ("create materialized view v as SELECT 1", made()),
        ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1", made(or_replace=True)),
        ("CREATE VIEW IF NOT EXISTS `a b` AS SELECT 1", made(name="a b", materialized=False, if_not_exists=True)),
        ("CREATE MATERIALIZED VIEW v (a, `b c`) AS SELECT 1", made(columns=("a", "b c"))),
        ("CREATE MATERIALIZED VIEW v (a COMMENT 'x, y', b) COMMENT 'z; w' AS SELECT 1", made(columns=("a", "b"))),
        ("CREATE MATERIALIZED VIEW v AS\n  WITH w AS (SELECT 1) TABLE w", made(query="WITH w AS (SELECT 1) TABLE w")),
        ("CREATE VIEW v AS (SELECT ')' AS x)", made(query="(SELECT ')' AS x)", materialized=False)),
        ("CREATE VIEW v AS VALUES (1), (2)", made(query="VALUES (1), (2)", materialized=False)),
        (
            "CREATE VIEW v WITH (auxiliary = true) AS SELECT 1",
            made(materialized=False, options=ViewOptions(auxiliary=True)),
        ),
        (
            "CREATE MATERIALIZED VIEW v WITH (REFRESH = 'Full', ON = \"demand\", keep='1 day') COMMENT '' AS SELECT 1",
            made(options=ViewOptions("full", "demand", None, 86400.0)),
        ),
        (
            "CREATE MATERIALIZED VIEW v WITH (lag = '5 minutes', auxiliary = false) AS SELECT 1",
            made(options=ViewOptions("auto", "demand", 300.0, None, False)),
        ),
        ("ALTER MATERIALIZED VIEW v AS SELECT 2", AlterView("v", "SELECT 2", True)),
        ("ALTER VIEW v AS SELECT 2", AlterView("v", "SELECT 2", None)),
        ("DROP VIEW v", DropView("v", None, False, False)),
        ("DROP MATERIALIZED VIEW IF EXISTS v CASCADE", DropView("v", True, True, True)),
        ("DROP TABLE t", DropTable("t", False, False)),
        ("DROP TABLE IF EXISTS t CASCADE", DropTable("t", True, True)),
        ("DROP TABLE t RESTRICT", DropTable("t", False, False)),
        ("REFRESH v", Refresh("v")),
        ("REFRESH TABLE t", Refresh("t")),
        ("REFRESH VIEW v", Refresh("v")),
        ("REFRESH MATERIALIZED VIEW v", Refresh("v")),
        ("VERIFY", Verify(None)),
        ("VERIFY v", Verify("v")),
        ("VERIFY VIEW v", Verify("v")),
        ("VERIFY MATERIALIZED VIEW v", Verify("v")),
        ("SHOW VIEWS", Show("VIEWS")),
        ("SHOW TABLES", Show("TABLES")),
        ("DESCRIBE v", Describe("v")),
        ("DESC MATERIALIZED VIEW v", Describe("v")),
        ("DESCRIBE view", Describe("view")),
        ("EXPLAIN VIEW v", Explain("v")),
        ("EXPLAIN MATERIALIZED VIEW v", Explain("v")),
        ("EXPLAIN SELECT a FROM t AS OF EPOCH 3", Explain(Select("SELECT a FROM t", 3))),
        ("EXPLAIN DELETE FROM t WHERE a = 'x;y'", Explain(Delete("t", "t", parse_expression("a = 'x;y'")))),
    ],
)
def test_statements(text: str, expected: Any) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("INSERT INTO t VALUES (1)", Insert),
        ("UPDATE t SET a = 1", Update),
        ("MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE", Merge),
    ],
)
def test_explain_reads_the_change_itself(text: str, kind: type[Any]) -> None:
    found = read(f"EXPLAIN {text}")
    assert found.what == read(text)
    assert isinstance(found.what, kind)


def test_a_rule_is_one_statement() -> None:
    rule = "CREATE RULE r ON t WHEN INSERTED DO BEGIN UPDATE t SET a = CASE WHEN b THEN 1 END; DELETE FROM s; END"
    assert [part.sql for part in split(f"SELECT 1; {rule}; SELECT 2;")] == ["SELECT 1", rule, "SELECT 2"]
    replaced = rule.replace("CREATE", "create or replace")
    assert [part.sql for part in split(f"{replaced}; SELECT 2")] == [replaced, "SELECT 2"]
    short = "CREATE RULE r ON t WHEN INSERTED DO DELETE FROM s"
    assert [part.sql for part in split(f"{short}; BEGIN; COMMIT")] == [short, "BEGIN", "COMMIT"]
    assert len(split("BEGIN; SELECT CASE WHEN a THEN 1 END FROM t; COMMIT")) == 3


def test_explain_and_show_end_at_the_semicolon() -> None:
    text = "EXPLAIN SELECT ';' AS a; SHOW TABLES; EXPLAIN VIEW v"
    assert [part.sql for part in split(text)] == ["EXPLAIN SELECT ';' AS a", "SHOW TABLES", "EXPLAIN VIEW v"]


def test_tables_are_still_tables() -> None:
    assert isinstance(read("CREATE TABLE view (as_of INT)"), CreateTable)
    assert read("CREATE TABLE t AS SELECT 1").query == "SELECT 1"


WRONG = [
    (
        "CREATE MATERIALIZED VIEW v WITH (speed = 3) AS SELECT 1",
        """a view has no option 'speed'
at line 1, column 34:
  CREATE MATERIALIZED VIEW v WITH (speed = 3) AS SELECT 1
                                   ^^^^^
hint: the options are refresh, on, lag, keep, auxiliary, lane""",
    ),
    (
        "CREATE MATERIALIZED VIEW v\n  WITH (refresh = 'daily') AS SELECT 1",
        """'refresh' cannot be 'daily'
at line 2, column 19:
    WITH (refresh = 'daily') AS SELECT 1
                    ^^^^^^^
hint: write refresh = 'auto', 'incremental' or 'full'""",
    ),
    (
        "CREATE MATERIALIZED VIEW v WITH (on = demand) AS SELECT 1",
        """expected a value of 'on' in quotes here
at line 1, column 39:
  CREATE MATERIALIZED VIEW v WITH (on = demand) AS SELECT 1
                                        ^^^^^^
hint: write on = 'commit' or 'demand'""",
    ),
    (
        "CREATE MATERIALIZED VIEW v WITH (lag = '5 mints') AS SELECT 1",
        """'5 mints' is not a duration
at line 1, column 40:
  CREATE MATERIALIZED VIEW v WITH (lag = '5 mints') AS SELECT 1
                                         ^^^^^^^^^
hint: write for instance lag = '5 minutes' or lag = '7 days'""",
    ),
    (
        "CREATE MATERIALIZED VIEW v WITH (lag = '0 days') AS SELECT 1",
        """'lag' must be longer than nothing
at line 1, column 40:
  CREATE MATERIALIZED VIEW v WITH (lag = '0 days') AS SELECT 1
                                         ^^^^^^^^
hint: write for instance lag = '5 minutes' or lag = '7 days'""",
    ),
    (
        "CREATE MATERIALIZED VIEW v WITH (on = 'commit', lag = '5 min') AS SELECT 1",
        """a view that is refreshed on every commit has no lag
at line 1, column 49:
  CREATE MATERIALIZED VIEW v WITH (on = 'commit', lag = '5 min') AS SELECT 1
                                                  ^^^
hint: leave out lag, or on = 'commit'""",
    ),
    (
        "CREATE MATERIALIZED VIEW v WITH (keep = '1 day', keep = '2 days') AS SELECT 1",
        """the option 'keep' is given twice
at line 1, column 50:
  CREATE MATERIALIZED VIEW v WITH (keep = '1 day', keep = '2 days') AS SELECT 1
                                                   ^^^^
hint: leave one of them out""",
    ),
    (
        "CREATE MATERIALIZED VIEW v WITH (auxiliary = 1) AS SELECT 1",
        """'auxiliary' is true or false
at line 1, column 46:
  CREATE MATERIALIZED VIEW v WITH (auxiliary = 1) AS SELECT 1
                                               ^
hint: write auxiliary = true or auxiliary = false""",
    ),
    (
        "CREATE VIEW v WITH (on = 'commit') AS SELECT 1",
        """a view that is not materialized stores nothing, so 'on' does not apply to it
at line 1, column 21:
  CREATE VIEW v WITH (on = 'commit') AS SELECT 1
                      ^^
hint: leave it out, or write CREATE MATERIALIZED VIEW""",
    ),
    (
        "CREATE VIEW v (a INT) AS SELECT 1",
        """a view's columns are names alone: their types come from its query
at line 1, column 18:
  CREATE VIEW v (a INT) AS SELECT 1
                   ^^^
hint: write (a, ...) AS SELECT ...""",
    ),
    (
        "CREATE VIEW v (a, A) AS SELECT 1, 2",
        """the view has two columns named 'A'
at line 1, column 19:
  CREATE VIEW v (a, A) AS SELECT 1, 2
                    ^
hint: give each its own name""",
    ),
    (
        "CREATE VIEW AS SELECT 1",
        """expected a view name here
at line 1, column 13:
  CREATE VIEW AS SELECT 1
              ^^
hint: CREATE VIEW name AS SELECT ...""",
    ),
    (
        "CREATE MATERIALIZED VIEW v SELECT 1",
        """expected AS and a query here
at line 1, column 28:
  CREATE MATERIALIZED VIEW v SELECT 1
                             ^^^^^^
hint: CREATE MATERIALIZED VIEW v AS SELECT ...""",
    ),
    (
        "CREATE VIEW v AS DELETE FROM t",
        """a view is a query
at line 1, column 18:
  CREATE VIEW v AS DELETE FROM t
                   ^^^^^^
hint: for instance AS SELECT region, sum(amount) FROM orders ...""",
    ),
    (
        "CREATE VIEW v AS SELECT a FROM t AS OF EPOCH 3",
        """a view is maintained with its tables, so it cannot read them AS OF an epoch
at line 1, column 34:
  CREATE VIEW v AS SELECT a FROM t AS OF EPOCH 3
                                   ^^
hint: leave it out""",
    ),
    (
        "CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1",
        """OR REPLACE and IF NOT EXISTS exclude each other
at line 1, column 24:
  CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT 1
                         ^^
hint: leave one of them out""",
    ),
    (
        "CREATE OR REPLACE TABLE t (a INT)",
        """only views and rules can be replaced
at line 1, column 19:
  CREATE OR REPLACE TABLE t (a INT)
                    ^^^^^
hint: DROP TABLE IF EXISTS name; CREATE TABLE name ...""",
    ),
    (
        "CREATE TEMPORARY VIEW v AS SELECT 1",
        """CREATE TEMPORARY is not supported: every view and table belongs to the database
at line 1, column 8:
  CREATE TEMPORARY VIEW v AS SELECT 1
         ^^^^^^^^^
hint: use CREATE VIEW name AS SELECT ..., and DROP VIEW name in the end""",
    ),
    (
        "CREATE MATERIALIZED VIEW v SCHEDULE EVERY 1 HOUR AS SELECT 1",
        """SCHEDULE is not supported for a view
at line 1, column 28:
  CREATE MATERIALIZED VIEW v SCHEDULE EVERY 1 HOUR AS SELECT 1
                             ^^^^^^^^
hint: write WITH (on = 'demand') and run REFRESH when you want it""",
    ),
    (
        "ALTER VIEW v RENAME TO w",
        """only the query of a view can be altered
at line 1, column 14:
  ALTER VIEW v RENAME TO w
               ^^^^^^
hint: ALTER VIEW v AS SELECT ..., or ALTER MATERIALIZED VIEW v SUSPEND""",
    ),
    (
        "ALTER TABLE t ADD COLUMN a INT",
        """ALTER TABLE is not supported in this version
at line 1, column 7:
  ALTER TABLE t ADD COLUMN a INT
        ^^^^^
hint: ALTER MATERIALIZED VIEW name AS SELECT ... is""",
    ),
    (
        "EXPLAIN EXTENDED SELECT 1",
        """EXPLAIN does not know this
at line 1, column 9:
  EXPLAIN EXTENDED SELECT 1
          ^^^^^^^^
hint: use EXPLAIN VIEW name, or EXPLAIN before SELECT, INSERT, UPDATE, DELETE, MERGE or ALTER VIEW""",
    ),
    (
        "EXPLAIN DELETE t",
        """expected FROM here
at line 1, column 16:
  EXPLAIN DELETE t
                 ^""",
    ),
    (
        "VERIFY VIEW v w",
        """'w' is not expected here
at line 1, column 15:
  VERIFY VIEW v w
                ^""",
    ),
    (
        "DROP",
        """expected TABLE, VIEW, MATERIALIZED VIEW, RULE or ASSERTION here
at line 1, column 5:
  DROP
      ^""",
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[text for text, _ in WRONG])
def test_messages(text: str, message: str) -> None:
    with pytest.raises(SqlError) as found:
        read(text)
    assert str(found.value) == message
