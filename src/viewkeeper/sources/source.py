"""A path that a user names, as rows of a table: Parquet, CSV, JSON or Delta, one file or many.

Columns are matched by name, file by file. Rows are read in batches, cast to the table's types, so that memory stays
bounded; an error names the file and the line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from itertools import islice
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.cast import cast_array, cast_table, match_names
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.text_values import Guess, Unreadable, read_texts
from viewkeeper.algebra.types import type_of_arrow
from viewkeeper.algebra.values import rows_to_arrow
from viewkeeper.errors import TypeMismatch
from viewkeeper.sources.csv_files import CsvFile, dialect_of
from viewkeeper.sources.files import DELTA, Found, SourceFile, find
from viewkeeper.sources.json_files import ROWS, JsonColumns, json_rows
from viewkeeper.sources.parquet_files import parquet_batches, parquet_schema

Columns = list[tuple[str, str]]


def open_source(path: str, form: str | None, options: Mapping[str, str], storage_options: dict[str, str]) -> Source:
    """The source at a path, with the options of its format."""
    found = find(path, form, storage_options)
    if found.form == "csv":
        return CsvSource(found, options)
    if options:
        name = next(iter(options))
        raise TypeMismatch(f"the option {name} = {options[name]} is for CSV files, {path} is {found.form}")
    if found.form == "json":
        return JsonSource(found)
    return DeltaSource(found, storage_options) if found.form == DELTA else ParquetSource(found)


class Source:
    """External rows. `columns` describes a new table for them, `tables` returns them as rows of a table."""

    def __init__(self, found: Found) -> None:
        self.found = found

    @property
    def path(self) -> str:
        """The path that the user named."""
        return self.found.path

    def columns(self, zone: str) -> Columns:
        """Names and types for a new table with these rows."""
        raise NotImplementedError

    def tables(self, schema: Schema, relation: str, zone: str) -> Iterator[pa.Table]:
        """The rows in batches, as the columns of a table."""
        raise NotImplementedError

    def plain_files(self) -> list[SourceFile] | None:
        """The files, if they are Parquet files with the same columns, which every engine can read; else None."""
        return None

    def _folder_columns(self, zone: str) -> Columns:
        """Columns in the names of folders, with a type that all their values can be read as."""
        guesses = {name: Guess(zone) for name in self.found.folders}
        for name, guess in guesses.items():
            guess.see(pa.array([file.folders[name] for file in self.found.files], pa.string()))
        return [(name, guess.type) for name, guess in guesses.items()]


def _check_names(names: list[str], folders: Mapping[str, Any], path: str) -> None:
    both = {name.lower() for name in names} & {name.lower() for name in folders}
    if both:
        raise TypeMismatch(
            f"the column '{min(both)}' is in {path} and in the name of its folder", hint="load the file alone"
        )


class CsvSource(Source):
    """CSV files: all values are text."""

    def __init__(self, found: Found, options: Mapping[str, str]) -> None:
        super().__init__(found)
        self._dialect = dialect_of(options)

    def _files(self) -> Iterator[CsvFile]:
        for file in self.found.files:
            opened = CsvFile(file, self._dialect)
            if opened.is_empty and len(self.found.files) == 1:
                raise TypeMismatch(f"{file.path} is empty", hint="a CSV file needs a header line with column names")
            if not opened.is_empty:
                _check_names(opened.names, file.folders, file.path)
                yield opened

    def columns(self, zone: str) -> Columns:
        """Types that all values of a column can be read as; this reads all files once."""
        guesses: dict[str, Guess] = {}
        for file in self._files():
            _no_names_twice(file.names, file.file.path)
            for batch in file.batches():
                for name, texts in zip(file.names, batch.columns, strict=True):
                    guesses.setdefault(name, Guess(zone)).see(texts)
            for name in file.names:
                guesses.setdefault(name, Guess(zone))
        return [*((name, guess.type) for name, guess in guesses.items()), *self._folder_columns(zone)]

    def tables(self, schema: Schema, relation: str, zone: str) -> Iterator[pa.Table]:
        """The rows; columns are matched by position where there is no header."""
        for file in self._files():
            order = self._order(file, schema, relation)
            seen = 0
            for batch in file.batches():
                constants = [pa.array([value] * batch.num_rows, pa.string()) for value in file.file.folders.values()]
                given = [*batch.columns, *constants]
                place = partial(_place, file, seen)
                yield _read_columns(given, order, batch.num_rows, schema, relation, zone, place)
                seen += batch.num_rows

    def _order(self, file: CsvFile, schema: Schema, relation: str) -> list[int | None]:
        if self._dialect.header:
            return match_names([*file.names, *file.file.folders], schema, relation)
        if len(file.names) > len(schema):
            raise TypeMismatch(
                f"{file.file.path} has {len(file.names)} columns, {relation} has {len(schema)}",
                hint=f"its columns are {', '.join(schema.names)}",
            )
        return [index if index < len(file.names) else None for index in range(len(schema))]


def _place(file: CsvFile, seen: int, index: int) -> str:
    return file.place_of(seen + index)


def _no_names_twice(names: list[str], path: str) -> None:
    lowered = [name.lower() for name in names]
    for name in names:
        if lowered.count(name.lower()) > 1:
            raise TypeMismatch(f"{path} has two columns named '{name}'", hint="names are compared without case")


def _read_columns(
    given: list[pa.Array],
    order: list[int | None],
    rows: int,
    schema: Schema,
    relation: str,
    zone: str,
    place: Callable[[int], str],
) -> pa.Table:
    """Columns of text as the columns of a table; the error shows the first text that does not fit, and its position."""
    arrays: list[pa.Array] = []
    worst: tuple[Unreadable, Column] | None = None
    for index, column in zip(order, schema, strict=True):
        try:
            texts = pa.nulls(rows, pa.string()) if index is None else given[index]
            arrays.append(cast_array(read_texts(texts, column.type, zone), column.type, zone))
        except Unreadable as problem:
            if worst is None or problem.index < worst[0].index:
                worst = problem, column
    if worst is not None:
        bad, column = worst
        raise TypeMismatch(
            f"{bad.text!r} does not fit column '{column.name}' of {relation}, which is {column.type}",
            detail=f"in {place(bad.index)}: {bad.why}",
        )
    return pa.table(arrays, schema=schema.arrow)


class JsonSource(Source):
    """JSON files: one object per line."""

    def columns(self, zone: str) -> Columns:
        """Types for all values of a name; this reads all files once."""
        found = JsonColumns()
        for file in self.found.files:
            for line, row in json_rows(file):
                found.see(row, f"line {line} of {file.path}")
        return [*found.columns(), *self._folder_columns(zone)]

    def tables(self, schema: Schema, relation: str, zone: str) -> Iterator[pa.Table]:
        """The rows, with the columns in the names of folders."""
        for file in self.found.files:
            constants = _folder_values(file, schema, zone)
            objects = json_rows(file)
            while chunk := list(islice(objects, ROWS)):
                lines = [line for line, _ in chunk]
                rows = (row | constants for _, row in chunk)
                yield rows_to_arrow(rows, schema, relation, zone, partial(_line, file, lines))


def _line(file: SourceFile, lines: list[int], row: int) -> str:
    return f"line {lines[row - 1]} of {file.path}"


def _folder_values(file: SourceFile, schema: Schema, zone: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, text in file.folders.items():
        column = schema.find(name)
        values[name] = text
        if column is not None and text is not None:
            try:
                values[name] = read_texts(pa.array([text]), column.type, zone)[0].as_py()
            except Unreadable as problem:
                raise TypeMismatch(
                    f"{text!r} does not fit column '{column.name}', which is {column.type}",
                    detail=f"in the name of a folder of {file.path}: {problem.why}",
                ) from None
    return values


class ParquetSource(Source):
    """Parquet files; folders named key=value are columns."""

    @cached_property
    def _schemas(self) -> list[pa.Schema]:
        return [parquet_schema(file) for file in self.found.files]

    def columns(self, zone: str) -> Columns:
        """The columns of all files; a name has one type in all of them."""
        found: dict[str, str] = {}
        for file, schema in zip(self.found.files, self._schemas, strict=True):
            for field in schema:
                kind = type_of_arrow(field.type).ddl
                if found.setdefault(field.name, kind) != kind:
                    raise TypeMismatch(
                        f"the column '{field.name}' has several types: {found[field.name].upper()} and {kind.upper()}",
                        detail=f"the second is in {file.path}",
                        hint="create the table with the type you want, then load",
                    )
        return [*found.items(), *self._folder_columns(zone)]

    def plain_files(self) -> list[SourceFile] | None:
        """The files, if all have the same columns and folders add none; else None."""
        if self.found.folders or any(schema != self._schemas[0] for schema in self._schemas):
            return None
        return list(self.found.files)

    def tables(self, schema: Schema, relation: str, zone: str) -> Iterator[pa.Table]:
        """The rows, file by file."""
        for file in self.found.files:
            constants = _folder_values(file, schema, zone)
            columns = ((name, schema.find(name)) for name in constants)
            kinds = pa.schema([(name, column.type.arrow if column else pa.string()) for name, column in columns])
            yield from _by_name(parquet_batches(file, constants, kinds), schema, relation, zone)


def _by_name(tables: Iterator[pa.Table], schema: Schema, relation: str, zone: str) -> Iterator[pa.Table]:
    for table in tables:
        order = match_names(table.column_names, schema, relation)
        arrays = [pa.nulls(table.num_rows) if index is None else table.column(index) for index in order]
        yield cast_table(pa.table(arrays, names=schema.names), schema, relation, zone)


class DeltaSource(Source):
    """A Delta table at its newest version."""

    def __init__(self, found: Found, storage_options: dict[str, str]) -> None:
        super().__init__(found)
        from viewkeeper.sources.delta import delta_files  # a large library, for Delta tables only

        self._table = delta_files(found.path, storage_options)

    def columns(self, zone: str) -> Columns:
        """The table's own columns."""
        return [(field.name, type_of_arrow(field.type).ddl) for field in self._table.schema]

    def plain_files(self) -> list[SourceFile] | None:
        """The files, if they have all columns of the table, none of them a partition column; else None."""
        wanted = self._table.schema.names
        files = self._table.files
        schemas = [parquet_schema(file) for file in files]
        same = all(schema == schemas[0] for schema in schemas) and bool(schemas) and schemas[0].names == wanted
        return list(files) if same else None

    def tables(self, schema: Schema, relation: str, zone: str) -> Iterator[pa.Table]:
        """The rows of the table's files, with their partition values."""
        for file, constants in zip(self._table.files, self._table.constants, strict=True):
            rows = parquet_batches(file, constants, self._table.schema)
            yield from _by_name(rows, schema, relation, zone)
