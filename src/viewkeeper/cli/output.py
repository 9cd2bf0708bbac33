"""Printing: data to stdout in the form asked for, notes and errors to stderr."""

from __future__ import annotations

import decimal
import json
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from viewkeeper.algebra.json_values import to_json
from viewkeeper.cli.value_texts import to_cell, to_csv

if TYPE_CHECKING:
    from viewkeeper.query.result import Result

FORMATS = ("table", "json", "csv")
Row = Sequence[Any]

_NUMBERS = (int, float, decimal.Decimal)


def stdout() -> Console:
    """The console for data."""
    return Console(file=sys.stdout, highlight=False, emoji=False)


def stderr() -> Console:
    """The console for everything else."""
    return Console(file=sys.stderr, highlight=False, emoji=False)


def note(text: str) -> None:
    """Prints a message that is not data."""
    stderr().print(Text(text), soft_wrap=True)


def tell_error(text: str) -> None:
    """Prints an error."""
    stderr().print(Text.assemble(("error: ", "bold red"), text), soft_wrap=True)


def print_rows(
    columns: Sequence[str], rows: Iterable[Row], form: str, counts: Collection[str] = (), *, header: bool = True
) -> None:
    """Prints rows as a table, a JSON array of objects with one row per line, or CSV with a header.

    The columns `counts` have thousands separators in a table. `header`: names come first.
    """
    if form == "json":
        _print_json(columns, rows)
    elif form == "csv":
        write = sys.stdout.write
        if header:
            write(",".join(to_csv(name) for name in columns) + "\n")
        for row in rows:
            write(",".join(to_csv(value) for value in row) + "\n")
    else:
        _print_table(columns, rows, counts, header=header)
    sys.stdout.flush()


def print_object(body: dict[str, Any]) -> None:
    """Prints one JSON object."""
    sys.stdout.write(json.dumps(to_json(body), ensure_ascii=False, indent=2) + "\n")


def print_result(result: Result, form: str) -> int:
    """Prints the rows of a query; returns how many."""
    table = result.arrow()
    print_rows(table.column_names, rows_of(table), form)
    return int(table.num_rows)


def rows_of(table: Any) -> Iterable[Row]:
    """The rows of an Arrow table, converted batch by batch."""
    import pyarrow as pa

    from viewkeeper.query.result import Result

    for batch in table.to_batches(max_chunksize=5_000):
        yield from Result(table=pa.Table.from_batches([batch])).rows()


def _print_json(columns: Sequence[str], rows: Iterable[Row]) -> None:
    names = _distinct(columns)
    write = sys.stdout.write
    before = "[\n"
    for row in rows:
        write(before + json.dumps(dict(zip(names, map(to_json, row), strict=True)), ensure_ascii=False))
        before = ",\n"
    write("[]\n" if before == "[\n" else "\n]\n")


def _distinct(columns: Sequence[str]) -> list[str]:
    """Names for the keys of an object: a second `a` is `a_2`."""
    names: list[str] = []
    for column in columns:
        name, number = column, 1
        while name in names:
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    return names


def _print_table(columns: Sequence[str], rows: Iterable[Row], counts: Collection[str], *, header: bool) -> None:
    names, *body = table_lines(columns, rows, counts)
    if header:
        stdout().print(Text(names, style="bold"), soft_wrap=True)
    for line in body if header else body[1:]:
        sys.stdout.write(line + "\n")


def table_lines(columns: Sequence[str], rows: Iterable[Row], counts: Collection[str] = ()) -> list[str]:
    """A table as lines: header, separator, and a line per row; numbers are aligned right, counts have separators."""
    right = [True] * len(columns)
    cells: list[list[str]] = []
    for row in rows:
        for index, value in enumerate(row):
            if value is not None and (isinstance(value, bool) or not isinstance(value, _NUMBERS)):
                right[index] = False
        cells.append(
            [f"{value:,}" if name in counts else to_cell(value) for name, value in zip(columns, row, strict=True)]
        )
    names = [to_cell(name) for name in columns]
    widths = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    separator = "-+-".join("-" * width for width in widths)
    return [_line(names, widths, right), separator, *(_line(row, widths, right) for row in cells)]


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, width, to_right in zip(cells, widths, right, strict=True):
        space = " " * (width - cell_len(cell))
        padded.append(space + cell if to_right else cell + space)
    return " | ".join(padded).rstrip()


def size(count: int) -> str:
    """A number of bytes as people read it."""
    amount, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount /= 1000
        units.pop(0)
    return f"{count} bytes" if units[0] == "bytes" else f"{amount:.1f} {units[0]}"


def count_of(number: int, what: str) -> str:
    """A count with its noun: 1 row, 2 rows."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
