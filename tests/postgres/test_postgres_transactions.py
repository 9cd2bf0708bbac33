"""Transactions of every kind leave the views true: cascades, TRUNCATE, savepoints, several tables, two at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest

from tests.postgres.world import World, in_postgres

TABLES = "CREATE TABLE r (id INT, g INT, x INT); CREATE TABLE s (g INT, name STRING);"
VIEWS = {
    "joined": "SELECT r.id, s.name FROM r JOIN s ON r.g = s.g",
    "same_group": "SELECT a.id AS one, b.id AS other FROM r a JOIN r b ON a.g = b.g AND a.x < b.x",
    "sums": "SELECT g, count(*) AS n, sum(x) AS total, min(x) AS least FROM r GROUP BY g",
    "alone": "SELECT id FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.g = r.g)",
    "named_sums": "SELECT s.name, sums.total FROM s LEFT JOIN sums ON s.g = sums.g",
    "everything": "SELECT count(*) AS n FROM r",
}

BODY = "BEGIN {}; RETURN NULL; END"

Connect = Callable[[], psycopg.Connection]


@pytest.fixture
def world(pg: psycopg.Connection) -> World:
    """The tables with some rows, and the views."""
    made = World(pg)
    made.create_tables(TABLES)
    made.pg.execute("INSERT INTO r VALUES (1, 1, 10), (2, 1, 20), (3, 2, 30), (3, 2, 30), (4, NULL, NULL)")
    made.pg.execute("INSERT INTO s VALUES (1, 'one'), (2, 'two'), (2, 'two'), (NULL, 'none')")
    text = TABLES + ";\n".join(f"CREATE MATERIALIZED VIEW {name} AS {query}" for name, query in VIEWS.items())
    made.keep(text, {name: in_postgres(query) for name, query in VIEWS.items()})
    made.check()
    return made


@pytest.mark.parametrize(
    "statement",
    [
        "WITH gone AS (DELETE FROM r WHERE g = 1 RETURNING g) INSERT INTO s SELECT g, 'new' FROM gone",
        "WITH gone AS (DELETE FROM s WHERE g = 2 RETURNING g) UPDATE r SET g = 1 WHERE g IN (SELECT g FROM gone)",
        "WITH one AS (INSERT INTO r VALUES (5, 7, 70) RETURNING g), two AS (INSERT INTO s SELECT g, 'seven' FROM one) "
        "UPDATE r SET x = x + 1",
        "UPDATE r SET g = g + 1, x = NULL WHERE g IS NOT NULL",
        "MERGE INTO r USING s ON r.g = s.g AND s.name = 'one' WHEN MATCHED AND x > 10 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET g = 2 WHEN NOT MATCHED THEN INSERT VALUES (8, s.g, 80)",
        "UPDATE r SET x = x",
        "DELETE FROM r WHERE false",
        "INSERT INTO r SELECT * FROM r",
        "TRUNCATE r",
        "TRUNCATE r, s",
    ],
)
def test_one_statement(world: World, statement: str) -> None:
    world.pg.execute(statement)
    world.check()


def test_many_statements(world: World) -> None:
    with world.pg.transaction():
        world.pg.execute("INSERT INTO r VALUES (9, 9, 9)")
        world.pg.execute("INSERT INTO s VALUES (9, 'nine')")
        world.pg.execute("UPDATE r SET g = 1 WHERE id = 9")
        world.pg.execute("TRUNCATE r")
        world.pg.execute("INSERT INTO r VALUES (9, 9, 9), (9, 9, 9)")
        world.pg.execute("DELETE FROM s WHERE g = 1")
    world.check()
    assert world.bag("joined") == {(9, "nine"): 2}


def test_rolled_back(world: World) -> None:
    before = world.bag("joined")
    with world.pg.transaction():
        world.pg.execute("TRUNCATE s")
        raise psycopg.Rollback
    world.check()
    assert world.bag("joined") == before


@pytest.mark.parametrize("first", [True, False])
def test_savepoints(world: World, first: bool) -> None:
    with world.pg.transaction():
        if first:
            world.pg.execute("INSERT INTO r VALUES (5, 1, 50)")
        with world.pg.transaction():
            world.pg.execute("DELETE FROM r WHERE g = 2")
            world.pg.execute("INSERT INTO s VALUES (1, 'uno')")
            raise psycopg.Rollback
        with world.pg.transaction():
            world.pg.execute("INSERT INTO s VALUES (1, 'eins')")
    world.check()


def test_changes_that_cancel(world: World) -> None:
    with world.pg.transaction():
        world.pg.execute("INSERT INTO r VALUES (5, 1, 50)")
        world.pg.execute("DELETE FROM r WHERE id = 5")
    world.check()


def test_copy(world: World) -> None:
    with world.pg.cursor().copy("COPY r FROM STDIN") as copy:
        copy.write_row((7, 1, 70))
        copy.write_row((8, None, None))
    world.check()


def test_reading_within_a_transaction(world: World) -> None:
    with world.pg.transaction():
        before = world.bag("everything")
        world.pg.execute("INSERT INTO r VALUES (5, 1, 50)")
        assert world.bag("everything") == before
        world.pg.execute("SET CONSTRAINTS ALL IMMEDIATE")
        world.check()
        with (
            pytest.raises(
                psycopg.errors.RaiseException,
                match="tables of maintained views cannot be changed while constraints are immediate",
            ),
            world.pg.transaction(),
        ):
            world.pg.execute("DELETE FROM r WHERE g = 1")
        world.pg.execute("SET CONSTRAINTS ALL DEFERRED")
        world.pg.execute("DELETE FROM r WHERE g = 1")
        world.pg.execute("INSERT INTO s VALUES (2, 'deux')")
    world.check()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE r SET g = early(g + 1)",
        "DELETE FROM r WHERE early(g) = 1",
        "INSERT INTO r SELECT id, early(g), x FROM r",
        "INSERT INTO s VALUES (early(1), 'new')",
        "UPDATE s SET g = g + 1 RETURNING early(g)",
        "WITH gone AS (DELETE FROM r WHERE g = 1 RETURNING g) INSERT INTO s SELECT early(g), 'new' FROM gone",
        "WITH gone AS (DELETE FROM r WHERE g = 1 RETURNING g) SELECT early(g) FROM gone",
        "MERGE INTO r USING s ON r.g = s.g AND s.name = 'one' WHEN MATCHED THEN UPDATE SET g = early(2) "
        "WHEN NOT MATCHED THEN INSERT VALUES (8, s.g, 80)",
    ],
)
def test_maintenance_in_the_middle_of_a_statement(world: World, statement: str) -> None:
    """A function that a changing statement calls wants the views up to date, when it is half done: it is refused."""
    world.pg.execute(
        "CREATE FUNCTION early(n INT) RETURNS INT LANGUAGE plpgsql AS $$BEGIN INSERT INTO s VALUES (n, 'early'); "
        "SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED; RETURN n; END$$"
    )
    with (
        world.pg.transaction(),
        pytest.raises(psycopg.errors.RaiseException, match="cannot be changed while constraints are immediate"),
        world.pg.transaction(),
    ):
        world.pg.execute(statement)
    world.check()
    world.pg.execute("SELECT early(g) FROM r")  # changes no table itself
    world.check()
    with world.pg.transaction():
        world.pg.execute("INSERT INTO r VALUES (5, 1, 50)")
        world.pg.execute("DO $$BEGIN PERFORM early(2); END$$")
        world.check()
        world.pg.execute("DELETE FROM s WHERE g = 1")
    world.check()


def test_a_procedure_that_commits(world: World) -> None:
    world.pg.execute(
        "CREATE PROCEDURE steps() LANGUAGE plpgsql AS $$BEGIN INSERT INTO r VALUES (5, 1, 50); COMMIT; "
        "INSERT INTO s VALUES (1, 'uno'); COMMIT; END$$"
    )
    world.pg.execute("CALL steps()")
    world.check()


def test_a_function_that_changes_tables_itself(world: World) -> None:
    world.pg.execute(
        "CREATE FUNCTION more(n INT) RETURNS INT LANGUAGE plpgsql AS $$BEGIN "
        "BEGIN INSERT INTO r VALUES (n, n, n); PERFORM 1 / (n - 1); EXCEPTION WHEN division_by_zero THEN "
        "INSERT INTO s VALUES (n, 'one'); END; RETURN n; END$$"
    )
    world.pg.execute("UPDATE s SET g = more(g)")
    world.check()
    world.pg.execute("INSERT INTO r SELECT id, more(g), x FROM r WHERE g IS NOT NULL")
    world.check()


@pytest.mark.parametrize(
    ("table", "body"),
    [("s", "INSERT INTO r VALUES (70, 1, 70)"), ("r", "DELETE FROM r WHERE id = 1")],
)
def test_a_trigger_that_changes_a_table_that_is_truncated(world: World, table: str, body: str) -> None:
    world.pg.execute(f"CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $${BODY.format(body)}$$")
    world.pg.execute(f"CREATE TRIGGER z BEFORE TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION meddle()")
    with pytest.raises(psycopg.errors.RaiseException, match="r cannot be changed by a trigger while it is truncated"):
        world.pg.execute("TRUNCATE r, s")
    world.check()
    world.pg.execute(f"DROP TRIGGER z ON {table}")
    world.pg.execute("TRUNCATE r, s")
    world.pg.execute("INSERT INTO r VALUES (1, 2, 3)")
    world.check()


def test_a_change_at_commit_is_followed(world: World) -> None:
    """A deferred trigger of the user's own changes a table when the views are already up to date."""
    world.pg.execute("CREATE TABLE late (id INT)")
    world.pg.execute(
        "CREATE FUNCTION echo() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN INSERT INTO r VALUES (NEW.id, 1, 99); RETURN NULL; END$$"
    )
    world.pg.execute(
        "CREATE CONSTRAINT TRIGGER echo AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION echo()"
    )
    with world.pg.transaction():
        world.pg.execute("INSERT INTO s VALUES (1, 'uno')")
        world.pg.execute("INSERT INTO late VALUES (77), (78)")
    world.check()
    assert world.pg.execute("SELECT count(*) FROM joined WHERE id = 77").fetchone() == (2,)


def test_views_take_no_changes(world: World) -> None:
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        world.pg.execute("DELETE FROM sums")


def test_changes_that_were_not_seen(world: World) -> None:
    """A table changed behind the triggers' back: what does not fit is refused."""
    world.pg.execute("ALTER TABLE r DISABLE TRIGGER USER")
    world.pg.execute("INSERT INTO r VALUES (6, 1, 60)")
    world.pg.execute("ALTER TABLE r ENABLE TRIGGER USER")
    with pytest.raises(psycopg.errors.RaiseException, match="rows to delete from joined are not in it"):
        world.pg.execute("DELETE FROM r WHERE id = 6")


def test_a_writer_needs_no_right_to_the_views(world: World) -> None:
    world.pg.execute("CREATE ROLE writer")
    try:
        world.pg.execute("GRANT INSERT ON r TO writer")
        world.pg.execute("SET ROLE writer")
        world.pg.execute("INSERT INTO r VALUES (5, 1, 50)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            world.pg.execute('SELECT "_vk_keep_sums"()')
        world.pg.execute("RESET ROLE")
        world.check()
    finally:
        world.pg.execute("RESET ROLE; REVOKE ALL ON r FROM writer; DROP ROLE writer")


def test_no_one_else_can_write_the_logs(world: World) -> None:
    world.pg.execute("CREATE ROLE stranger")
    try:
        world.pg.execute("SET ROLE stranger")
        world.pg.execute("CREATE TEMPORARY TABLE mine (id INT, g INT, x INT)")
        for function in ("_vk_note_r", "_vk_begin", "_vk_maintain"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                world.pg.execute(
                    "CREATE TRIGGER t AFTER INSERT ON mine REFERENCING NEW TABLE AS _vk_new "
                    f'FOR EACH STATEMENT EXECUTE FUNCTION "{function}"()'
                )
    finally:
        world.pg.execute("RESET ROLE; DROP TABLE mine; DROP ROLE stranger")


def test_a_temporary_table_takes_no_ones_place(world: World) -> None:
    world.pg.execute("CREATE TEMPORARY TABLE r (id INT, g INT, x INT)")
    world.pg.execute("INSERT INTO r VALUES (100, 1, 1)")
    world.pg.execute("INSERT INTO s VALUES (1, 'uno')")
    world.pg.execute("DROP TABLE pg_temp.r")
    world.check()


# keys ----------------------------------------------------------------------------------------------


def test_cascades(pg: psycopg.Connection) -> None:
    world = World(pg)
    tables = (
        "CREATE TABLE parent (id INT PRIMARY KEY, above INT); CREATE TABLE child (id INT, p INT);"
        "CREATE TABLE other (id INT, p INT);"
    )
    world.create_tables(tables)
    pg.execute("ALTER TABLE parent ADD FOREIGN KEY (above) REFERENCES parent ON DELETE CASCADE")
    pg.execute("ALTER TABLE child ADD FOREIGN KEY (p) REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE")
    pg.execute("ALTER TABLE other ADD FOREIGN KEY (p) REFERENCES parent ON DELETE SET NULL ON UPDATE CASCADE")
    pg.execute("INSERT INTO parent VALUES (1, NULL), (2, 1), (3, 2), (4, NULL)")
    pg.execute("INSERT INTO child VALUES (10, 1), (20, 2), (30, 3), (30, 3), (40, 4)")
    pg.execute("INSERT INTO other VALUES (11, 1), (21, 2), (41, 4)")
    views = {
        "family": "SELECT p.id, c.id AS child, o.id AS other FROM parent p JOIN child c ON p.id = c.p "
        "LEFT JOIN other o ON o.p = p.id",
        "counts": "SELECT p, count(*) AS n FROM other GROUP BY p",
        "pairs": "SELECT a.id AS one, b.id AS other FROM parent a JOIN parent b ON a.id = b.above",
    }
    text = tables + ";\n".join(f"CREATE MATERIALIZED VIEW {name} AS {query}" for name, query in views.items())
    world.keep(text, {name: in_postgres(query) for name, query in views.items()})
    world.check()
    pg.execute("UPDATE parent SET id = 5 WHERE id = 4")
    world.check()
    pg.execute("DELETE FROM parent WHERE id = 1")
    world.check()
    assert world.bag("counts") == {(None, 2): 1, (5, 1): 1}
    pg.execute("INSERT INTO parent VALUES (5, NULL), (6, 5) ON CONFLICT (id) DO UPDATE SET above = 5")
    world.check()
    pg.execute("TRUNCATE parent CASCADE")
    world.check()
    assert not world.bag("family")


CAREFUL = {
    "a quotient": "SELECT DISTINCT o.g, pr.price / o.qty AS unit FROM o JOIN pr ON o.g = pr.g",
    "a condition": "SELECT a.g FROM o a JOIN o b ON a.g = b.g WHERE 10 / b.qty > 1",
    "a negation": "SELECT g, price FROM pr WHERE NOT EXISTS (SELECT * FROM o WHERE o.g = pr.g AND 10 / o.qty > 1)",
    "an outer join": "SELECT pr.g, o.qty FROM pr LEFT JOIN o ON o.g = pr.g AND 10 / o.qty > 1",
    "what is left": "SELECT g, 10 / qty AS n FROM (SELECT g, qty FROM o EXCEPT ALL SELECT g, 0 FROM pr)",
    "an overflow": "SELECT g, sum(qty * 1000000000) AS n FROM o GROUP BY g",
}


@pytest.mark.parametrize("case", CAREFUL)
def test_nothing_is_computed_of_rows_that_cancel(pg: psycopg.Connection, case: str) -> None:
    """A row with which the view could not be computed comes and goes within one transaction."""
    world = World(pg)
    tables = "CREATE TABLE o (id INT, g INT, qty INT); CREATE TABLE pr (g INT, price INT);"
    world.create_tables(tables)
    pg.execute("INSERT INTO o VALUES (1, 1, 2), (2, 1, 1), (3, 2, 1)")
    pg.execute("INSERT INTO pr VALUES (1, 10), (2, 20)")
    world.keep(f"{tables} CREATE MATERIALIZED VIEW v AS {CAREFUL[case]}", {"v": in_postgres(CAREFUL[case])})
    wrong = 2_000_000_000 if case == "an overflow" else 0
    for more in ("", "INSERT INTO pr VALUES (1, 30)", "DELETE FROM pr WHERE g = 2"):
        with pg.transaction():
            pg.execute(f"INSERT INTO o VALUES (9, 1, {wrong}), (10, 2, {wrong})")
            if more:
                pg.execute(more)
            pg.execute(f"UPDATE o SET qty = 2 WHERE qty = {wrong}")
        world.check()


def test_columns_named_like_variables(pg: psycopg.Connection) -> None:
    world = World(pg)
    tables = "CREATE TABLE t (found INT, `new` INT, expected INT, `User` STRING, tg_op INT, `a\"b'c` INT);"
    world.create_tables(tables)
    query = 'SELECT found, `new`, count(*) AS number, max(`User`) AS done, sum(`a"b\'c`) AS `odd"name` '
    query += "FROM t WHERE tg_op > expected GROUP BY found, `new`"
    world.keep(f"{tables} CREATE MATERIALIZED VIEW v AS {query}", {"v": in_postgres(query.replace("`User`", "`user`"))})
    for seed in range(20):
        world.random.seed(seed)
        world.transaction()
        world.check()


# two at a time -------------------------------------------------------------------------------------


class Later:
    """A statement that waits for another transaction, run in a thread."""

    def __init__(self, connection: psycopg.Connection, text: str) -> None:
        self.problem: psycopg.Error | None = None
        self._thread = threading.Thread(target=self._run, args=(connection, text))
        self._thread.start()

    def _run(self, connection: psycopg.Connection, text: str) -> None:
        try:
            connection.execute(text)
            connection.commit()
        except psycopg.Error as problem:
            self.problem = problem
            connection.rollback()

    def wait(self) -> None:
        """Until it has ended."""
        self._thread.join(60)
        assert not self._thread.is_alive()


def until_waiting(world: World) -> None:
    """Until some connection waits for a lock."""
    for _ in range(1000):
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        if world.pg.execute(query).fetchone() != (0,):
            return
        threading.Event().wait(0.01)
    raise AssertionError("no one waits")


PAIRS = [
    ("INSERT INTO r VALUES (5, 1, 50)", "INSERT INTO s VALUES (1, 'uno')"),
    ("INSERT INTO s VALUES (NULL, 'x'), (2, 'deux')", "DELETE FROM r WHERE g = 2"),
    ("UPDATE r SET g = 2 WHERE id = 1", "UPDATE r SET g = g + 1, x = 5 WHERE g = 1"),
    ("DELETE FROM r WHERE id = (SELECT max(id) FROM r)", "UPDATE r SET x = x + 1"),
    ("INSERT INTO r VALUES (6, 2, 60)", "TRUNCATE r"),
]


@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_read_committed(world: World, connect: Connect, one: str, two: str) -> None:
    """The second waits for the first, and then sees what it did."""
    first, second = connect(), connect()
    first.execute(one)
    second.execute("SELECT * FROM r")
    later = Later(second, two)
    until_waiting(world)
    first.commit()
    later.wait()
    assert later.problem is None
    world.check()


def test_truncate_of_a_table_that_is_needed(world: World, connect: Connect) -> None:
    """TRUNCATE holds the table and waits for the first, whose views need the table: PostgreSQL ends one of the two."""
    first, second = connect(), connect()
    first.execute("UPDATE r SET x = 1 WHERE g = 1")
    later = Later(second, "TRUNCATE s")
    until_waiting(world)
    problem: psycopg.Error | None = None
    try:
        first.commit()
    except psycopg.Error as found:
        problem = found
    later.wait()
    assert [type(p) for p in (problem, later.problem) if p is not None] == [psycopg.errors.DeadlockDetected]
    world.check()


@pytest.mark.parametrize("level", [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
@pytest.mark.parametrize(("one", "two"), PAIRS)
def test_repeatable_read(world: World, connect: Connect, one: str, two: str, level: psycopg.IsolationLevel) -> None:
    """The second began before the first committed: it fails, whether it waited or not, and is tried again."""
    first, second = connect(), connect()
    second.isolation_level = level
    for waits in (True, False):
        first.execute(one)
        second.execute("SELECT 1")
        if waits:
            later = Later(second, two)
            until_waiting(world)
            first.commit()
            later.wait()
            assert isinstance(later.problem, psycopg.errors.SerializationFailure)
        else:
            first.commit()
            with pytest.raises(psycopg.errors.SerializationFailure):
                second.execute(two)
            second.rollback()
        world.check()
    second.execute(two)
    second.commit()
    world.check()


@pytest.mark.parametrize("level", [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
def test_a_transaction_that_is_older_than_the_views(
    pg: psycopg.Connection, connect: Connect, level: psycopg.IsolationLevel
) -> None:
    world = World(pg)
    world.create_tables("CREATE TABLE q (id INT)")
    second = connect()
    second.isolation_level = level
    second.execute("SELECT 1")
    world.keep("CREATE TABLE q (id INT); CREATE MATERIALIZED VIEW v AS SELECT id FROM q", {"v": "SELECT id FROM q"})
    with pytest.raises(psycopg.errors.SerializationFailure, match="this transaction is older than the views"):
        second.execute("INSERT INTO q VALUES (1)")
    second.rollback()
    second.execute("INSERT INTO q VALUES (1)")
    second.commit()
    world.check()


def test_many_at_a_time(world: World, connect: Connect) -> None:
    """Threads run random transactions at two isolation levels; those that fail change nothing."""
    levels = [psycopg.IsolationLevel.READ_COMMITTED, psycopg.IsolationLevel.REPEATABLE_READ]
    done = [0, 0, 0, 0]
    strange: list[BaseException] = []

    def work(number: int, mine: World) -> None:
        try:
            for _ in range(25):
                try:
                    mine.transaction()
                    done[number] += 1
                except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                    pass
        except BaseException as problem:
            strange.append(problem)

    threads = []
    for number in range(4):
        connection = connect()
        connection.isolation_level = levels[number % 2]
        mine = World(connection, seed=number)
        mine.tables = world.tables
        threads.append(threading.Thread(target=work, args=(number, mine)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not strange
    assert sum(done) > 25
    world.check()
