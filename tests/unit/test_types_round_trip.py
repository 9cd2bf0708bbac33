"""Every type keeps its values: through Python, Arrow, SQL, files, compaction, reopening, AS OF and delete by row."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import viewkeeper as vk
from tests.marks import spark_long
from viewkeeper.algebra.rows import hashable
from viewkeeper.algebra.types import parse_type

UTC = dt.UTC
FIRST, LAST = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
NINES = Decimal("9" * 38)
HALF = Decimal("9" * 20 + "." + "9" * 18)
BELOW_ONE = Decimal("0." + "9" * 38)

VALUES: dict[str, list[Any]] = {
    "TINYINT": [-128, 0, 127],
    "SMALLINT": [-32768, 32767],
    "INT": [-(2**31), 2**31 - 1],
    "BIGINT": [-(2**63), 2**63 - 1, 2**53 + 1],
    "FLOAT": [math.nan, math.inf, -math.inf, -0.0, 1.401298464324817e-45, 3.4028234663852886e38, 0.10000000149011612],
    "DOUBLE": [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 0.1],
    "DECIMAL(38,0)": [NINES, NINES.copy_negate(), Decimal(0), Decimal(2**63 + 1)],
    "DECIMAL(38,18)": [HALF, HALF.copy_negate(), Decimal("0.000000000000000001")],
    "DECIMAL(38,38)": [BELOW_ONE, BELOW_ONE.copy_negate(), Decimal("1e-38")],
    "DECIMAL(9,2)": [Decimal("1234567.89"), Decimal("-0.01")],
    "STRING": [
        "",
        " ",
        "äöü",
        "\U0001f600\U0010ffff",
        "nul\x00letter",
        "tab\tnew\nline",
        "it's {x}; `q` \\",
        "x" * 9000,
    ],
    "VARCHAR(3)": ["", "abc", "äöü", "\U0001f600" * 3],
    "BINARY": [b"", b"\x00", b"\xff" * 60, bytes(range(256))],
    "BOOLEAN": [True, False],
    "DATE": [
        dt.date(1, 1, 1),
        dt.date(9999, 12, 31),
        dt.date(1582, 10, 4),
        dt.date(1582, 10, 15),
        dt.date(1969, 12, 31),
    ],
    "TIMESTAMP": [
        moment.replace(tzinfo=UTC)
        for moment in (
            FIRST,
            LAST,
            dt.datetime(1500, 2, 28, 1, 2, 3, 4),
            dt.datetime(1899, 12, 31, 23),
            dt.datetime(1969, 12, 31, 23, 59, 59, 1),
        )
    ],
    "TIMESTAMP_NTZ": [FIRST, LAST, dt.datetime(1500, 2, 28, 1, 2, 3, 4), dt.datetime(2024, 3, 31, 2, 30)],
    "ARRAY<INT>": [[], [1, None, 3], [None]],
    "ARRAY<DOUBLE>": [[-0.0, math.nan, None]],
    "ARRAY<ARRAY<STRING>>": [[], [[]], [["a", None], None]],
    "MAP<STRING,INT>": [{}, {"b": 2, "a": None, "": 0}],
    "MAP<INT,ARRAY<DOUBLE>>": [{2: [math.nan, None], 1: None, 3: []}],
    "STRUCT<a: INT, b: STRING>": [{"a": 1, "b": "x"}, {"a": None, "b": None}],
    "STRUCT<a: DOUBLE, `b c`: STRUCT<d: DATE, e: DECIMAL(38,18), f: ARRAY<BIGINT>>>": [
        {"a": -0.0, "b c": {"d": dt.date(1, 1, 1), "e": HALF, "f": [2**63 - 1, None]}},
        {"a": math.nan, "b c": None},
        {"a": None, "b c": {"d": None, "e": None, "f": None}},
    ],
    "ARRAY<STRUCT<t: TIMESTAMP, n: TIMESTAMP_NTZ, m: MAP<STRING,BOOLEAN>, x: BINARY>>": [
        [{"t": LAST.replace(tzinfo=UTC), "n": FIRST, "m": {"k": True, "z": None}, "x": b"\xff"}, None],
        [{"t": None, "n": None, "m": None, "x": None}],
    ],
}

LETTERS = {kind: f"c{number}" for number, kind in enumerate(VALUES)}
DDL = ", ".join(f"{name} {kind}" for kind, name in LETTERS.items())


def rows() -> list[tuple[Any, ...]]:
    """Rows that hold every value of every type, and one of NULLs; the first column tells them apart."""
    longest = max(len(values) for values in VALUES.values())
    found = [(n, *(values[n % len(values)] for values in VALUES.values())) for n in range(longest)]
    return [*found, (longest, *(None for _ in VALUES))]


def key(value: Any) -> Any:
    """A value by which equal rows are found: nested ones as tuples, maps without their order, NaN as a mark."""
    if isinstance(value, dict):
        inner = tuple((key(name), key(part)) for name, part in value.items())
        return ("map", *sorted(inner, key=repr))
    if isinstance(value, list):
        return tuple(key(part) for part in value)
    if isinstance(value, float):
        return hashable(value + 0.0)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return ("moment", value.astimezone(UTC).replace(tzinfo=None))
    return value


def bag(found: list[tuple[Any, ...]]) -> Counter[Any]:
    return Counter(tuple(key(value) for value in row) for row in found)


def signs(found: list[tuple[Any, ...]]) -> set[float]:
    """The signs of all zeros, at any depth."""

    def zeros(value: Any) -> list[float]:
        if isinstance(value, dict):
            return [sign for part in value.values() for sign in zeros(part)]
        if isinstance(value, list | tuple):
            return [sign for part in value for sign in zeros(part)]
        return [math.copysign(1, value)] if isinstance(value, float) and value == 0 else []

    return set(zeros(found))


def check(db: vk.Database, expected: list[tuple[Any, ...]], query: str = "SELECT * FROM t") -> None:
    found = db.sql(query).rows()
    assert bag(found) == bag(expected)
    assert signs(found) <= {1.0}


@pytest.mark.parametrize("zone", ["Asia/Tokyo", *spark_long("UTC")])
def test_python_rows_compaction_reopen_and_delete(connect: Callable[..., vk.Database], zone: str) -> None:
    db = connect(time_zone=zone, keep="0 seconds")
    db.sql(f"CREATE TABLE t (n INT, {DDL})")
    given = rows()
    for part in (given[:3], given[3:]):
        with db.transaction() as tx:
            tx.insert("t", part)
            seen = tx.sql("SELECT * FROM t").rows()
    assert bag(seen) == bag(given)
    check(db, given)
    before = db.epoch
    assert db.compact("t")[0].files_after == 1
    check(db, given)
    db.close()
    db = connect()
    check(db, given)
    with db.transaction() as tx:
        tx.delete("t", given[1:])
        tx.insert("t", given[:1])
    check(db, [given[0], given[0]])
    check(db, given, f"SELECT * FROM t AS OF EPOCH {before}")
    assert sum(tx.commit_info.changes["t"].weights().values()) == 1 - len(given[1:])


@pytest.mark.parametrize("zone", ["America/New_York", *spark_long("UTC")])
def test_arrow_and_parquet_by_the_engine(connect: Callable[..., vk.Database], tmp_path: Path, zone: str) -> None:
    """The same rows as Arrow, as a Parquet file loaded by the engine, and compacted by the engine."""
    given = rows()
    schema = pa.schema([("n", pa.int32()), *((name, parse_type(kind).arrow) for kind, name in LETTERS.items())])
    columns = [pa.array(_arrow_values([row[i] for row in given]), field.type) for i, field in enumerate(schema)]
    table = pa.table(columns, schema=schema)
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path)
    db = connect(time_zone=zone, keep="0 seconds")
    db.sql(f"CREATE TABLE t (n INT, {DDL})")
    with db.transaction() as tx:
        tx.insert("t", table)
    db = connect(tuning=vk.Tuning(small_rows=3, driver_merge_rows=3, file_rows=4))
    assert db.load("t", str(path)).count == len(given)
    check(db, [*given, *given])
    db.compact("t")
    check(db, [*given, *given])
    db.sql("INSERT INTO t SELECT * FROM t")
    db.sql("DELETE FROM t WHERE n > 1")
    check(db, [row for row in given if row[0] <= 1] * 4)


def _arrow_values(values: list[Any]) -> list[Any]:
    """Maps as Arrow takes them."""

    def turn(value: Any) -> Any:
        if (isinstance(value, dict) and not {"a", "b", "t", "d", "b c"} & set(map(str, value))) or _is_map(value):
            return [(name, turn(part)) for name, part in value.items()]
        if isinstance(value, dict):
            return {name: turn(part) for name, part in value.items()}
        return [turn(part) for part in value] if isinstance(value, list) else value

    return [turn(value) for value in values]


def _is_map(value: Any) -> bool:
    return isinstance(value, dict) and set(value) in ({"b", "a", ""}, {"k", "z"})


def spelled(value: Any, kind: str) -> str:
    """A value as SQL text; the kinds that have a spelling of their own."""
    if value is None:
        return f"CAST(NULL AS {kind})"
    if kind == "BINARY":
        return f"X'{value.hex()}'"
    if kind == "DATE":
        return f"DATE'{value.isoformat()}'"
    if kind in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        zone = "Z" if kind == "TIMESTAMP" else ""
        return f"CAST('{value.replace(tzinfo=None).isoformat(sep=' ', timespec='microseconds')}{zone}' AS {kind})"
    if kind in ("STRING", "VARCHAR(3)"):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\x00", "\\0") + "'"
    if kind == "BOOLEAN":
        return str(value).lower()
    if kind.startswith("DECIMAL"):
        return f"CAST('{value:f}' AS {kind})"
    return f"CAST('{value!r}' AS {kind})"


def test_sql_insert(db: vk.Database) -> None:
    kinds = [kind for kind in VALUES if "<" not in kind]
    given = [tuple(row[1 + list(VALUES).index(kind)] for kind in kinds) for row in rows()]
    db.sql("CREATE TABLE t (" + ", ".join(f"{LETTERS[kind]} {kind}" for kind in kinds) + ")")
    text = ", ".join(
        "(" + ", ".join(spelled(value, kind) for value, kind in zip(row, kinds, strict=True)) + ")" for row in given
    )
    db.sql(f"INSERT INTO t VALUES {text}")
    check(db, given)


def test_sql_insert_nested(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (a ARRAY<INT>, m MAP<STRING,INT>, s STRUCT<a: INT, b: STRING>)")
    db.sql(
        "INSERT INTO t SELECT array(1, CAST(NULL AS INT)), map('b', 2, 'a', CAST(NULL AS INT)), "
        "named_struct('a', 1, 'b', CAST(NULL AS STRING))"
    )
    db.sql(
        "INSERT INTO t SELECT CAST(NULL AS ARRAY<INT>), CAST(NULL AS MAP<STRING,INT>), "
        "CAST(NULL AS STRUCT<a: INT, b: STRING>)"
    )
    check(db, [([1, None], {"a": None, "b": 2}, {"a": 1, "b": None}), (None, None, None)])


def test_csv(db: vk.Database, tmp_path: Path) -> None:
    kinds = {
        "i": "INT",
        "l": "BIGINT",
        "x": "DOUBLE",
        "d": "DECIMAL(38,18)",
        "s": "STRING",
        "b": "BOOLEAN",
        "a": "DATE",
    }
    kinds["n"] = "TIMESTAMP_NTZ"
    kinds["t"] = "TIMESTAMP"
    path = tmp_path / "rows.csv"
    path.write_text(
        ",".join(kinds) + "\n"
        "1,9223372036854775807,0.1,12345678901234567890.123456789012345678,äö 😀,true,0001-01-01,"
        "1500-02-28 01:02:03.000004,9999-12-31 23:59:59.999999Z\n"
        '-1,-9223372036854775808,-0.0,-0.000000000000000001,"a,""b",false,9999-12-31,2024-01-01 00:00:00,\n'
    )
    db.sql("CREATE TABLE t (" + ", ".join(f"{name} {kind}" for name, kind in kinds.items()) + ")")
    db.load("t", str(path), options={"escape": '"'})
    check(
        db,
        [
            (
                1,
                2**63 - 1,
                0.1,
                Decimal("12345678901234567890.123456789012345678"),
                "äö 😀",
                True,
                dt.date(1, 1, 1),
                dt.datetime(1500, 2, 28, 1, 2, 3, 4),
                LAST.replace(tzinfo=UTC),
            ),
            (-1, -(2**63), 0.0, Decimal("-1e-18"), 'a,"b', False, dt.date(9999, 12, 31), dt.datetime(2024, 1, 1), None),
        ],
    )


def test_json(db: vk.Database, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    lines = [
        {"i": 1, "x": 0.1, "s": "ä😀", "b": True, "a": "1500-01-01", "r": [1, None], "m": {"k": "v"}},
        {"i": None, "x": -1.5, "s": "", "b": False, "a": None, "r": [], "m": {"k": None}},
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    db.sql("CREATE TABLE t (i INT, x DOUBLE, s STRING, b BOOLEAN, a DATE, r ARRAY<INT>, m STRUCT<k: STRING>)")
    db.load("t", str(path))
    check(
        db,
        [
            (1, 0.1, "ä😀", True, dt.date(1500, 1, 1), [1, None], {"k": "v"}),
            (None, -1.5, "", False, None, [], {"k": None}),
        ],
    )


def test_local_times_are_read_in_the_pinned_zone(connect: Callable[..., vk.Database]) -> None:
    db = connect(time_zone="Asia/Tokyo")
    db.sql("CREATE TABLE t (n INT, t TIMESTAMP, l TIMESTAMP_NTZ)")
    local = dt.datetime(2024, 1, 1, 9, 0)
    with db.transaction() as tx:
        tx.insert("t", [(1, local, local)])
        tx.insert("t", [(2, local.replace(tzinfo=UTC), local)])
        tx.insert("t", pa.table({"n": [3], "t": pa.array([local], pa.timestamp("us")), "l": [local]}))
    db.sql("INSERT INTO t VALUES (4, TIMESTAMP'2024-01-01 09:00:00', TIMESTAMP_NTZ'2024-01-01 09:00:00')")
    midnight = dt.datetime(2024, 1, 1, tzinfo=UTC)
    expected = [(1, midnight, local), (2, local.replace(tzinfo=UTC), local), (3, midnight, local), (4, midnight, local)]
    assert sorted(db.sql("SELECT * FROM t").rows()) == expected
    assert db.sql("SELECT date_format(t, 'HH:mm'), date_format(l, 'HH:mm') FROM t WHERE n = 4").rows() == [
        ("09:00", "09:00")
    ]


NO_VARIANT = "the type VARIANT is not supported: VARIANT values have no equality, so rows could not be told apart"
NO_TIME = "the type TIME is not supported: TIME is not supported by every engine"
NO_INTERVAL = "the type INTERVAL is not supported: INTERVAL cannot be stored in Parquet by every engine"
NO_CHAR = "is not supported: CHAR(n) pads its values, so equal values differ between engines"
NO_COLLATION = "is not supported: collated strings have an equality of their own"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("VARIANT", NO_VARIANT),
        ("VOID", "the type VOID is not supported: VOID holds nothing but NULL"),
        ("TIME", NO_TIME),
        ("TIME(6)", NO_TIME),
        ("INTERVAL", NO_INTERVAL),
        ("INTERVAL YEAR TO MONTH", NO_INTERVAL),
        ("INTERVAL DAY TO SECOND", NO_INTERVAL),
        ("INTERVAL HOUR", NO_INTERVAL),
        ("CHAR(3)", f"the type CHAR {NO_CHAR}"),
        ("CHARACTER(3)", f"the type CHARACTER {NO_CHAR}"),
        ("ARRAY<VARIANT>", NO_VARIANT),
        ("STRING COLLATE UTF8_LCASE", f"the type 'STRING COLLATE UTF8_LCASE' {NO_COLLATION}"),
        ("ARRAY<STRING COLLATE UNICODE>", f"the type 'ARRAY<STRING COLLATE UNICODE>' {NO_COLLATION}"),
        ("MAP<MAP<INT,INT>,INT>", "a MAP cannot be the key of a MAP"),
        ("DECIMAL(39,0)", "DECIMAL(39,0) is not supported"),
        ("DECIMAL(3,4)", "DECIMAL(3,4) is not supported"),
        ("STRUCT<>", "STRUCT<> has no fields"),
        ("STRNG", "there is no type named 'strng'"),
        ("ARRAY<VARCHAR(3)>", "VARCHAR(n) inside ARRAY is not supported: its length would not be checked there"),
    ],
)
def test_refused_types(tmp_path: Path, kind: str, message: str) -> None:
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        with pytest.raises(vk.errors.TypeMismatch) as caught:
            db.sql(f"CREATE TABLE t (a INT,\n  b {kind})")
        assert caught.value.message == message
        assert caught.value.hint
        assert (caught.value.place.line, caught.value.place.column) == (2, 5)
        assert db.ls() == []


@pytest.mark.parametrize("kind", ["MAP<STRING,INT>", "STRUCT<a: MAP<STRING,INT>>", "ARRAY<MAP<INT,INT>>"])
@pytest.mark.parametrize("form", ["b {} PRIMARY KEY", "b {}, PRIMARY KEY (b)", "b {} UNIQUE", "b {}, UNIQUE (a, b)"])
def test_a_map_cannot_be_in_a_key(tmp_path: Path, kind: str, form: str) -> None:
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        with pytest.raises(vk.errors.TypeMismatch, match="cannot be in a key: a MAP has no order") as caught:
            db.sql(f"CREATE TABLE t (a INT, {form.format(kind)})")
        assert caught.value.hint == "take another column, or keep the map's entries as ARRAY<STRUCT<...>>"


def test_varchar_length(db: vk.Database) -> None:
    db.sql("CREATE TABLE t (n INT, s VARCHAR(3))")
    db.sql("INSERT INTO t VALUES (1, 'abc'), (2, NULL), (3, '😀😀😀')")
    for change in (
        lambda: db.sql("INSERT INTO t VALUES (4, 'abcd')"),
        lambda: db.sql("UPDATE t SET s = concat(s, 'd') WHERE n = 1"),
        lambda: _insert(db, [(4, "abcd")]),
    ):
        with pytest.raises(vk.errors.ConstraintViolation) as caught:
            change()
        assert caught.value.message == "'abcd' is too long for column 's' of t, which is VARCHAR(3)"
        assert caught.value.detail == "it has 4 letters"
    check(db, [(1, "abc"), (2, None), (3, "😀😀😀")])


def _insert(db: vk.Database, given: list[tuple[Any, ...]]) -> None:
    with db.transaction() as tx:
        tx.insert("t", given)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT date_add(DATE'9999-12-31', 1) AS a, CAST(NULL AS TIMESTAMP) AS t, CAST(NULL AS TIMESTAMP_NTZ) AS n",
        "SELECT CAST(NULL AS DATE), timestamp_micros(253402300800000000), CAST(NULL AS TIMESTAMP_NTZ)",
        "SELECT CAST(NULL AS DATE), timestamp_micros(-62135596800000001), CAST(NULL AS TIMESTAMP_NTZ)",
    ],
)
def test_years_beyond_9999_are_refused(db: vk.Database, query: str) -> None:
    db.sql("CREATE TABLE t (a DATE, t TIMESTAMP, n TIMESTAMP_NTZ)")
    with pytest.raises(vk.errors.TypeMismatch, match="lies outside the years 1 to 9999"):
        db.sql(f"INSERT INTO t {query}")
    with pytest.raises(vk.errors.TypeMismatch, match="outside the years 1 to 9999, which Python does not have"):
        db.sql(query).rows()
    check(db, [])
