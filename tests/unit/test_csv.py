"""CSV files mean what RFC 4180 says and pyarrow.csv reads, on both engines."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import viewkeeper as vk
from viewkeeper.algebra.schema import Column, make_schema
from viewkeeper.algebra.types import parse_type
from viewkeeper.errors import TypeMismatch
from viewkeeper.sources import csv_files
from viewkeeper.sources.source import open_source

UTC = dt.UTC


def read(path: Path, columns: dict[str, str], **options: str) -> list[tuple[Any, ...]]:
    """The rows of a file as a table's, without a database."""
    schema = make_schema([Column(name, parse_type(kind)) for name, kind in columns.items()], [])
    tables = open_source(str(path), None, options, {}).tables(schema, "t", "UTC")
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def refused(path: Path, columns: dict[str, str], **options: str) -> str:
    with pytest.raises(TypeMismatch) as problem:
        read(path, columns, **options)
    return str(problem.value).replace(str(path), path.name)


def test_csv_is_read_as_rfc_4180_says(db: vk.Database, tmp_path: Path) -> None:
    """One load and one commit per engine for all that quotes can hold."""
    (tmp_path / "a.csv").write_bytes(
        b"\xef\xbb\xbfn,S,more\r\n"
        b'1,"two\r\nlines\nthree",x\r\n'
        b'2,"quote\\",\r\n'
        b'3,"say ""hi""",""\r\n'
        b'4,,"a,b"\r\n'
        b"\r\n"
        b'"5",  blanks  ,\xf0\x9f\x98\x80\r\n'
        b'6,\\N,"""\r\n"""\r\n'
        b"7,NULL,it's"
        b"\r\n\r\n"
    )
    with db.transaction() as tx:
        tx.sql("CREATE TABLE t (more STRING, n INT, s STRING, absent DATE)")
        assert tx.load("t", str(tmp_path / "a.csv")) == 7
        found = sorted(tx.sql("SELECT n, s, more, absent FROM t").rows())
    assert found == [
        (1, "two\r\nlines\nthree", "x", None),
        (2, "quote\\", None, None),
        (3, 'say "hi"', "", None),
        (4, None, "a,b", None),
        (5, "  blanks  ", "😀", None),
        (6, "\\N", '"\r\n"', None),
        (7, "NULL", "it's", None),
    ]


def test_many_rows_of_csv_go_through_files(
    connect: Callable[..., vk.Database], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_files, "BLOCK", 1_000)
    lines = "".join(f'{n},"line\n""{n}""",{"" if n % 3 else "x"}\n' for n in range(1_000))
    (tmp_path / "a.csv").write_text("n,s,e\n" + lines)
    db = connect(tuning=vk.Tuning(small_rows=50, load_rows=300))
    db.sql("CREATE TABLE t (n INT PRIMARY KEY, s STRING, e STRING)")
    assert db.load("t", str(tmp_path / "a.csv")).count == 1_000
    found = sorted(db.sql("SELECT * FROM t").rows())
    assert found == [(n, f'line\n"{n}"', None if n % 3 else "x") for n in range(1_000)]


def test_each_type_reads_its_texts(tmp_path: Path) -> None:
    kinds = {
        "b": "BOOLEAN", "i": "TINYINT", "l": "BIGINT", "x": "DOUBLE", "y": "FLOAT", "d": "DECIMAL(10,2)",
        "a": "DATE", "t": "TIMESTAMP", "n": "TIMESTAMP_NTZ", "r": "BINARY",
    }  # fmt: skip
    (tmp_path / "a.csv").write_text(
        "b,i,l,x,y,d,a,t,n,r\n"
        "true,-128,9223372036854775807,5984.2,0.1,2.675,0001-01-01,2024-03-31T02:30:00+02:00,2024-01-01,abc\n"
        "F, 7 ,+5,1e400,-inf,-2.675,9999-12-31,2024-01-01 10:11:12.123456000,2024-01-01 10:11,\n"
        'yes,"",,nan,.5,1e3,,0001-01-01 00:00:00Z,,""\n'
        "0,,,-0,5.,12345678.999,,,,ä\n"
    )
    rows = read(tmp_path / "a.csv", kinds)
    assert str(rows[2][3]) == "nan"
    assert rows[0] == (
        True, -128, 2**63 - 1, 5984.2, 0.10000000149011612, Decimal("2.68"), dt.date(1, 1, 1),
        dt.datetime(2024, 3, 31, 0, 30, tzinfo=UTC), dt.datetime(2024, 1, 1), b"abc",
    )  # fmt: skip
    assert rows[1] == (
        False, 7, 5, float("inf"), float("-inf"), Decimal("-2.68"), dt.date(9999, 12, 31),
        dt.datetime(2024, 1, 1, 10, 11, 12, 123456, tzinfo=UTC), dt.datetime(2024, 1, 1, 10, 11), None,
    )  # fmt: skip
    assert rows[2][:3] + rows[2][4:] == (
        True, None, None, 0.5, Decimal("1000.00"), None, dt.datetime(1, 1, 1, tzinfo=UTC), None, b""
    )  # fmt: skip
    assert rows[3] == (False, None, None, 0.0, 5.0, Decimal("12345679.00"), None, None, None, "ä".encode())


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        ("INT", "0x10", "it is not a whole number"),
        ("INT", "1.5", "it is not a whole number"),
        ("INT", "1_000", "it is not a whole number"),
        ("TINYINT", "128", "it is out of range"),
        ("BIGINT", "9223372036854775808", "it is out of range"),
        ("DOUBLE", "1,5", "it is not a number"),
        ("DECIMAL(4,2)", "100", "it needs more than 2 digits before the point"),
        ("DECIMAL(4,2)", "nan", "it is not a number"),
        ("BOOLEAN", "2", "it is not true or false"),
        ("DATE", "2024-02-30", "it is not a date such as 2024-02-29"),
        ("DATE", "29.02.2024", "it is not a date such as 2024-02-29"),
        ("DATE", "0000-01-01", "it lies outside the years 1 to 9999"),
        ("TIMESTAMP", "2024-01-01 10:11:12.1234567", "it is finer than a microsecond"),
        ("TIMESTAMP_NTZ", "2024-01-01 10:11:12Z", "it has a time zone, the column has none"),
        ("ARRAY<INT>", "[1]", "text cannot become a value of ARRAY<INT>"),
    ],
)
def test_a_text_that_does_not_fit_is_named_with_its_line(tmp_path: Path, kind: str, text: str, why: str) -> None:
    (tmp_path / "a.csv").write_text(f'n,s,v\n1,"two\nlines",\n\n2,x,\n3,y,"{text}"\n4,z,"{text}"\n')
    assert refused(tmp_path / "a.csv", {"n": "INT", "s": "STRING", "v": kind}) == (
        f"{text!r} does not fit column 'v' of t, which is {kind}\ndetail: in line 6 of a.csv: {why}"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n3\n", "line 3 of a.csv has 1 fields, its first line has 2\ndetail: the line begins with '3'"),
        (b'a,b\n"x\ny",2\n3,4,5\n', "line 4 of a.csv has 3 fields, its first line has 2"),
        (
            b'a,b\n1,2\n3,"open\n4,5\n',
            "a.csv ends inside a quoted field\ndetail: the field begins in the record of line 3",
        ),
        (b"a,b\n1,2\n3,\xff\n", "line 3 of a.csv is not utf-8\nhint: say how the text is encoded"),
        (b"a,A\n1,2\n", "there are two columns named 'A'"),
        (b"a,c\n1,2\n", "there is a column 'c' that t does not have"),
        (b"", "a.csv is empty\nhint: a CSV file needs a header line with column names"),
    ],
)
def test_a_damaged_csv_file_is_refused_by_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    assert message in refused(tmp_path / "a.csv", {"a": "STRING", "b": "STRING"})


def test_options_have_the_names_of_spark(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("1;'x;\\'ä'\n2;NA\n".encode("latin-1"))
    options = {"header": "false", "sep": ";", "quote": "'", "escape": "\\", "nullValue": "NA", "encoding": "latin-1"}
    assert read(tmp_path / "a.csv", {"n": "INT", "s": "STRING", "z": "INT"}, **options) == [
        (1, "x;'ä", None),
        (2, None, None),
    ]
    assert refused(tmp_path / "a.csv", {"n": "INT"}, dateFormat="dd.MM.yyyy").startswith(
        "the option dateformat = dd.MM.yyyy of CSV files is not supported\nhint: the options are header, sep,"
    )


def test_a_new_table_gets_the_types_of_all_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last row counts as much as the first, whatever block it is in."""
    monkeypatch.setattr(csv_files, "BLOCK", 200)
    first = "1,1,1,true,2024-01-01,2024-01-01,1,,x\n" * 50
    (tmp_path / "a.csv").write_text(
        "i,w,f,b,d,t,s,none,text\n" + first + "2,9223372036854775808,0.5,FALSE,2024-01-02,2024-01-02 10:00:00,07a,,y\n"
    )
    assert open_source(str(tmp_path / "a.csv"), None, {}, {}).columns("UTC") == [
        ("i", "bigint"), ("w", "decimal(38,0)"), ("f", "double"), ("b", "boolean"), ("d", "date"),
        ("t", "timestamp"), ("s", "string"), ("none", "string"), ("text", "string"),
    ]  # fmt: skip


@given(text=st.text(st.sampled_from('ab,"\n\r'), max_size=30))
@settings(max_examples=300, deadline=None)
def test_records_end_outside_quotes(text: str) -> None:
    """Whatever stands in the text, cutting it where a record ends changes nothing for pyarrow.csv."""
    ends = csv_files.RecordEnds(csv_files.Dialect())
    data = text.encode()
    end = ends.last(data)
    by_parity = ends._by_parity(data)
    assert by_parity is None or by_parity == ends._by_scanning(data)[0]
    if end and not ends.is_open(data):
        assert by_csv(data) == by_csv(data[:end]) + by_csv(data[end:])


def by_csv(data: bytes) -> list[list[str]]:
    return [row for row in csv.reader(io.StringIO(data.decode(), newline="")) if row]


FIELDS = st.text(st.sampled_from("ab1 ,\"\\\n\r;äß😀\x00\t'"), max_size=6)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(FIELDS, FIELDS, FIELDS), max_size=8), quote_all=st.booleans())
def test_written_files_are_read_back(tmp_path: Path, rows: list[Any], quote_all: bool) -> None:
    """What Python's csv module writes is what is read, and pyarrow.csv reads the same; small blocks change nothing."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL)
    writer.writerows([("x", "y", "z"), *rows])
    (tmp_path / "a.csv").write_bytes(text.getvalue().encode())
    columns = {"x": "STRING", "y": "STRING", "z": "STRING"}
    found = read(tmp_path / "a.csv", columns)
    wanted = rows if quote_all else [tuple(field or None for field in row) for row in rows]
    assert found == wanted
    if rows:
        by_arrow = arrow_csv.read_csv(
            tmp_path / "a.csv",
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        assert found == [tuple(row.values()) for row in by_arrow.to_pylist()]
    block, csv_files.BLOCK = csv_files.BLOCK, 16
    try:
        assert read(tmp_path / "a.csv", columns) == found
    finally:
        csv_files.BLOCK = block
