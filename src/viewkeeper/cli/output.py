"""Printing: data to stdout in the form asked for, notes and errors to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from viewkeeper.algebra.json_values import to_json
from viewkeeper.algebra.text_tables import FIRST, Row, signed_lines, table_lines
from viewkeeper.cli.value_texts import to_csv

if TYPE_CHECKING:
    from viewkeeper.errors import ViewkeeperError
    from viewkeeper.query.result import Result
    from viewkeeper.transaction.change import Change

FORMATS = ("table", "json", "csv")


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


def tell_problem(error: ViewkeeperError) -> None:
    """Prints an error as one line of JSON, with a stable code: the document that the server answers with."""
    from viewkeeper.server.http_problems import problem_of

    sys.stderr.write(json.dumps(to_json(problem_of(error).document()), ensure_ascii=False) + "\n")


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

    from viewkeeper.algebra.result_rows import rows_of_arrow

    for batch in table.to_batches(max_chunksize=5_000):
        yield from rows_of_arrow(pa.Table.from_batches([batch]))


def print_signed(console: Console, rows: Iterable[Row], weights: Sequence[int]) -> None:
    """Prints the rows of a change, each with its sign: inserted ones green, deleted ones red."""
    for line, weight in zip(signed_lines(rows, weights), weights, strict=True):
        console.print(Text(f"  {line}", style="green" if weight > 0 else "red"), soft_wrap=True)


def print_change(title: str, change: Change, *, whole: bool = False) -> None:
    """Prints the first rows of a change under a title, or how many there are; with `whole` all of them."""
    console = stdout()
    console.print(Text(title, style="bold"), soft_wrap=True)
    if not whole and not change.is_shown:
        note(f"  about {count_of(change.stored, 'row')}; `viewkeeper changes` prints them")
        return
    rows, weights = change.first(change.rows.num_rows if whole else FIRST)
    print_signed(console, rows, weights)
    if not whole and change.rows.num_rows > FIRST:
        note(f"  ... and {change.rows.num_rows - FIRST:,} more")


def print_line(body: dict[str, Any]) -> None:
    """Prints one JSON object on one line."""
    sys.stdout.write(json.dumps(to_json(body), ensure_ascii=False) + "\n")
    sys.stdout.flush()


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
