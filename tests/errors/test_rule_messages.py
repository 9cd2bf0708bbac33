"""What a user reads when a statement about a rule or an assertion is wrong, word for word."""

from __future__ import annotations

import pytest

import viewkeeper as vk
from viewkeeper.errors import (
    AlreadyExists,
    AssertionViolated,
    ConstraintViolation,
    NotFound,
    RuleLoop,
    SqlError,
    TypeMismatch,
    ViewkeeperError,
)
from viewkeeper.rules import processing

SCHEMA = """
CREATE TABLE orders (id INT PRIMARY KEY, region STRING NOT NULL, amount INT);
CREATE TABLE bag (a INT, b INT);
CREATE TABLE log (id INT, what STRING);
INSERT INTO orders VALUES (1, 'EU', 10), (2, 'US', 20);
CREATE MATERIALIZED VIEW sums AS SELECT region, sum(amount) AS total FROM orders GROUP BY region;
CREATE VIEW virt AS SELECT a FROM bag;
CREATE RULE audit ON orders DO INSERT INTO log SELECT id, 'new' FROM inserted;
CREATE RULE of_sums ON sums DO INSERT INTO log SELECT 0, region FROM inserted;
CREATE RULE above (bound INT, what STRING) ON (SELECT id FROM orders WHERE amount > :bound AND region = :what)
    DO INSERT INTO log SELECT id, :what FROM inserted;
CREATE ASSERTION small CHECK (NOT EXISTS (SELECT id, amount FROM orders WHERE amount > 100));
CREATE ASSERTION cheap ON VIOLATION WARN CHECK (NOT EXISTS (SELECT id FROM orders WHERE amount > 15))
"""
OPTIONS = "options are STRICT or NERVOUS, IMMEDIATE, DEFERRED or DETACHED, and PRIORITY n; then ON"
CHANGES = "use INSERT, UPDATE, DELETE, MERGE or TRUNCATE"
IN_CONDITION, IN_ACTION = "found in the condition of the rule", "found in the action of the rule"
RESERVED = "reserved are _weight, _epoch, _diff, _progressed and names that begin with _vk"
NO_TABLE = "CHECK (NOT EXISTS (SELECT ...)), or a condition over subqueries"
TABLES = "the tables are bag, cheap, log, orders, small, sums, virt"

Case = tuple[str, type[ViewkeeperError], str]
"""A statement with the position of its error marked as «here», the kind of error, and its text without the position."""

SYNTAX: list[Case] = [
    (
        "CREATE RULE r «FAST» ON orders DO DELETE FROM log",
        SqlError,
        f"'FAST' is not an option of a rule\nhint: {OPTIONS}",
    ),
    (
        "CREATE RULE r STRICT «NERVOUS» ON orders DO DELETE FROM log",
        SqlError,
        "the semantics of the rule is said twice\nhint: leave one of them out",
    ),
    (
        "CREATE RULE r DEFERRED «IMMEDIATE» ON orders DO DELETE FROM log",
        SqlError,
        "the coupling of the rule is said twice\nhint: leave one of them out",
    ),
    (
        "CREATE RULE r PRIORITY «high» ON orders DO DELETE FROM log",
        SqlError,
        "PRIORITY needs a number\nhint: PRIORITY 10; rules with lower numbers come first",
    ),
    (
        "CREATE RULE r ON orders«»",
        SqlError,
        "expected DO and an action here\nhint: DO INSERT INTO t SELECT * FROM inserted",
    ),
    (
        "CREATE RULE r ON orders WHEN «CHANGED» DO DELETE FROM log",
        SqlError,
        "expected INSERTED, DELETED or UPDATED here\nhint: WHEN INSERTED OR UPDATED",
    ),
    (
        "CREATE RULE r ON orders WHEN DELETED OR «DELETED» DO DELETE FROM log",
        SqlError,
        "DELETED is said twice\nhint: leave one of them out",
    ),
    (
        "CREATE RULE r ON orders IF «amount» > 1 DO DELETE FROM log",
        SqlError,
        "expected a condition in brackets here\nhint: IF (EXISTS (SELECT * FROM inserted))",
    ),
    ("CREATE RULE r ON orders IF «(») DO DELETE FROM log", SqlError, "there is nothing in these brackets"),
    ("CREATE RULE r ON orders DO«»", SqlError, "expected a statement at the end"),
    (
        "CREATE RULE r ON orders DO BEGIN DELETE FROM log«»",
        SqlError,
        "expected END here\nhint: DO BEGIN statement; statement; END",
    ),
    (
        "CREATE RULE r ON orders DO BEGIN «END»",
        SqlError,
        "the rule does nothing\nhint: DO BEGIN INSERT INTO ...; END",
    ),
    (
        "CREATE RULE r (p INT, «P» INT) ON (SELECT id FROM orders WHERE id = :p) DO DELETE FROM log",
        SqlError,
        "two parameters are named 'P'\nhint: give one another name",
    ),
    (
        "ALTER RULE audit «RENAME»",
        SqlError,
        "expected ENABLE or DISABLE here\n"
        "hint: ALTER RULE audit ENABLE or DISABLE; CREATE OR REPLACE RULE changes anything else",
    ),
    (
        "DEACTIVATE RULE above«»",
        SqlError,
        "expected the values of the parameters here\nhint: DEACTIVATE RULE above (1)",
    ),
    ("RETRY RULE audit EPOCH «x»", SqlError, "EPOCH needs a number\nhint: RETRY RULE audit EPOCH 7"),
    ("CHECK «1»", SqlError, "'1' is not expected here"),
    (
        "CREATE ASSERTION a CHECK «NOT» EXISTS (SELECT id FROM orders)",
        SqlError,
        "expected CHECK and a condition in brackets here\nhint: CREATE ASSERTION a CHECK (NOT EXISTS (SELECT ...))",
    ),
    (
        "CREATE ASSERTION a ON VIOLATION «IGNORE» CHECK (NOT EXISTS (SELECT id FROM orders))",
        SqlError,
        "expected ABORT or WARN here\nhint: ON VIOLATION WARN reports violations and commits",
    ),
]

DEFINITIONS: list[Case] = [
    # what a rule watches
    (
        "CREATE RULE r ON «ordrs» DO DELETE FROM log",
        NotFound,
        "there is no table named 'ordrs'\nhint: did you mean 'orders'?",
    ),
    (
        "CREATE RULE r ON (SELECT «nope» FROM orders) DO DELETE FROM log",
        NotFound,
        "there is no column 'nope'\nhint: there are id, region, amount",
    ),
    (
        "CREATE RULE «r» ON (SELECT id, id FROM orders) DO DELETE FROM log",
        SqlError,
        "two columns of the query of r are named 'id'\nhint: give one another name with AS",
    ),
    (
        "CREATE RULE r (p INT) ON (SELECT id FROM «ordrs» WHERE id = :p) DO DELETE FROM log",
        NotFound,
        "there is no table named 'ordrs'\nhint: did you mean 'orders'?",
    ),
    (
        "CREATE RULE r ON (SELECT id FROM «orders AS OF OLD») DO DELETE FROM log",
        SqlError,
        "AS OF OLD reads a table as before a transaction: it cannot stand in the query of a view\n"
        "hint: use it in the condition or the action of a rule",
    ),
    (
        "CREATE RULE «audit» ON orders DO DELETE FROM log",
        AlreadyExists,
        "there is already a rule named 'audit'\nhint: DROP RULE audit, or CREATE OR REPLACE RULE",
    ),
    # events
    (
        "CREATE RULE «r» ON bag WHEN UPDATED DO DELETE FROM log",
        SqlError,
        "rows of bag have no key, so none of them can be seen to be updated\n"
        "hint: declare a PRIMARY KEY, or write WHEN INSERTED OR DELETED",
    ),
    (
        "CREATE RULE «r» ON virt WHEN UPDATED DO DELETE FROM log",
        SqlError,
        "rows of virt have no key, so none of them can be seen to be updated\n"
        "hint: give the view the key of a table, or write WHEN INSERTED OR DELETED",
    ),
    (
        "CREATE RULE «r» ON (SELECT b FROM bag) WHEN INSERTED OR UPDATED DO DELETE FROM log",
        SqlError,
        "rows of the query have no key, so none of them can be seen to be updated\n"
        "hint: select the key of a table too, or write WHEN INSERTED OR DELETED",
    ),
    (
        "CREATE RULE «r» NERVOUS ON orders WHEN INSERTED OR DELETED DO DELETE FROM log",
        SqlError,
        "a nervous rule reacts to inserted rows alone\nhint: write WHEN INSERTED, or STRICT",
    ),
    # parameters
    (
        "CREATE RULE r (p INT) ON (SELECT id FROM orders WHERE id = «:q») DO DELETE FROM log",
        NotFound,
        "the rule has no parameter ':q'\nhint: its parameters are :p",
    ),
    (
        "CREATE RULE r ON (SELECT id FROM orders WHERE id = «:p») DO DELETE FROM log",
        NotFound,
        "the rule has no parameter ':p'\nhint: declare it: CREATE RULE name (p TYPE) ...",
    ),
    (
        "CREATE RULE r ON orders DO DELETE FROM log WHERE id = «:p»",
        NotFound,
        "the rule has no parameter ':p'\nhint: declare it: CREATE RULE name (p TYPE) ...",
    ),
    (
        "CREATE RULE r («p» INT) ON (SELECT id FROM orders) DO DELETE FROM log",
        SqlError,
        "the parameter p is not used by the query that the rule watches\nhint: ON (SELECT ... WHERE column = :p)",
    ),
    # conditions
    (
        "CREATE RULE r ON orders IF («amount» > 3) DO DELETE FROM log",
        NotFound,
        f"there is no column 'amount'\ndetail: {IN_CONDITION}\nhint: name a table in FROM that has it",
    ),
    (
        "CREATE RULE r ON orders IF (EXISTS (SELECT * FROM «nowhere»)) DO DELETE FROM log",
        NotFound,
        f"there is no table named 'nowhere'\ndetail: {IN_CONDITION}\nhint: {TABLES}",
    ),
    (
        "CREATE RULE r ON orders IF (EXISTS (SELECT * FROM«)») DO DELETE FROM log",
        SqlError,
        "bad SQL: expected table name but got ')'",
    ),
    # actions
    (
        "CREATE RULE r ON orders DO «SELECT» * FROM inserted",
        SqlError,
        f"the action of a rule changes tables: SELECT cannot stand in it\nhint: {CHANGES}",
    ),
    (
        "CREATE RULE r ON orders DO BEGIN DELETE FROM log; «CHECK»; END",
        SqlError,
        f"the action of a rule changes tables: CHECK cannot stand in it\nhint: {CHANGES}",
    ),
    (
        "CREATE RULE r ON orders DO DELETE FROM «sums»",
        SqlError,
        "sums is a view: its rows come from orders\nhint: change those tables instead",
    ),
    (
        "CREATE RULE r ON orders DO DELETE FROM «inserted»",
        SqlError,
        "inserted is a transition table: an action can only read it\n"
        "hint: change the table that the rule watches, or another one",
    ),
    (
        "CREATE RULE r ON orders DO INSERT INTO «lgo» SELECT id, 'x' FROM inserted",
        NotFound,
        "there is no table named 'lgo'\nhint: did you mean 'log'?",
    ),
    (
        "CREATE RULE r ON orders DO INSERT INTO «log» SELECT id FROM inserted",
        TypeMismatch,
        f"INSERT gives 1 values per row, log takes 2\ndetail: {IN_ACTION}\nhint: the columns are id, what",
    ),
    (
        "CREATE RULE r ON orders DO UPDATE log SET «nope» = 1",
        NotFound,
        f"there is no column 'nope' in log\ndetail: {IN_ACTION}\nhint: its columns are id, what",
    ),
    (
        "CREATE RULE r ON orders FOR EACH ROW DO INSERT INTO log VALUES («new.nope», 'x')",
        NotFound,
        "the row has no column 'nope'\nhint: its columns are amount, id, region",
    ),
    (
        "CREATE RULE r ON orders DO INSERT INTO log VALUES (new.«id», 'x')",
        NotFound,
        f"there is no column 'id'\ndetail: {IN_ACTION}\n"
        "hint: without FOR EACH ROW, new and old are tables: SELECT ... FROM new",
    ),
    (
        "CREATE RULE r ON orders DO INSERT INTO log SELCT «1»",
        SqlError,
        "bad SQL: '1' is not expected here",
    ),
    (
        "CREATE RULE r ON orders\nDO BEGIN\n  INSERT INTO log SELECT id, 'nope' AS nope FROM inserted;\n"
        "  DELETE FROM log WHERE id IN (SELECT «nope» FROM inserted);\nEND",
        NotFound,
        f"there is no column 'nope'\ndetail: {IN_ACTION}\nhint: there are id, region, amount, what",
    ),
    (
        "CREATE RULE r ON orders IF (EXISTS (SELECT 1 AS nope)) DO INSERT INTO log SELECT id, «nope» FROM inserted",
        NotFound,
        f"there is no column 'nope'\ndetail: {IN_ACTION}\nhint: check the spelling; DESCRIBE table lists its columns",
    ),
    (
        "CREATE RULE r (p INT) ON (SELECT id FROM orders WHERE amount = :p) FOR EACH ROW DO DELETE FROM log\n"
        "WHERE what <> 'nope' AND new.id <> :p AND «nope» = new.id",
        NotFound,
        f"there is no column 'nope'\ndetail: {IN_ACTION}\nhint: there are id, what",
    ),
    (
        "CREATE RULE r (p INT) ON (SELECT :p, 'nope' AS n, «nope» FROM orders WHERE id = :p) DO DELETE FROM log",
        NotFound,
        "there is no column 'nope'\nhint: there are id, region, amount, p, n",
    ),
    # webhooks
    (
        "CREATE RULE «r» ON orders DO WEBHOOK 'https://example.com'",
        SqlError,
        "a webhook cannot be called inside a transaction, which may still be rolled back\n"
        "hint: CREATE RULE r DETACHED ...",
    ),
    (
        "CREATE RULE «r» DETACHED ON orders FOR EACH ROW DO WEBHOOK 'https://example.com'",
        SqlError,
        "a webhook is called once for a firing\nhint: leave out FOR EACH ROW: the document has all rows of a firing",
    ),
    (
        "CREATE RULE r DETACHED ON orders DO WEBHOOK «example»",
        SqlError,
        "expected the address of the webhook in quotes here\nhint: DO WEBHOOK 'https://example.com/hook'",
    ),
    # names of rules
    (
        "DROP RULE «audt»",
        NotFound,
        "there is no rule named 'audt'\nhint: did you mean 'audit'?",
    ),
    (
        "ALTER RULE «nowhere» DISABLE",
        NotFound,
        "there is no rule named 'nowhere'\nhint: SHOW RULES lists the rules",
    ),
    (
        "RETRY RULE «audit» EPOCH 3",
        NotFound,
        "audit has no parked firing of epoch 3\nhint: SHOW RULE FIRINGS lists the firings",
    ),
    # activations
    (
        "ACTIVATE RULE «audit» (1)",
        SqlError,
        "the rule audit has no parameters: it is active\nhint: ALTER RULE audit DISABLE or ENABLE",
    ),
    (
        "ACTIVATE RULE «above» (1)",
        TypeMismatch,
        "above takes 2 values, 1 given\nhint: its parameters are bound INT, what STRING",
    ),
    (
        "ACTIVATE RULE «above» ('x', 'EU')",
        TypeMismatch,
        "'x' does not fit parameter 'bound' of above, which is INT\n"
        "detail: it is a string\nhint: its parameters are bound INT, what STRING",
    ),
    (
        "ACTIVATE RULE «above» (NULL, 'EU')",
        TypeMismatch,
        "the parameter bound of above cannot be NULL\nhint: its parameters are bound INT, what STRING",
    ),
    (
        "DEACTIVATE RULE «above» (amount, 'EU')",
        NotFound,
        "there is no column 'amount'\nhint: give values, not columns",
    ),
    # what rules use
    (
        "DROP TABLE «log»",
        SqlError,
        "log cannot be dropped: the rule above, the rule audit, the rule of_sums use it\n"
        "hint: DROP TABLE log CASCADE drops them too",
    ),
    (
        "DROP MATERIALIZED VIEW «sums»",
        SqlError,
        "sums cannot be dropped: the rule of_sums uses it\nhint: DROP MATERIALIZED VIEW sums CASCADE drops it too",
    ),
    # assertions
    (
        "CREATE ASSERTION «a» CHECK (NOT EXISTS (SELECT id, region FROM orders))",
        AssertionViolated,
        "the assertion a does not hold now\n"
        "detail: violated by (id = 1, region = 'EU'), (id = 2, region = 'US')\n"
        "hint: repair these rows first, or ON VIOLATION WARN; then SELECT * FROM a lists them",
    ),
    (
        "ALTER ASSERTION «cheap» ON VIOLATION ABORT",
        AssertionViolated,
        "the assertion cheap does not hold now\n"
        "detail: violated by (id = 2)\n"
        "hint: repair these rows first, or ON VIOLATION WARN; then SELECT * FROM cheap lists them",
    ),
    (
        "CREATE ASSERTION «a» CHECK (1 = 1)",
        SqlError,
        f"the condition of the assertion reads no table\nhint: {NO_TABLE}",
    ),
    (
        "CREATE ASSERTION «a» CHECK (NOT EXISTS (SELECT 1))",
        SqlError,
        f"the condition of the assertion reads no table\nhint: {NO_TABLE}",
    ),
    (
        "CREATE ASSERTION a CHECK ((SELECT count(*) FROM «ordrs») > 1)",
        NotFound,
        "there is no table named 'ordrs'\nhint: did you mean 'orders'?",
    ),
    (
        "CREATE ASSERTION a CHECK (\n  (SELECT «nope» FROM orders) > 1)",
        NotFound,
        "there is no column 'nope'\nhint: there are id, region, amount",
    ),
    (
        "CREATE ASSERTION «small» CHECK (NOT EXISTS (SELECT a FROM bag))",
        AlreadyExists,
        "there is already an assertion named 'small'\nhint: DROP ASSERTION small",
    ),
    (
        "DROP ASSERTION «smal»",
        NotFound,
        "there is no assertion named 'smal'\nhint: did you mean 'small'?",
    ),
    (
        "DROP ASSERTION «sums»",
        SqlError,
        "sums is a materialized view\nhint: DROP MATERIALIZED VIEW sums",
    ),
    (
        "ALTER ASSERTION «orders» ON VIOLATION WARN",
        SqlError,
        "orders is a table\nhint: SHOW ASSERTIONS lists the assertions",
    ),
    ("DROP VIEW «small»", SqlError, "small is an assertion\nhint: DROP ASSERTION small"),
    (
        "ALTER VIEW «small» AS SELECT id FROM orders",
        SqlError,
        "small is an assertion, whose condition cannot be replaced\nhint: DROP ASSERTION small, and create it",
    ),
    (
        "INSERT INTO «small» VALUES (9, 101)",
        SqlError,
        "small is a view: its rows come from orders\nhint: change those tables instead",
    ),
    # names of the system
    *(
        (
            statement,
            SqlError,
            f"'_vk_x' is a reserved name\ndetail: {RESERVED}\nhint: call it for instance 'vk_x'",
        )
        for statement in (
            "CREATE TABLE «_vk_x» (a INT)",
            "CREATE TABLE «_vk_x» AS SELECT 1 AS a",
            "CREATE VIEW «_vk_x» AS SELECT a FROM bag",
            "CREATE MATERIALIZED VIEW «_vk_x» AS SELECT a FROM bag",
            "CREATE ASSERTION «_vk_x» CHECK (NOT EXISTS (SELECT a FROM bag))",
        )
    ),
    (
        "CREATE TABLE «_Epoch» (a INT)",
        SqlError,
        f"'_Epoch' is a reserved name\ndetail: {RESERVED}\nhint: call it for instance 'Epoch'",
    ),
]


def check(db: vk.Database, case: Case) -> None:
    """The statement fails with the text, the position stands after the first line, and nothing is changed."""
    marked, kind, wanted = case
    before, at, after = marked.partition("«")
    word, _, rest = after.partition("»")
    epoch = db.epoch
    with pytest.raises(kind) as caught:
        db.sql(before + word + rest)
    problem = caught.value
    assert type(problem) is kind
    place, problem.place = problem.place, None
    assert str(problem) == wanted, marked
    assert at
    assert place is not None, marked
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    assert (place.line, place.column, place.length) == (line, column, max(1, len(word))), marked
    assert place.text.split("\n")[line - 1].rstrip() == (before + word + rest).split("\n")[line - 1].rstrip(), marked
    assert db.epoch == epoch


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_statements_about_rules_and_assertions(db: vk.Database) -> None:
    db.sql(SCHEMA)
    for case in (*SYNTAX, *DEFINITIONS):
        check(db, case)


ON_BOTH = (
    "CREATE RULE r ON orders IF («amount»",
    "CREATE RULE r ON orders DO INSERT INTO log VALUES (new",
    "CREATE RULE r ON orders DO UPDATE log SET «nope»",
    "DEACTIVATE RULE «above» (amount",
    "ACTIVATE RULE «above» ('x'",
    "CREATE ASSERTION «a» CHECK (NOT EXISTS (SELECT id",
)


@pytest.mark.spark_long
def test_messages_that_an_engine_has_a_word_in(db: vk.Database) -> None:
    db.sql(SCHEMA)
    chosen = [case for case in DEFINITIONS if case[0].startswith(ON_BOTH)]
    assert len(chosen) == len(ON_BOTH)
    for case in chosen:
        check(db, case)


# when a transaction runs ----------------------------------------------------------------------------


def told(db: vk.Database, text: str, kind: type[ViewkeeperError]) -> str:
    with pytest.raises(kind) as caught:
        db.sql(text)
    return str(caught.value)


def test_a_violated_assertion(db: vk.Database) -> None:
    db.sql(SCHEMA)
    assert told(db, "INSERT INTO orders VALUES (9, 'EU', 101), (8, 'EU', 200)", AssertionViolated) == (
        "the assertion small is violated\n"
        "detail: by (id = 8, amount = 200), (id = 9, amount = 101); led to by orders: inserted "
        "(id = 8, region = 'EU', amount = 200), (id = 9, region = 'EU', amount = 101)\n"
        "hint: nothing was changed; EXPLAIN ASSERTION small says which changes can violate it"
    )


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_errors_in_actions_name_the_rule(db: vk.Database) -> None:
    db.sql(SCHEMA)
    db.sql("CREATE RULE dup ON bag DO INSERT INTO orders SELECT a, 'x', b FROM inserted")
    assert told(db, "INSERT INTO bag VALUES (1, 5)", ConstraintViolation) == (
        "PRIMARY KEY (id) of orders is broken: there would be two rows with id = 1\n"
        "detail: in the action of the rule dup\n"
        "hint: change the key, or replace the row with upsert or MERGE"
    )
    db.sql("CREATE OR REPLACE RULE dup ON bag DO INSERT INTO log SELECT 'x', 'y' FROM inserted")
    assert told(db, "INSERT INTO bag VALUES (1, 5)", TypeMismatch) == (
        "'x' does not fit column 'id' of log, which is INT\n"
        "detail: in the action of the rule dup: it is a string\n"
        "hint: write CAST(... AS INT) if that is what you mean"
    )
    assert db.sql("SELECT * FROM bag").rows() == []


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_loops_name_the_rules_and_the_last_rows(db: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given up earlier than users have it, which would take long."""
    assert processing.MOST_FIRINGS == 100
    monkeypatch.setattr(processing, "MOST_FIRINGS", 10)
    db.sql("CREATE TABLE bag (a INT); CREATE TABLE other (a INT)")
    db.sql("CREATE RULE again ON bag DO INSERT INTO bag SELECT a + 1 FROM inserted")
    assert told(db, "INSERT INTO bag VALUES (1)", RuleLoop) == (
        "the rule again triggers itself without end: given up after 10 firings\n"
        "detail: nothing was changed; the last firings saw again: inserted (a = 8); again: inserted (a = 9); "
        "again: inserted (a = 10)\n"
        "hint: give a rule a condition that its own action makes false, or ALTER RULE again DISABLE"
    )
    db.sql("ALTER RULE again DISABLE")
    db.sql("CREATE RULE ping ON bag DO INSERT INTO other SELECT a + 1 FROM inserted")
    db.sql("CREATE RULE pong ON other DO INSERT INTO bag SELECT a + 1 FROM inserted")
    assert told(db, "INSERT INTO bag VALUES (1)", RuleLoop) == (
        "the rules ping and pong trigger each other without end: given up after 10 firings\n"
        "detail: nothing was changed; the last firings saw ping: inserted (a = 17); pong: inserted (a = 18); "
        "ping: inserted (a = 19)\n"
        "hint: give a rule a condition that its own action makes false, or ALTER RULE ping DISABLE"
    )
    assert db.sql("SELECT * FROM bag").rows() == []
    db.sql("CREATE TABLE kept (id INT PRIMARY KEY, name STRING, n INT)")
    db.sql(
        """CREATE RULE both ON kept WHEN INSERTED OR UPDATED DO BEGIN
        UPDATE kept SET n = n + 1; INSERT INTO kept SELECT max(id) + 1, NULL, 0 FROM kept; END"""
    )
    assert (
        told(db, "INSERT INTO kept VALUES (1, 'one', 0)", RuleLoop)
        .split("\n")[1]
        .endswith(
            "; both: inserted (id = 10, name = NULL, n = 0), updated to (id = 1, name = 'one', n = 9), "
            "(id = 2, name = NULL, n = 8), (id = 3, name = NULL, n = 7) and more"
        )
    )


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_dropping_with_cascade_drops_the_rules(db: vk.Database) -> None:
    db.sql(SCHEMA)
    db.sql("DROP TABLE log CASCADE")
    assert told(db, "DROP RULE audit", NotFound).startswith("there is no rule named 'audit'")
    db.sql("INSERT INTO orders VALUES (3, 'EU', 30)")
    db.sql("CREATE RULE only ON bag DO DELETE FROM orders WHERE id IN (SELECT a FROM inserted)")
    assert told(db, "DROP VIEW virt; DROP TABLE bag", SqlError).startswith(
        "bag cannot be dropped: the rule only uses it"
    )
    db.sql("DROP RULE only; DROP TABLE bag")


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_reserved_names_in_datalog_and_loaded_files(db: vk.Database, tmp_path: object) -> None:
    with pytest.raises(SqlError, match="'_vk_e' is a reserved name") as caught:
        db.datalog(".decl _vk_e(x:symbol)\n.input _vk_e")
    assert caught.value.place is not None
    assert (caught.value.place.line, caught.value.place.column) == (1, 7)
    path = f"{tmp_path}/rows.csv"
    with open(path, "w") as file:
        file.write("a\n1\n")
    with pytest.raises(SqlError, match="'_vk_rows' is a reserved name"):
        db.load("_vk_rows", path, create=True)
