"""What the script says of tables that are not those it was made for, what is refused, and the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from tests.postgres.world import World, in_postgres
from viewkeeper.cli.app import cli
from viewkeeper.errors import ViewkeeperError
from viewkeeper.triggers.postgres_script import postgres_script

TABLES = """\
CREATE TABLE t (i INT NOT NULL, b BIGINT, y TINYINT, f FLOAT, d DOUBLE, p DECIMAL(10,2), q DECIMAL(38,10), s STRING,
  k BOOLEAN, w DATE, m TIMESTAMP, z TIMESTAMP_NTZ, n BINARY, xs ARRAY<INT>, r STRUCT<a: INT>);
"""


PLAIN = "a integer NOT NULL, b numeric(8,2), c text, d integer"
NOT_PLAIN = {
    f"CREATE TABLE base ({PLAIN}); CREATE TABLE t () INHERITS (base)": '"t" is partitioned, inherits',
    f"CREATE UNLOGGED TABLE t ({PLAIN})": '"t" is temporary or unlogged',
    f"CREATE TABLE t ({PLAIN.replace('text', 'varchar[]')})": '"t".c is character varying\\[\\], not text',
}


def test_other_tables(pg: psycopg.Connection) -> None:
    """The tables must be what the rules were made for, and nothing is made otherwise."""
    script = postgres_script(
        "CREATE TABLE t (a INT NOT NULL, b DECIMAL(8,2), c STRING, d INT);"
        "CREATE MATERIALIZED VIEW v AS SELECT a, b, c, d FROM t"
    )
    pg.autocommit = True
    with pytest.raises(psycopg.errors.UndefinedTable):
        pg.execute(script)
    pg.execute("ROLLBACK")
    pg.execute("CREATE TABLE t (a integer, b numeric(9,2), c text)")
    with pytest.raises(psycopg.errors.RaiseException) as caught:
        pg.execute(script)
    assert caught.value.diag.message_primary == (
        'this script was made for other tables: "t".a is not NOT NULL; "t".b is numeric(9,2), not numeric(8,2); '
        '"t" has no column d'
    )
    pg.execute("ROLLBACK; DROP TABLE t; CREATE TABLE t (a integer NOT NULL, b numeric(8,2), c varchar(3), d integer) ")
    pg.execute("CREATE TABLE below () INHERITS (t)")
    with pytest.raises(psycopg.errors.RaiseException, match='"t" is partitioned, inherits, is inherited from'):
        pg.execute(script)
    pg.execute("ROLLBACK; DROP TABLE below, t")
    for text, wrong in NOT_PLAIN.items():
        pg.execute(text)
        with pytest.raises(psycopg.errors.RaiseException, match=wrong):
            pg.execute(script)
        pg.execute("ROLLBACK; DROP TABLE IF EXISTS base CASCADE; DROP TABLE IF EXISTS t")
    pg.execute(" CREATE TABLE t (d integer, c varchar(3), b numeric(8,2), a integer NOT NULL)")
    pg.execute(script)
    pg.execute("INSERT INTO t VALUES (1, 'x', 1.5, 2)")
    assert pg.execute("SELECT * FROM v").fetchall() == pg.execute("SELECT a, b, c, d FROM t").fetchall()


def test_taken_away_again(pg: psycopg.Connection) -> None:
    """The comment at the end of the script removes all of it."""
    pg.autocommit = True
    tables = "CREATE TABLE t (a INT); CREATE TABLE u (a INT);"
    views = "CREATE MATERIALIZED VIEW v AS SELECT t.a, (SELECT u.a FROM u WHERE u.a = t.a) AS b FROM t;"
    world = World(pg)
    world.create_tables(tables)
    query = "SELECT count(*) FROM pg_class FULL JOIN pg_proc ON false FULL JOIN pg_trigger ON false"
    before = pg.execute(query).fetchone()
    script = postgres_script(tables + views + "CREATE MATERIALIZED VIEW w AS SELECT DISTINCT a FROM v")
    pg.execute(script)
    pg.execute("INSERT INTO t VALUES (1)")
    removal = script.split("-- To remove all of this:\n")[1]
    pg.execute("\n".join(line.removeprefix("--") for line in removal.splitlines()))
    assert pg.execute(query).fetchone() == before


REFUSED = {
    "UPPER(s)": "upper(s): PostgreSQL has no function that is known to mean the same",
    "initcap(s)": "initcap(s): PostgreSQL has no function that is known to mean the same",
    "TRY_CAST(i AS SMALLINT)": "PostgreSQL has no function that means the same as try_cast",
    "p / 3": "p / 3: a quotient of DECIMALs has other digits in PostgreSQL",
    "q * q": "q * q: the result has more than 38 digits, and Spark would round it",
    "y + y": "y + y: a TINYINT is a SMALLINT in PostgreSQL, and overflows later",
    "f + i": "f + i: FLOAT is widened differently in PostgreSQL",
    "CAST(d AS INT)": "CAST(d AS INT): a cast of DOUBLE to INT differs in PostgreSQL",
    "CAST(p AS INT)": "CAST(p AS INT): a cast of DECIMAL(10,2) to INT differs in PostgreSQL",
    "CAST(s AS INT)": "CAST(s AS INT): a cast of STRING to INT differs in PostgreSQL",
    "CAST(m AS STRING)": "CAST(m AS STRING): a cast of TIMESTAMP to STRING differs in PostgreSQL",
    "s = 1": "s = 1: STRING and INT are compared differently in PostgreSQL",
    "w > '2024-01-01'": "w > '2024-01-01': DATE and STRING are compared differently in PostgreSQL",
    "w < m": "w < m: DATE and TIMESTAMP are compared differently in PostgreSQL",
    "m > TIMESTAMP '2024-01-01 00:00:00'": "TIMESTAMP'2024-01-01 00:00:00': this constant depends on the time zone",
    "coalesce(s, i)": "coalesce(s, i): STRING and INT have no type in common that PostgreSQL would choose too",
    "s LIKE s": "s LIKE s: the pattern must be a constant without \\",
    "substring(s, -1)": "substring(s, -1): positions must be constants here, and the first is 1",
    "concat(s, i)": "i: a STRING is expected here, it is INT",
    "year(m)": "m: a DATE is expected here, it is TIMESTAMP",
    "xs": "PostgreSQL has no type that means the same as ARRAY<INT>",
    "r.a": "r.`a`: PostgreSQL has no function that is known to mean the same",
    "sum(d) OVER (PARTITION BY i)": "sum(d): a sum of DOUBLE depends on the order of rows here",
    "max(n) OVER (PARTITION BY i)": "PostgreSQL has no max of BINARY",
}
"""Columns that have no counterpart in PostgreSQL, word for word."""


@pytest.mark.parametrize("column", REFUSED)
def test_refused(column: str) -> None:
    with pytest.raises(ViewkeeperError) as caught:
        postgres_script(f"{TABLES} CREATE MATERIALIZED VIEW v AS SELECT i, {column} AS x FROM t")
    assert caught.value.message == f"v has no triggers for PostgreSQL: {REFUSED[column]}"
    assert caught.value.place is not None


REFUSED_AGGREGATES = {
    "avg(q)": "avg(q): an average of DECIMAL(38,10) has other digits in PostgreSQL here",
    "stddev(d)": "stddev(d): it depends on the order of rows for DOUBLE",
    "mode(i)": "mode(i, TRUE): PostgreSQL has no function that is known to mean the same",
    "collect_list(i)": "array_sort(collect_list(i)): PostgreSQL has no function that is known to mean the same",
    "approx_count_distinct(i)": "approx_count_distinct(i): PostgreSQL has no function that is known to mean the same",
    "max(n)": "PostgreSQL has no max of BINARY",
}


@pytest.mark.parametrize("call", REFUSED_AGGREGATES)
def test_refused_aggregates(call: str) -> None:
    with pytest.raises(ViewkeeperError) as caught:
        postgres_script(f"{TABLES} CREATE MATERIALIZED VIEW v AS SELECT s, {call} AS x FROM t GROUP BY s")
    assert caught.value.message == f"v has no triggers for PostgreSQL: {REFUSED_AGGREGATES[call]}"


DEEP = f"{'(' * 1500}i > 1{')' * 1500}"

OTHERWISE = {
    "CREATE TABLE t (i INT)": "there is no materialized view in it",
    "CREATE MATERIALIZED VIEW v AS SELECT * FROM nothing": "v has no triggers for PostgreSQL: "
    "there is no table or view named 'nothing'",
    "DROP TABLE t": "this is neither a table nor a view",
    "CREATE TABLE t (i INT); CREATE TABLE T (i INT)": "there are two relations named 'T'",
    "CREATE TABLE t (i INT); CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT i FROM t": "a script for PostgreSQL "
    "always creates its views",
    f"CREATE TABLE {'t' * 60} (i INT)": f"the name '{'t' * 60}' is longer than 50 bytes",
    "CREATE TABLE t (i INT); CREATE MATERIALIZED VIEW v AS SELECT i AS ctid FROM t": "v has no triggers for "
    "PostgreSQL: no column can be named 'ctid' in a script for PostgreSQL",
    "CREATE TABLE t (i INT); CREATE MATERIALIZED VIEW v AS SELECT i AS _VK_count FROM t": "v has no triggers for "
    "PostgreSQL: no column can be named '_VK_count' in a script for PostgreSQL",
    "CREATE TABLE `Éa` (i INT)": "'Éa' is another name in PostgreSQL",
    "CREATE TABLE `a\u2028b` (i INT)": "'a\\u2028b' cannot be a name in a script for PostgreSQL",
    "CREATE TABLE t (w DATE); CREATE MATERIALIZED VIEW v AS SELECT w FROM t WHERE w > DATE '2024-02-30'": "v has no "
    "triggers for PostgreSQL: DATE'2024-02-30': this constant cannot be written in PostgreSQL",
    f"CREATE TABLE t (i INT); CREATE MATERIALIZED VIEW v AS SELECT i FROM t WHERE {DEEP}": "v has "
    "no triggers for PostgreSQL: the query is nested too deep",
    "CREATE TABLE `a$vk$b` (i INT)": "'a$vk$b' cannot be a name in a script for PostgreSQL",
}


@pytest.mark.parametrize("text", OTHERWISE)
def test_refused_otherwise(text: str) -> None:
    with pytest.raises(ViewkeeperError) as caught:
        postgres_script(text)
    assert caught.value.message == OTHERWISE[text]


COLUMNS = {
    "logic": "SELECT i, k AND NOT (i > 2) AS a, k OR b IS NULL AS b, k IS TRUE AS c, i BETWEEN 1 AND b AS d, "
    "i IN (1, 2, NULL) AS e, s LIKE '%a%' AS f, s NOT LIKE '_' AS g, k <=> NULL AS h FROM t",
    "choices": "SELECT i, CASE i WHEN 1 THEN 'one' WHEN b THEN 'b' END AS a, if(k, p, 0) AS b, coalesce(b, i) AS c, "
    "nullif(i, 2) AS d, greatest(i, b, 2) AS e, least(s, 'b') AS f FROM t",
    "numbers": "SELECT i, i + b AS a, i * 2 - b AS b, p * i AS c, p + 1 AS d, -p AS e, abs(i) AS f, i % 3 AS g, "
    "CAST(i AS DECIMAL(12,3)) AS h, d * 2 AS j, CAST(p AS DECIMAL(8,1)) AS l FROM t",
    "strings": "SELECT i, s || '!' AS a, concat('<', s, '>') AS b, length(s) AS c, trim(s) AS d, "
    "replace(s, 'a', '$vk$') AS e, substring(s, 1, 1) AS f, CAST(i AS STRING) AS g, CAST(k AS STRING) AS h, "
    "'it\\'s' AS j FROM t",
    "dates": "SELECT year(w) AS a, month(w) AS b, day(w) AS c, date_add(w, 3) AS d, w >= DATE '2024-02-03' AS e, "
    "z < TIMESTAMP_NTZ '2024-01-31 12:00:02' AS f FROM t",
    "orders": "SELECT s, s < 'b' AS a, min(s) AS b, max(w) AS c, max(d) AS e, min(f) AS f, bool_or(k) AS g FROM t "
    "GROUP BY s",
    "extremes of strings": "SELECT i, s < least(s, 'b') AS a, greatest(s, least(s, 'b')) AS b, "
    "CASE WHEN s < greatest('a', s) THEN 1 END AS c, 'it\\'s try_this' AS d FROM t",
    "averages": "SELECT k, avg(p) AS a FROM t GROUP BY k",
    "chosen": "SELECT k, any_value(i) AS a, first(b) AS b, last(w) AS c, first(s, true) AS d, count_if(i > 1) AS e, "
    "stddev(i) AS f, variance(b) AS g, median(p) AS h, bool_and(i > 0) AS j FROM t GROUP BY k",
    "windows": "SELECT i, s, sum(p) OVER (PARTITION BY k ORDER BY i) AS a, avg(b) OVER (PARTITION BY k) AS b, "
    "max(s) OVER (PARTITION BY k ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS c, "
    "ntile(2) OVER (PARTITION BY k ORDER BY i) AS d, count(*) OVER (ORDER BY i DESC) AS e FROM t",
}
WHOLE_ROW = "PARTITION BY k ORDER BY " + ", ".join(f"{column} NULLS FIRST" for column in "ibyfdpqswmz")
OWN = {
    "numbers": "SELECT i, i + b, i * 2 - b, p * i, p + 1, -p, abs(i), i % 3, i, d * 2, CAST(p AS numeric(8,1)) FROM t",
    "dates": "SELECT CAST(extract(year FROM w) AS int), CAST(extract(month FROM w) AS int), "
    "CAST(extract(day FROM w) AS int), w + 3, w >= '2024-02-03', z < '2024-01-31 12:00:02' FROM t",
    "averages": "SELECT k, round(avg(p), 6) FROM t GROUP BY k",
    "chosen": "SELECT k, CASE WHEN count(i) = count(*) THEN min(i) END, CASE WHEN count(b) = count(*) THEN min(b) END, "
    "max(w), min(s), count(*) FILTER (WHERE i > 1), CAST(stddev(i) AS double precision), "
    "CAST(variance(b) AS double precision), percentile_cont(0.5) WITHIN GROUP (ORDER BY p), bool_and(i > 0) "
    "FROM t GROUP BY k",
    "windows": "SELECT i, s, sum(p) OVER (PARTITION BY k ORDER BY i), "
    "CAST(avg(b) OVER (PARTITION BY k) AS double precision), "
    f"max(s) OVER ({WHOLE_ROW} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), ntile(2) OVER ({WHOLE_ROW}), "
    "count(*) OVER (ORDER BY i DESC NULLS LAST) FROM t",
    "orders": "SELECT s, s < 'b', min(s), max(w), max(d), min(f), bool_or(k) FROM t GROUP BY s",
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns(pg: psycopg.Connection, name: str) -> None:
    """What is translated is what PostgreSQL computes of the same words."""
    tables = TABLES.replace(", xs ARRAY<INT>, r STRUCT<a: INT>", "").replace(", n BINARY", "")
    world = World(pg, seed=1)
    world.create_tables(tables)
    world.fill(15)
    query = COLUMNS[name]
    world.keep(f"{tables} CREATE MATERIALIZED VIEW v AS {query}", {"v": OWN.get(name) or in_postgres(query)})
    world.check()
    for _ in range(15):
        world.transaction()
        world.check()


@pytest.mark.parametrize("break_", ["\n", "\r", "\x0b", "\u0085", "\u2028", "\t", "'", "\\\\"])
def test_constants_with_breaks(pg: psycopg.Connection, break_: str) -> None:
    tables = "CREATE TABLE t (i INT, s STRING);"
    world = World(pg)
    world.create_tables(tables)
    spelled = break_.replace("'", "\\'")
    view = f"SELECT i, 'a{spelled}b' AS x FROM t WHERE s = 'p{spelled}q'"
    pg.execute(postgres_script(f"{tables} CREATE MATERIALIZED VIEW v AS {view}"))
    actual = break_.replace("\\\\", "\\")
    pg.execute("INSERT INTO t VALUES (1, %s), (2, 'pq')", [f"p{actual}q"])
    pg.commit()
    assert pg.execute("SELECT * FROM v").fetchall() == [(1, f"a{actual}b")]
    pg.execute("DELETE FROM t")
    pg.commit()
    assert pg.execute("SELECT * FROM v").fetchall() == []


def test_strings_of_two_collations(pg: psycopg.Connection) -> None:
    pg.autocommit = True
    pg.execute('CREATE TABLE t (a text COLLATE "C", b text COLLATE "POSIX")')
    with pytest.raises(psycopg.errors.RaiseException, match='different collations: "C", "POSIX"'):
        pg.execute(
            postgres_script(
                "CREATE TABLE t (a STRING, b STRING); CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE a = b"
            )
        )
    pg.execute("ROLLBACK")


def test_rows_that_policies_hide(pg: psycopg.Connection) -> None:
    pg.autocommit = True
    pg.execute("CREATE ROLE keeper")
    try:
        pg.execute("GRANT ALL ON SCHEMA public TO keeper")
        pg.execute("SET ROLE keeper; CREATE TABLE t (a integer); ALTER TABLE t ENABLE ROW LEVEL SECURITY")
        script = postgres_script("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        pg.execute("ALTER TABLE t FORCE ROW LEVEL SECURITY")
        with pytest.raises(psycopg.errors.RaiseException, match='"t" hides rows by its policies'):
            pg.execute(script)
        pg.execute("ROLLBACK; ALTER TABLE t NO FORCE ROW LEVEL SECURITY")
        pg.execute(script)
    finally:
        pg.execute("RESET ROLE; DROP OWNED BY keeper; DROP ROLE keeper")


def test_quotients(pg: psycopg.Connection) -> None:
    """Integers are divided as Spark does it."""
    world = World(pg)
    world.create_tables("CREATE TABLE t (i INT, b BIGINT);")
    query = "SELECT i / b AS x FROM t WHERE b <> 0"
    world.keep(f"CREATE TABLE t (i INT, b BIGINT); CREATE MATERIALIZED VIEW v AS {query}", {})
    pg.execute("INSERT INTO t VALUES (1, 2), (7, 0), (NULL, 1)")
    assert world.bag("v") == {(0.5,): 1, (None,): 1}


# the command -----------------------------------------------------------------------------------------


def test_command(tmp_path: Path) -> None:
    text = "CREATE TABLE t (i INT);\nCREATE MATERIALIZED VIEW v AS SELECT i FROM t;\n"
    path = tmp_path / "views.sql"
    path.write_text(text)
    found = CliRunner().invoke(cli, ["rules", str(path), "--target", "postgres"])
    assert found.exit_code == 0
    assert found.stdout == postgres_script(text)
    piped = CliRunner().invoke(cli, ["rules", "-", "--target", "postgres"], input=text)
    assert piped.stdout == found.stdout


def test_command_refuses(tmp_path: Path) -> None:
    """One view that has no triggers, and nothing is printed."""
    text = "CREATE TABLE t (s STRING);\nCREATE MATERIALIZED VIEW v AS SELECT s FROM t;\n"
    text += "CREATE MATERIALIZED VIEW w AS\nSELECT upper(s) AS s FROM t;\n"
    found = CliRunner().invoke(cli, ["rules", "-", "--target", "postgres"], input=text)
    assert found.exit_code == 1
    assert found.stdout == ""
    assert found.stderr == (
        "error: w has no triggers for PostgreSQL: upper(s): PostgreSQL has no function that is known to mean the same\n"
        "at line 4, column 8:\n  SELECT upper(s) AS s FROM t;\n         ^^^^^^^^^^^^^\n"
    )


def test_command_starts_no_engine() -> None:
    program = (
        "import sys; from viewkeeper.cli.app import cli\n"
        "cli(['rules', '-', '--target', 'postgres'], standalone_mode=False)\n"
        "assert 'pyspark' not in sys.modules and 'pysail' not in sys.modules"
    )
    text = "CREATE TABLE t (i INT); CREATE MATERIALIZED VIEW v AS SELECT i FROM t"
    done = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "_vk_rows_v" in done.stdout
