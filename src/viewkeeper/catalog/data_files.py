"""Data files, as the ledger names them.

The batch of a small commit has no file of its own: it is part of the ledger entry, and its path is that of the entry
with the position of the batch in the entry's data, as in `ledger/000000000007.json#64`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from viewkeeper.algebra.schema import Schema
from viewkeeper.catalog import column_bounds
from viewkeeper.catalog.column_bounds import Bound


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of signed rows that the ledger names, or a batch inside a ledger entry (*inlined*).

    A file written by an old version has no checksum.
    """

    path: str
    rows: int
    size: int
    low_weight: int
    high_weight: int
    bounds: Mapping[str, Bound] = field(hash=False)
    first_epoch: int = 0
    last_epoch: int = 0
    merged: bool = False
    checksum: str | None = None

    @cached_property
    def is_inlined(self) -> bool:
        """Whether its rows are inside a ledger entry."""
        return is_inlined(self.path)

    def since(self, epoch: int) -> DataFile:
        """A file of the commit that makes an epoch: its rows have that number."""
        return self if self.first_epoch else replace(self, first_epoch=epoch, last_epoch=epoch)

    def to_json(self, schema: Schema) -> dict[str, Any]:
        """For the ledger. A commit's own files get their epoch from the entry."""
        body: dict[str, Any] = {
            "path": self.path,
            "rows": self.rows,
            "size": self.size,
            "weights": [self.low_weight, self.high_weight],
            "bounds": column_bounds.encode(self.bounds, schema),
        }
        if self.first_epoch:
            body["epochs"] = [self.first_epoch, self.last_epoch]
        if self.merged:
            body["merged"] = True
        if self.checksum is not None:
            body["crc32"] = self.checksum
        return body

    @staticmethod
    def from_json(body: dict[str, Any], schema: Schema, epoch: int) -> DataFile:
        """The inverse of to_json; `epoch` is that of the entry that names the file."""
        first, last = body.get("epochs", (epoch, epoch))
        low, high = body["weights"]
        return DataFile(
            body["path"],
            body["rows"],
            body["size"],
            low,
            high,
            column_bounds.decode(body["bounds"], schema),
            first,
            last,
            body.get("merged", False),
            body.get("crc32"),
        )


def is_inlined(path: str) -> bool:
    """Whether a path is that of a batch inside a ledger entry."""
    return "#" in path


def place_of(path: str) -> tuple[str, int]:
    """The ledger entry with an inlined batch, and the position of the batch in the entry's data."""
    entry, _, position = path.partition("#")
    return entry, int(position)
