"""The shapes of requests and answers, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class SqlCall(BaseModel):
    """Statements to run, or to preview."""

    sql: str = Field(description="One or several statements, separated by semicolons.")
    preview: bool = Field(False, description="Commit nothing; say what a commit would change.")


class Counts(BaseModel):
    """How many rows a change inserts and deletes; null where it is not known."""

    inserted: int | None
    deleted: int | None


class PreviewedChange(Counts):
    """The change of one relation, with its first rows."""

    updates: list[Update]


class Update(BaseModel):
    """A row and by how much its multiplicity changes."""

    row: list[Any]
    diff: int


class ResultColumn(BaseModel):
    """A column of a result."""

    name: str
    type: str


class RelationColumn(ResultColumn):
    """A column of a relation."""

    nullable: bool


class ReportedChange(BaseModel):
    """How one relation was changed."""

    strategy: str
    reason: str
    milliseconds: float | None
    rows_changed: int | None


class MadeCommit(BaseModel):
    """The commit of a statement."""

    epoch: int
    committed_at: str
    changes: dict[str, Counts]
    report: dict[str, ReportedChange]
    rules: list[str]
    warnings: list[str]


class FiringRule(BaseModel):
    """A rule that would fire, and for how many rows."""

    rule: str
    rows: int


class BrokenAssertion(BaseModel):
    """An assertion that would be violated, with some of the rows."""

    assertion: str
    rows: list[list[Any]]
    message: str


class PreviewedCommit(BaseModel):
    """What a commit would change."""

    changes: dict[str, PreviewedChange]
    rules: list[FiringRule]
    assertions: list[BrokenAssertion]


class SqlAnswer(BaseModel):
    """The rows of the last statement, and the last commit."""

    columns: list[ResultColumn]
    rows: list[list[Any]]
    commit: MadeCommit | None
    preview: PreviewedCommit | None
    count: int | None
    remarks: list[str]


class ListedRelation(BaseModel):
    """A table in a list."""

    name: str
    kind: str
    columns: list[RelationColumn]
    key: list[str]
    rows: int | None
    bytes: int
    last_change: int | None
    last_changed_at: str | None


class ListedView(ListedRelation):
    """A view in a list; `lag` is the number of epochs it is behind."""

    lag: int
    stale_since: int | None
    materialized: bool
    language: str


class TableList(BaseModel):
    """The tables."""

    epoch: int
    tables: list[ListedRelation]


class ViewList(BaseModel):
    """The views."""

    epoch: int
    views: list[ListedView]


class RelationAnswer(BaseModel):
    """Everything about a table, view or assertion; null for who reaches single relations only."""

    name: str
    kind: str
    definition: str | None
    language: str
    columns: list[RelationColumn]
    keys: list[list[str]]
    lag: int
    options: dict[str, Any]
    analysis: str | None
    plan: str | None
    reads: list[str]
    readers: list[str]
    epoch: int
    oldest: int


class RowsAnswer(BaseModel):
    """Rows of a relation at an epoch; `more` if there are others."""

    epoch: int
    columns: list[ResultColumn]
    rows: list[list[Any]]
    more: bool


class ChangesAnswer(BaseModel):
    """The net change of a relation after one epoch, up to another."""

    view: str
    since: int
    until: int
    updates: list[Update]


class ListedRule(BaseModel):
    """An active rule."""

    name: str
    watched: str
    when: str
    coupling: str
    priority: int
    enabled: bool
    action: str
    definition: str


class RuleFiring(BaseModel):
    """A firing of a rule."""

    epoch: int
    rule: str
    rows: int
    milliseconds: float | None
    outcome: str


class RuleList(BaseModel):
    """The rules, and their newest firings."""

    rules: list[ListedRule]
    firings: list[RuleFiring]


class ListedAssertion(BaseModel):
    """An assertion, with some of the rows that violate it now."""

    name: str
    condition: str
    violation: str
    violating: int
    columns: list[ResultColumn]
    rows: list[list[Any]]


class AssertionList(BaseModel):
    """The assertions."""

    assertions: list[ListedAssertion]


class ListedCommit(BaseModel):
    """A commit of the history."""

    epoch: int
    committed_at: str | None
    changes: dict[str, Counts]
    created: list[str]
    dropped: list[str]
    rules: list[str]
    report: dict[str, ReportedChange]
    milliseconds: float | None


class CommitList(BaseModel):
    """Commits, newest first."""

    commits: list[ListedCommit]


class GraphNode(BaseModel):
    """A relation or rule; everything is on a higher level than what it reads."""

    name: str
    kind: str
    level: int


class GraphEdge(BaseModel):
    """A change of `from` reaches `to`."""

    from_: str = Field(alias="from")
    to: str


class GraphAnswer(BaseModel):
    """The dependency graph."""

    epoch: int
    nodes: list[GraphNode]
    edges: list[GraphEdge]


class Health(BaseModel):
    """Whether the server is alive, or ready."""

    status: str
    failing: list[str] = []


class PlaceInText(BaseModel):
    """A position in the text that was sent."""

    line: int
    column: int
    text: str
    length: int


class ProblemAnswer(BaseModel):
    """A problem (RFC 9457). `code` is stable; `detail` says what is wrong, `hint` what to do."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    hint: str | None = None
    place: PlaceInText | None = None


PreviewedChange.model_rebuild()
