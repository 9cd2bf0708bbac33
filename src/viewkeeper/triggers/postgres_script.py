"""The script: tables that store the views, logs of a transaction's changes, and triggers that maintain the views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import indent

from viewkeeper.advice.advice import no_stored_view
from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.delta.compile import differentiate
from viewkeeper.triggers.postgres_narrowing import narrowed
from viewkeeper.triggers.postgres_queries import LOG_WEIGHT, log_of, never_null, printed
from viewkeeper.triggers.postgres_scalars import ONE
from viewkeeper.triggers.postgres_types import identifier, spelled, string
from viewkeeper.triggers.postgres_views import File, View, read_file

CONTROL = '"_vk_control"'
BEGIN = '"_vk_begin"'
MAINTAIN = '"_vk_maintain"'
OPEN = "coalesce(CAST(nullif(current_setting('_vk.open', true), '') AS int), 0)"
"""How many statements have begun to change tables and have not logged their changes yet."""

TRUNCATED = "coalesce(current_setting('_vk.truncated', true), '')"
"""The tables that are being truncated and whose rows have been logged: oids, each between two spaces."""

COUNT = "_vk_count"

_HEAD = """\
-- Made by `viewkeeper rules --target postgres`, for PostgreSQL 13 or later.
--
-- Run it once, as the owner of the tables, in the schema that they are in. It is one transaction: all of it or nothing.
--
-- Every materialized view V becomes a table _vk_rows_V, which has each row of V once, with its count in _vk_count, and
-- a view V over it, to be read. Changes of a transaction are logged in the tables _vk_log_*, and at its COMMIT all
-- views are refreshed. So they show a transaction's own changes only after its COMMIT, or after SET CONSTRAINTS ALL
-- IMMEDIATE, to be followed by SET CONSTRAINTS ALL DEFERRED before anything else is changed.
--
-- Transactions that change these tables wait for each other from their first change on, because all of them lock the
-- row of _vk_control. Under REPEATABLE READ and SERIALIZABLE one that began before another has committed fails instead
-- (serialization failure), and has to be retried.
--
-- TRUNCATE is treated as a DELETE of all rows. Changes made while triggers are disabled are not seen.
"""

_CONTROL_TABLE = f"""\
-- One row, locked by the transaction that changes the tables. Writing a transaction's id to it triggers maintenance.
CREATE TABLE {CONTROL} (one boolean PRIMARY KEY CHECK (one), changed_by xid8);
INSERT INTO {CONTROL} VALUES (true, NULL);
"""

_ONE_FUNCTION = f"""\
-- The value of a scalar subquery: it has at most one row.
CREATE FUNCTION {ONE}(given anyarray) RETURNS anyelement LANGUAGE plpgsql IMMUTABLE AS $vk$
BEGIN
  IF cardinality(given) > 1 THEN
    RAISE EXCEPTION 'a scalar subquery gave more than one row' USING ERRCODE = 'cardinality_violation';
  END IF;
  RETURN given[1];
END $vk$;
"""

_BODY = "AS $vk$\n#variable_conflict use_column"
"""The beginning of a function's text: a column may have the name of a variable, even of a predefined one."""


def _only_ours(function: str) -> str:
    """Revokes the right to call a function, or to use it in a trigger on another table."""
    return f"REVOKE ALL ON FUNCTION {function}() FROM PUBLIC;\n"


_TRIGGER = f"RETURNS trigger LANGUAGE plpgsql\nSECURITY DEFINER SET search_path FROM CURRENT {_BODY}"

_BEGIN_FUNCTION = f"""\
-- A statement that changes a table begins: it is open until it has logged its changes.
CREATE FUNCTION {BEGIN}() {_TRIGGER}
BEGIN
  PERFORM set_config('_vk.open', CAST({OPEN} + 1 AS text), true);
  RETURN NULL;
END $vk$;
{_only_ours(BEGIN)}"""


def postgres_script(text: str) -> str:
    """The script for the views of a file of CREATE TABLE and CREATE [MATERIALIZED] VIEW statements."""
    file = read_file(text)
    if not file.views:
        raise no_stored_view()
    tables = [name for name in file.tables if any(name in view.sources for view in file.views)]
    views = [part for view in file.views for part in _view_parts(file, view)]
    parts = [
        _HEAD,
        "BEGIN ISOLATION LEVEL READ COMMITTED;\n\n"
        "-- No temporary table can take the place of one of these.\n"
        "SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);\n",
        *_checks(file, tables),
        _CONTROL_TABLE,
        *([_ONE_FUNCTION] if any(ONE in part for part in views) else []),
        *(_table_log(file, name) for name in tables),
        *views,
        _maintenance(file, tables),
        *([_BEGIN_FUNCTION] if tables else []),
        *(_triggers(file, name) for name in tables),
        _statistics(file, tables),
        "COMMIT;\n",
        _removal(file, tables),
    ]
    return "\n".join(parts)


# preconditions -----------------------------------------------------------------------------------


def _checks(file: File, tables: Sequence[str]) -> Iterator[str]:
    """Locks the tables, and checks that they are those the script was made for."""
    if not tables:
        return
    listed = ", ".join(identifier(name) for name in tables)
    yield (
        "-- Nothing changes during the initial load of the views.\n"
        f"LOCK TABLE {listed} IN SHARE ROW EXCLUSIVE MODE;\n"
    )  # fmt: skip
    wanted = []
    for name in tables:
        wanted.append(f"({string(identifier(name))}, NULL, NULL, false)")
        for column in file.used(name):
            found = file.tables[name].column(column)
            texts = [identifier(name), column, spelled(found.type)]
            required = "false" if found.nullable else "true"
            wanted.append(f"({', '.join(string(text) for text in texts)}, {required})")
    rows = ",\n    ".join(wanted)
    yield f"""\
-- Checks the tables: plain tables, with columns of these types, NOT NULL where required.
DO $vk$
DECLARE
  wrong text;
BEGIN
  SELECT string_agg(CASE
      WHEN "column" IS NULL THEN CASE
        WHEN relpersistence <> 'p' THEN format('%s is temporary or unlogged', "table")
        WHEN row_security_active(pg_class.oid) THEN format('%s hides rows by its policies', "table")
        WHEN relkind <> 'r' OR relispartition OR relhassubclass
          OR EXISTS (SELECT FROM pg_inherits WHERE inhrelid = pg_class.oid)
          THEN format('%s is partitioned, inherits, is inherited from or is no table', "table")
      END
      WHEN actual IS NULL THEN format('%s has no column %I', "table", "column")
      WHEN actual <> kind THEN format('%s.%I is %s, not %s', "table", "column", actual, kind)
      WHEN required AND NOT attnotnull THEN format('%s.%I is not NOT NULL', "table", "column")
      WHEN NOT collisdeterministic THEN format('%s.%I has a collation that is not deterministic', "table", "column")
    END, '; ' ORDER BY "table", "column") INTO wrong
  FROM (VALUES
    {rows}
  ) AS wanted ("table", "column", kind, required)
  LEFT JOIN pg_class ON pg_class.oid = CAST("table" AS regclass)
  LEFT JOIN pg_attribute ON attrelid = pg_class.oid AND attname = "column" AND attnum > 0 AND NOT attisdropped
  LEFT JOIN pg_collation ON pg_collation.oid = attcollation
  CROSS JOIN LATERAL (
    SELECT regexp_replace(format_type(atttypid, atttypmod), '^character varying(\\([0-9]+\\))?$', 'text')
  ) AS formatted (actual);
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION 'this script was made for other tables: %', wrong;
  END IF;
{_one_collation(file, tables)}\
  IF current_setting('server_encoding') <> 'UTF8' THEN
    RAISE EXCEPTION 'strings are ordered differently here: the database is not encoded in UTF8';
  END IF;
END $vk$;
"""


def _one_collation(file: File, tables: Sequence[str]) -> str:
    """The check that all strings have one collation: others cannot be compared."""
    strings = [
        f"({string(identifier(name))}, {string(column)})"
        for name in tables
        for column in file.used(name)
        if file.tables[name].column(column).type.name == "string"
    ]
    if len(strings) < 2:
        return ""
    return f"""\
  SELECT string_agg(DISTINCT format('%I', collname), ', ') INTO wrong
  FROM (VALUES {", ".join(strings)}) AS wanted ("table", "column")
  JOIN pg_attribute ON attrelid = CAST("table" AS regclass) AND attname = "column"
  JOIN pg_collation ON pg_collation.oid = attcollation
  HAVING count(DISTINCT attcollation) > 1;
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION 'the strings that views read have different collations: %', wrong;
  END IF;
"""


# logs --------------------------------------------------------------------------------------------


def _table_log(file: File, name: str) -> str:
    """The log of a table, and the trigger function that writes it."""
    table, log, columns = identifier(name), log_of(name), [identifier(c) for c in file.used(name)]
    listed = ", ".join([*columns, LOG_WEIGHT])
    emptied = ", ".join([*columns, f"CAST(1 AS bigint) AS {LOG_WEIGHT}"])

    def noted(source: str, weight: str) -> str:
        return f"INSERT INTO {log} ({listed}) SELECT {', '.join([*columns, weight])} FROM {source};"

    return f"""\
-- Rows that a transaction inserts into {name} (+1) and deletes from it (-1): the columns that views read.
CREATE UNLOGGED TABLE {log} AS SELECT {emptied} FROM {table} WHERE false;

CREATE FUNCTION {identifier(f"_vk_note_{name}")}() {_TRIGGER}
DECLARE
  anything boolean := true;
BEGIN
  IF TG_OP <> 'TRUNCATE' THEN
    PERFORM set_config('_vk.open', CAST({OPEN} - 1 AS text), true);
  ELSIF TG_WHEN = 'AFTER' THEN
    PERFORM set_config('_vk.truncated', replace({TRUNCATED}, format(' %s ', TG_RELID), ''), true);
    RETURN NULL;
  END IF;
  IF TG_OP = 'INSERT' THEN
    anything := EXISTS (SELECT FROM _vk_new);
  ELSIF TG_OP IN ('UPDATE', 'DELETE') THEN
    anything := EXISTS (SELECT FROM _vk_old);
  END IF;
  IF NOT anything THEN
    RETURN NULL;
  END IF;
  IF strpos({TRUNCATED}, format(' %s ', TG_RELID)) > 0 THEN
    RAISE EXCEPTION '% cannot be changed by a trigger while it is truncated', TG_RELID::regclass;
  END IF;
  -- From here on no other transaction that changes these tables can commit before this one has ended.
  PERFORM FROM {CONTROL} FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'this transaction is older than the views' USING ERRCODE = 'serialization_failure';
  END IF;
  IF TG_OP IN ('UPDATE', 'DELETE') THEN
    {noted("_vk_old", "-1")}
  END IF;
  IF TG_OP IN ('INSERT', 'UPDATE') THEN
    {noted("_vk_new", "1")}
  END IF;
  IF TG_OP = 'TRUNCATE' THEN
    {noted(table, "-1")}
    PERFORM set_config('_vk.truncated', {TRUNCATED} || format(' %s ', TG_RELID), true);
  END IF;
  -- The first change of a transaction triggers maintenance at its COMMIT.
  UPDATE {CONTROL} SET changed_by = pg_current_xact_id() WHERE changed_by IS DISTINCT FROM pg_current_xact_id();
  RETURN NULL;
END $vk$;
{_only_ours(identifier(f"_vk_note_{name}"))}"""


def _triggers(file: File, name: str) -> str:
    """The triggers of a table."""
    table, function = identifier(name), identifier(f"_vk_note_{name}")
    lines = [
        f"-- Changes of {name} are logged.",
        f'CREATE TRIGGER "_vk_begin" BEFORE INSERT OR UPDATE OR DELETE ON {table}\n'
        f"  FOR EACH STATEMENT EXECUTE FUNCTION {BEGIN}();",
    ]
    for event, tables in (
        ("insert", "REFERENCING NEW TABLE AS _vk_new "),
        ("update", "REFERENCING OLD TABLE AS _vk_old NEW TABLE AS _vk_new "),
        ("delete", "REFERENCING OLD TABLE AS _vk_old "),
    ):
        lines.append(
            f'CREATE TRIGGER "_vk_{event}" AFTER {event.upper()} ON {table} {tables}\n'
            f"  FOR EACH STATEMENT EXECUTE FUNCTION {function}();"
        )
    for name, moment in (("_vk_truncate", "BEFORE"), ("_vk_truncated", "AFTER")):
        lines.append(
            f'CREATE TRIGGER "{name}" {moment} TRUNCATE ON {table}\n  FOR EACH STATEMENT EXECUTE FUNCTION {function}();'
        )
    return "\n".join(lines) + "\n"


# views -------------------------------------------------------------------------------------------


def _rows_of(view: View) -> str:
    return identifier(f"_vk_rows_{view.name}")


def _view_parts(file: File, view: View) -> Iterator[str]:
    known = never_null(view.node, tuple(file.tables))
    pairs = list(zip(view.node.outputs, [identifier(name) for name in view.columns], strict=True))
    query = printed(view.node, known=known)
    listed = ", ".join(f"{a.label} AS {column}" for a, column in pairs)
    labels = ", ".join(a.label for a, _ in pairs)
    rows, columns = _rows_of(view), ", ".join(column for _, column in pairs)
    source = f"{rows}, generate_series(1, {COUNT}) AS copies" if view.duplicates else f"{rows}, (SELECT 1) AS one"
    most = "> 0" if view.duplicates else "= 1"
    yield f"""\
-- {view.name}: its rows, and the count of each{"" if view.duplicates else " (once)"}.
CREATE TABLE {rows} AS
SELECT {listed}, count(*) AS {COUNT}
FROM (
{indent(query.text, "  ")}
) AS t
GROUP BY {labels};
ALTER TABLE {rows} ALTER COLUMN {COUNT} SET NOT NULL, ADD CONSTRAINT "_vk_counted" CHECK ({COUNT} {most});
{_index(view, known)}
-- {view.name}, to be read; not updatable, because its FROM has more than one item.
CREATE VIEW {identifier(view.name)} AS SELECT {columns} FROM {source};

-- Changes of {view.name} in a transaction.
CREATE UNLOGGED TABLE {log_of(view.name)} AS
SELECT {columns}, CAST(1 AS bigint) AS {LOG_WEIGHT} FROM {rows} WHERE false;
"""
    yield _refresh_function(file, view)


def _index(view: View, known: frozenset[Attribute]) -> str:
    """An index to find rows by. A hash index, because a value may be too long for a B-tree."""
    pairs = dict(zip(view.columns, view.node.outputs, strict=True))
    names = [name for name in (*view.key, *view.columns) if pairs[name].type.name != "boolean"]
    if not names:
        return ""
    column = identifier(names[0])
    indexed = column if pairs[names[0]] in known else f"(ARRAY[{column}])"
    return f"CREATE INDEX ON {_rows_of(view)} USING hash ({indexed});\n"


def _refresh_function(file: File, view: View) -> str:
    """The function that refreshes a view."""
    sources = view.sources
    variables = [f"_vk_changed_{number}" for number in range(1, len(sources) + 1)]
    declared = "".join(
        f"  {variable} boolean := EXISTS (SELECT FROM {log_of(name)}); -- whether {name} has changed\n"
        for variable, name in zip(variables, sources, strict=True)
    )
    branches = []
    if len(sources) > 1:
        for variable, name in zip(variables, sources, strict=True):
            others = "".join(f" AND NOT {other}" for other in variables if other != variable)
            branches.append((f"IF {variable}{others} THEN -- {name} alone", _change(file, view, [name])))
        branches.append((f"IF {' OR '.join(variables)} THEN -- several", _change(file, view, sources)))
    elif sources:
        branches.append((f"IF {variables[0]} THEN", _change(file, view, sources)))
    chosen = "\n  ELS".join(f"{test}\n{indent(text, '    ')}" for test, text in branches)
    chosen = f"  {chosen}\n  END IF;\n" if branches else ""
    known = never_null(view.node, tuple(file.tables))
    tests = []
    for name, attribute in zip(view.columns, view.node.outputs, strict=True):
        column = identifier(name)
        plain = attribute in known
        tests.append(f"v.{column} = d.{column}" if plain else f"ARRAY[v.{column}] = ARRAY[d.{column}]")
    same = " AND ".join(tests)
    rows, log, function = _rows_of(view), log_of(view.name), identifier(f"_vk_keep_{view.name}")
    columns = ", ".join(identifier(name) for name in view.columns)
    return f"""\
-- Refreshes {view.name}: its change is written to its log, and then applied to its rows.
CREATE FUNCTION {function}() RETURNS void LANGUAGE plpgsql {_BODY}
DECLARE
{declared}  expected bigint;
  done bigint;
  number bigint;
BEGIN
{chosen}\
  SELECT count(*) INTO expected FROM {log};
  IF expected = 0 THEN
    RETURN;
  END IF;
  DELETE FROM {rows} AS v USING {log} AS d WHERE {same} AND v.{COUNT} + d.{LOG_WEIGHT} = 0;
  GET DIAGNOSTICS done = ROW_COUNT;
  UPDATE {rows} AS v SET {COUNT} = v.{COUNT} + d.{LOG_WEIGHT} FROM {log} AS d WHERE {same};
  GET DIAGNOSTICS number = ROW_COUNT;
  done := done + number;
  INSERT INTO {rows} ({columns}, {COUNT})
    SELECT {columns}, {LOG_WEIGHT} FROM {log} AS d
    WHERE d.{LOG_WEIGHT} > 0 AND NOT EXISTS (SELECT FROM {rows} AS v WHERE {same});
  GET DIAGNOSTICS number = ROW_COUNT;
  IF done + number <> expected THEN
    RAISE EXCEPTION 'rows to delete from % are not in it', {string(view.name)}
      USING HINT = 'was it or one of its tables changed while triggers were disabled?';
  END IF;
END $vk$;
{_only_ours(function)}"""


def _change(file: File, view: View, changed: Sequence[str]) -> str:
    """The statement that writes the change of a view to its log."""
    change = differentiate(view.node, changed)
    if change is None:
        return "NULL;"
    known = never_null(change, tuple(file.tables))
    found = printed(narrowed(change, changed), changed, known)
    labels = ", ".join(a.label for a in view.node.outputs)
    columns = ", ".join([*(identifier(name) for name in view.columns), LOG_WEIGHT])
    total = f"SELECT {labels}, sum({WEIGHT}) FROM (\n{indent(found.query, '  ')}\n) AS t"
    query = type(found)(f"{total}\nGROUP BY {labels} HAVING sum({WEIGHT}) <> 0", found.shared)
    return f"INSERT INTO {log_of(view.name)} ({columns})\n{query.text};"


def _statistics(file: File, tables: Sequence[str]) -> str:
    """Analyzes the tables once, so that PostgreSQL expects few rows in the logs."""
    names = [*(log_of(name) for name in tables), *(part for v in file.views for part in (_rows_of(v), log_of(v.name)))]
    return f"-- Statistics: PostgreSQL is to expect few rows in the logs.\nANALYZE {', '.join(names)};\n"


# maintenance -------------------------------------------------------------------------------------


def _maintenance(file: File, tables: Sequence[str]) -> str:
    keep = "\n".join(f"  PERFORM {identifier(f'_vk_keep_{view.name}')}();" for view in file.views)
    logs = [*tables, *(view.name for view in file.views)]
    clear = "\n".join(f"  DELETE FROM {log_of(name)};" for name in logs)
    return f"""\
-- At COMMIT: all views in their order, each from the tables and the views before it. Then the logs are empty again.
CREATE FUNCTION {MAINTAIN}() {_TRIGGER}
BEGIN
  IF pg_trigger_depth() > 1 OR {OPEN} > 0 THEN -- in a statement, which may not have logged all of its changes yet
    RAISE EXCEPTION 'tables of maintained views cannot be changed while constraints are immediate'
      USING HINT = 'SET CONSTRAINTS ALL DEFERRED';
  END IF;
{keep}
{clear}
  UPDATE {CONTROL} SET changed_by = NULL;
  RETURN NULL;
END $vk$;

CREATE CONSTRAINT TRIGGER {MAINTAIN} AFTER UPDATE ON {CONTROL} DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (NEW.changed_by IS NOT NULL) EXECUTE FUNCTION {MAINTAIN}();
-- Small changes are not worth compiling, whatever PostgreSQL estimates for tables that it has not analyzed.
ALTER FUNCTION {MAINTAIN} SET jit = off;
{_only_ours(MAINTAIN)}"""


def _removal(file: File, tables: Sequence[str]) -> str:
    """Comments that say how to remove everything."""
    lines = ["To remove all of this:", "", "BEGIN;"]
    functions = [*(identifier(f"_vk_note_{name}") for name in tables), *([BEGIN] if tables else [])]
    lines += [f"DROP FUNCTION {function} CASCADE;" for function in functions]
    for view in reversed(file.views):
        lines += [f"DROP VIEW {identifier(view.name)};", f"DROP FUNCTION {identifier(f'_vk_keep_{view.name}')};"]
        lines.append(f"DROP TABLE {_rows_of(view)}, {log_of(view.name)};")
    lines += [f"DROP TABLE {log_of(name)};" for name in tables]
    lines += [f"DROP TABLE {CONTROL};", f"DROP FUNCTION {MAINTAIN};", f"DROP FUNCTION IF EXISTS {ONE};", "COMMIT;"]
    return "\n".join(f"-- {line}".rstrip() for line in lines) + "\n"
