"""The files of a path that a user names: one file, those that a pattern matches, or all files below a directory.

Folders named key=value are columns, as Hive and Spark write them. Some files of another system's table may hold deleted
rows: so Delta tables are read by `delta`, and Iceberg and Hudi tables are refused.
"""

from __future__ import annotations

import glob
import os
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from viewkeeper.errors import NotFound, StorageError, TypeMismatch
from viewkeeper.log.object_storage import ObjectStorage

ENDINGS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
"""The file name endings of each format; a compressed text file has one of `_CODECS` after it."""

DELTA = "delta"
_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class SourceFile:
    """A user's file, and the column values in the names of its folders."""

    path: str
    folders: Mapping[str, str | None] = field(default_factory=dict)
    storage: ObjectStorage | None = None
    key: str = ""

    def open(self) -> Any:
        """The bytes of the file, as an Arrow input file."""
        try:
            return pa.OSFile(self.path) if self.storage is None else pa.PythonFile(self.storage.open(self.key), "r")
        except (OSError, pa.ArrowException) as problem:
            raise unreadable(self.path, problem) from problem

    def open_text(self) -> Any:
        """The bytes of a text file, decompressed according to its name."""
        codec = _CODECS.get(os.path.splitext(self.path)[1].lower())
        return self.open() if codec is None else pa.CompressedInputStream(self.open(), codec)


@dataclass(frozen=True)
class Found:
    """The format of a path, and its files in order of their names; those of a Delta table are in its log."""

    path: str
    form: str
    files: tuple[SourceFile, ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """The columns in the names of folders."""
        return tuple(self.files[0].folders) if self.files else ()


def unreadable(path: str, problem: Exception) -> StorageError:
    """The error for a user's file that cannot be read."""
    reason = getattr(problem, "strerror", None) or str(problem).split("\n")[0].split(". Detail: ")[-1]
    return StorageError(f"{path} could not be read", detail=reason, hint="check that the file is whole and readable")


def find(path: str, form: str | None, storage_options: dict[str, str]) -> Found:
    """The files of a path and their format, by their names if it is not given."""
    if path.startswith("file://"):
        path = urllib.parse.unquote(urllib.parse.urlparse(path).path)
    names, storage = _listed(path, storage_options)
    if names is not None and _is_pattern(path):
        path = _before_pattern(path)
    if names is None:  # one file
        ending, where = form or _form_of(path), path
        if ending is None:
            raise _unknown_form(path)
        parent, _, key = where.rpartition("/")
        there = ObjectStorage(parent, storage_options) if storage is not None else None
        return Found(path, ending, (SourceFile(path, {}, there, key),))
    if _is_table(path, names) or form == DELTA:
        return Found(path, DELTA)
    wanted = [name for name in sorted(names) if not any(part.startswith(("_", ".")) for part in name.split("/"))]
    form, wanted = _of_one_form(path, form, wanted)
    base = path.rstrip("/")
    files = tuple(SourceFile(f"{base}/{name}", _folders(name), storage, name) for name in wanted)
    _check_folders(path, files)
    return Found(path, form, files)


def _listed(path: str, options: dict[str, str]) -> tuple[list[str] | None, ObjectStorage | None]:
    """The names of all files below a directory, None for a single file; and the object store it is in."""
    if "://" in path:
        storage = ObjectStorage(path, options)
        names = [item.path for item in storage.list("")]
        if names:
            return names, storage
        parent, _, key = path.rstrip("/").rpartition("/")
        if not ObjectStorage(parent, options).exists(key):
            raise _no_file(path)
        return None, storage
    if os.path.isfile(path):
        return None, None
    if _is_pattern(path):
        matched = [found for found in glob.glob(path, recursive=True) if os.path.isfile(found)]
        if not matched:
            raise NotFound(f"no file matches {path}", hint="check the pattern: * is any name, ** any folders")
        return [os.path.relpath(found, _before_pattern(path)) for found in matched], None
    if not os.path.isdir(path):
        raise _no_file(path)
    _refuse_part_of_table(path)

    def refuse(problem: OSError) -> None:
        raise unreadable(problem.filename or path, problem) from problem

    walked = [
        os.path.relpath(os.path.join(folder, name), path)
        for folder, _, names in os.walk(path, onerror=refuse, followlinks=True)
        for name in names
    ]
    return walked, None


def _is_pattern(path: str) -> bool:
    """Whether a path is a pattern that files match; one that is the name of a file or directory is not."""
    return "://" not in path and glob.has_magic(path) and not os.path.exists(path)


def _before_pattern(path: str) -> str:
    """The folder that a pattern begins with."""
    folder = path
    while glob.has_magic(folder):
        folder = os.path.dirname(folder)
    return folder or "."


def _no_file(path: str) -> NotFound:
    return NotFound(f"there is no file {path}", hint="check the path; it is relative to the current directory")


# tables of other systems ------------------------------------------------------------------------


def _is_table(path: str, names: Sequence[str]) -> bool:
    """Whether a directory is a Delta table; raises if it contains one, or is or contains an Iceberg or Hudi table."""
    for name in names:
        folders, last = name.split("/")[:-1], name.split("/")[-1]
        if "_delta_log" in folders and folders[0] != "_delta_log":
            inner = "/".join(folders[: folders.index("_delta_log")])
            raise TypeMismatch(
                f"{path} holds the Delta table {inner}", hint=f"load the tables one by one: {path.rstrip('/')}/{inner}"
            )
        if ".hoodie" in folders:
            raise _foreign(path, "a Hudi table")
        if folders[-1:] == ["metadata"] and last.endswith(".metadata.json"):
            raise _foreign(path, "an Iceberg table")
    return any(name.startswith("_delta_log/") for name in names)


def _foreign(path: str, what: str) -> TypeMismatch:
    return TypeMismatch(
        f"{path} is {what}, which cannot be loaded",
        detail="its files hold deleted rows too, so they are not read one by one",
        hint="export its rows as Parquet files to another directory, and load that",
    )


def _refuse_part_of_table(path: str) -> None:
    """Refuses a folder inside a Delta table: its files may hold rows that the table has deleted."""
    above = os.path.abspath(path)
    while (parent := os.path.dirname(above)) != above:
        if os.path.isdir(os.path.join(parent, "_delta_log")):
            raise TypeMismatch(
                f"{path} is a folder of the Delta table {parent}",
                detail="its files may hold rows that the table has deleted",
                hint=f"load the table: {parent}",
            )
        above = parent


# formats ----------------------------------------------------------------------------------------


def _form_of(name: str) -> str | None:
    stem, ending = os.path.splitext(name.rstrip("/").lower())
    known = ENDINGS.get(os.path.splitext(stem)[1] if ending in _CODECS else ending)
    return None if known == "parquet" and ending in _CODECS else known


def _unknown_form(path: str) -> TypeMismatch:
    return TypeMismatch(
        f"the format of {path} is not known from its name", hint="say it: --format parquet|csv|json (format= in Python)"
    )


def _of_one_form(path: str, form: str | None, names: list[str]) -> tuple[str, list[str]]:
    """The format of a directory's files, and the files with its ending; all files if none has it."""
    forms = {name: _form_of(name) for name in names}
    known = sorted({each for each in forms.values() if each is not None})
    if form is None:
        if len(known) > 1:
            raise TypeMismatch(
                f"{path} holds files of several formats: {', '.join(known)}",
                hint="say which to load: --format parquet|csv|json (format= in Python)",
            )
        if not known:
            raise _unknown_form(path)
        form = known[0]
    return form, [name for name in names if forms[name] == form] or names


def _folders(name: str) -> dict[str, str | None]:
    """The columns of folders named key=value, with their values."""
    pairs = [part.partition("=") for part in name.split("/")[:-1] if "=" in part]
    values = {urllib.parse.unquote(key): urllib.parse.unquote(value) for key, _, value in pairs}
    return {key: None if value == _NO_VALUE else value for key, value in values.items()}


def _check_folders(path: str, files: Sequence[SourceFile]) -> None:
    kinds = {tuple(file.folders) for file in files}
    if len(kinds) > 1:
        shown = " and ".join(repr("/".join(f"{key}=..." for key in kind)) for kind in sorted(kinds)[:2])
        raise TypeMismatch(
            f"the folders of {path} do not have the same columns: {shown}", hint="load the folders one by one"
        )
