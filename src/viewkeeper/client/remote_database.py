"""A database behind a server, as a client holds it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.result_rows import ResultRows
from viewkeeper.client.http_calls import Calls
from viewkeeper.client.remote_subscription import RemoteSubscription
from viewkeeper.client.row_decoding import schema_from

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"


def connect(url: str, token: str | None = None, *, timeout: float = 60.0) -> RemoteDatabase:
    """The database that a server at an address serves. `timeout`: seconds to wait for an answer."""
    return RemoteDatabase(Calls(url, token, timeout))


@dataclass(frozen=True)
class RemoteCommit:
    """A commit: `changes` counts the inserted and deleted rows of each relation."""

    epoch: int
    committed_at: dt.datetime | None = None
    changes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class RemoteResult(ResultRows):
    """Rows with column names, and the commit of a statement that changed data."""

    def __init__(self, table: pa.Table, commit: RemoteCommit | None, document: Mapping[str, Any]) -> None:
        self._table = table
        self.commit = commit
        self.count: int | None = document.get("count")
        self.remarks: list[str] = list(document.get("remarks", ()))
        self.preview: Mapping[str, Any] | None = document.get("preview")

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table, duplicates repeated."""
        return self._table


class RemoteDatabase:
    """A database behind a server."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._calls.url

    def sql(self, text: str, *, preview: bool = False) -> RemoteResult:
        """Runs one or several statements and returns the last result. With `preview` nothing is committed."""
        body = {"sql": text, "preview": preview}
        kind, answer, headers = self._calls.call("POST", self._calls.path("sql"), f"{ARROW}, {JSON};q=0.9", body)
        if kind == ARROW:
            epoch = {name.lower(): value for name, value in headers.items()}.get("x-viewkeeper-epoch")
            return RemoteResult(_table(answer), None if epoch is None else RemoteCommit(int(epoch)), {})
        document = json.loads(answer)
        return RemoteResult(pa.table({}), _commit(document.get("commit")), document)

    def read(self, view: str, *, as_of: int | None = None, where: str | None = None) -> pa.Table:
        """The rows of a table or view, now or at an epoch, as an Arrow table."""
        path = self._calls.path("views", view, "rows", as_of=as_of, where=where)
        return _table(self._calls.call("GET", path, ARROW)[1])

    def changes(self, view: str, since: int, until: int, *, where: str | None = None) -> pa.Table:
        """The net change of a closed range of epochs: the columns, and `_diff`."""
        path = self._calls.path("views", view, "changes", since=since, until=until, where=where)
        return _table(self._calls.call("GET", path, ARROW)[1])

    def describe(self, view: str) -> dict[str, Any]:
        """Columns, keys, definition and plan of a table or view."""
        document: dict[str, Any] = json.loads(self._calls.call("GET", self._calls.path("views", view), JSON)[1])
        return document

    def subscribe(
        self,
        view: str,
        since: int | None = None,
        snapshot: bool = True,
        every: str | float | None = None,
        precision: str = "exact",
        *,
        where: str | None = None,
        reset: bool = False,
    ) -> RemoteSubscription:
        """Frames of a table or view, as Database.subscribe has them; a broken connection is resumed by itself."""
        described = self.describe(view)
        schema = schema_from(described["columns"])
        if since is None and not snapshot:
            since = described["epoch"]  # the stream is asked for later, by a thread
        asked = {"snapshot": snapshot, "every": every, "precision": precision, "where": where, "reset": reset}
        return RemoteSubscription(self._calls, view, schema, since, asked)


def _table(body: bytes) -> pa.Table:
    with pa.ipc.open_stream(body) as reader:
        return reader.read_all()


def _commit(document: Mapping[str, Any] | None) -> RemoteCommit | None:
    if document is None:
        return None
    at = document.get("committed_at")
    return RemoteCommit(
        document["epoch"],
        None if at is None else dt.datetime.fromisoformat(at),
        document.get("changes", {}),
        tuple(document.get("rules", ())),
        tuple(document.get("warnings", ())),
    )
