"""Statements of a call: run, or previewed; the answer as JSON or Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from viewkeeper.api.database import Database
from viewkeeper.query.result import Result
from viewkeeper.server.commit_documents import commit_document, counted
from viewkeeper.server.http_problems import Problem
from viewkeeper.server.row_counts import RowCounts
from viewkeeper.server.row_encoding import column_documents, json_rows, updates_of

PREVIEWED = 20
"""Rows of each change that a preview shows."""


@dataclass(frozen=True)
class Answer:
    """The rows of the last statement, the last commit, and other things to say."""

    table: pa.Table | None
    commit: dict[str, Any] | None
    preview: dict[str, Any] | None = None
    count: int | None = None
    remarks: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "columns": [] if self.table is None else column_documents(self.table.schema),
            "rows": [] if self.table is None else json_rows(self.table),
            "commit": self.commit,
            "preview": self.preview,
            "count": self.count,
            "remarks": list(self.remarks),
        }


@dataclass(frozen=True)
class StatementRuns:
    """Runs the statements of calls on a database; at most `rows` rows are answered."""

    db: Database
    rows: int
    counts: RowCounts

    def run(self, text: str) -> Answer:
        """Runs statements one after the other. A transaction that they leave open is rolled back."""
        result, commit = Result(), None
        results = self.db.script(text)
        try:
            while True:
                found = next(results, None)
                if found is None:
                    break
                result = found
                if result.commit is not None:
                    commit = result.commit
            if self.db.in_transaction:
                raise Problem(
                    "transaction-left-open",
                    "the statements begin a transaction and do not end it: it was rolled back",
                    hint="send BEGIN; ... COMMIT; in one request",
                )
        finally:
            if self.db.in_transaction:
                self.db.sql("ROLLBACK")
        done = None if commit is None else commit_document(commit, self.db.store.state, self.counts)
        return Answer(self._rows_of(result), done, None, result.count, tuple(result.remarks))

    def preview(self, text: str) -> Answer:
        """Runs statements in a transaction that is rolled back; says what their commit would change."""
        tx = self.db.transaction()
        try:
            result = tx.sql(text)
            table = self._rows_of(result)
            found = tx.preview()
            changes = {
                name: {**counted(change), "updates": updates_of(change.rows.slice(0, PREVIEWED))}
                for name, change in found.items()
                if change.rows.num_rows
            }
            preview = {
                "changes": changes,
                "rules": [{"rule": name, "rows": rows} for name, rows in found.firings],
                "assertions": [
                    {"assertion": name, "rows": json_rows(rows.slice(0, PREVIEWED)), "message": said}
                    for (name, rows), said in zip(found.violating.items(), found.assertions, strict=True)
                ],
            }
            return Answer(table, None, preview, result.count, tuple(result.remarks))
        finally:
            tx.rollback()

    def _rows_of(self, result: Result) -> pa.Table | None:
        if not result.has_rows:
            return None
        table = result.head(self.rows + 1)
        if table.num_rows > self.rows:
            raise Problem(
                "too-many-rows",
                f"the answer has more than {self.rows:,} rows",
                hint=f"add LIMIT {self.rows}, or have the server started with a larger --max-rows",
                limit=self.rows,
            )
        return table
