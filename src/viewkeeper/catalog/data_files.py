"""Data files, as the ledger names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from viewkeeper.algebra.schema import Schema
from viewkeeper.catalog import column_bounds
from viewkeeper.catalog.column_bounds import Bound


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of signed rows that the ledger names. A file written by an old version has no checksum."""

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
