"""Delta tables: the files of the newest version, with the values of their partition columns.

delta-rs reads the log. The rows are read from the files directly, because delta-rs's own readers sometimes abort the
process at its exit. Features that the files do not contain (deletion vectors, renamed columns) are refused by name.
"""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from viewkeeper.errors import StorageError, TypeMismatch
from viewkeeper.log.object_storage import ObjectStorage
from viewkeeper.sources.files import SourceFile

_READ = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""Features of Delta that change nothing about which rows a file holds."""

_FEATURES = {
    "deletionVectors": "rewrite its files first: REORG TABLE t APPLY (PURGE), then drop the feature deletionVectors",
    "columnMapping": "export its rows as Parquet files to another directory, and load that",
}


@dataclass(frozen=True)
class DeltaFiles:
    """The newest version of a Delta table: its columns, its files, and the partition values of each file."""

    version: int
    schema: pa.Schema
    files: tuple[SourceFile, ...]
    constants: tuple[Mapping[str, Any], ...]


def delta_files(path: str, storage_options: dict[str, str]) -> DeltaFiles:
    """The files of the newest version of a Delta table."""
    try:
        table = DeltaTable(path, storage_options=storage_options if "://" in path else None)
        actions = pa.table(table.get_add_actions(flatten=False))
        schema = pa.schema(table.schema().to_arrow())
    except (DeltaError, OSError) as problem:
        raise StorageError(
            f"{path} cannot be read as a Delta table",
            detail=str(problem).split("\n")[0][:300],
            hint="check its _delta_log; a newer Delta feature may be in use",
        ) from problem
    _check(path, table)
    storage = ObjectStorage(path, storage_options) if "://" in path else None
    files = tuple(_file(path, each, storage) for each in actions["path"].to_pylist())
    partitioned = "partition" in actions.column_names
    constants = actions["partition"].to_pylist() if partitioned else [{}] * len(files)
    return DeltaFiles(table.version(), schema, files, tuple(constants))


def _check(path: str, table: DeltaTable) -> None:
    """Refuses features under which a file's rows are not the table's rows."""
    used = set(table.protocol().reader_features or ()) - _READ
    if (table.metadata().configuration or {}).get("delta.columnMapping.mode", "none") != "none":
        used.add("columnMapping")
    for feature in sorted(used):
        raise TypeMismatch(
            f"the Delta table {path} uses {feature}, which is not supported",
            hint=_FEATURES.get(feature, _FEATURES["columnMapping"]),
        )


def _file(path: str, relative: str, storage: ObjectStorage | None) -> SourceFile:
    if "://" in relative or relative.startswith("/"):
        raise TypeMismatch(
            f"the Delta table {path} has files outside its directory: {relative}",
            hint="copy the table in full, not as a shallow clone",
        )
    name = urllib.parse.unquote(relative)  # names are URL-encoded in the log
    full = f"{path.rstrip('/')}/{name}" if storage is not None else os.path.join(path, name)
    return SourceFile(full, {}, storage, name)
