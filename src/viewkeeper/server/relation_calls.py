"""Calls about relations: tables, views, one of them in full, its rows, and the graph."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from viewkeeper.algebra.types import quote
from viewkeeper.errors import NotFound, ViewkeeperError
from viewkeeper.server.access_tokens import READ, Access
from viewkeeper.server.calling import Caller, Epoch, Name, Shared, Where, answering, json_answer, wants_arrow
from viewkeeper.server.http_problems import Problem, gone
from viewkeeper.server.relation_documents import (
    find_relation,
    graph_document,
    relation_document,
    tables_document,
    views_document,
)
from viewkeeper.server.row_conditions import condition_for
from viewkeeper.server.row_encoding import ARROW_STREAM, arrow_stream, column_documents, json_rows
from viewkeeper.server.service import Service
from viewkeeper.server.shapes import GraphAnswer, RelationAnswer, RowsAnswer, TableList, ViewList

router = APIRouter(prefix="/api/v1", tags=["relations"])


@router.get("/tables", **answering(TableList))
async def tables(service: Shared, access: Caller) -> Response:
    """The tables: columns, key, number of rows and size, and when each was changed last."""
    access.need(READ)
    return await service.workers.read(
        lambda: json_answer(tables_document(service.db.store.refresh(), service.counts, access))
    )


@router.get("/views", **answering(ViewList))
async def views(service: Shared, access: Caller) -> Response:
    """The views, virtual and materialized: as tables, and how many epochs each is behind."""
    access.need(READ)
    return await service.workers.read(
        lambda: json_answer(views_document(service.db.store.refresh(), service.counts, access))
    )


@router.get("/graph", **answering(GraphAnswer))
async def graph(service: Shared, access: Caller) -> Response:
    """The dependency graph: which relation a change of another reaches."""
    access.need_everything("the graph")
    return await service.workers.read(lambda: json_answer(graph_document(service.db.store.refresh())))


@router.get("/views/{name}", **answering(RelationAnswer, 404))
async def relation(name: Name, service: Shared, access: Caller) -> Response:
    """Everything about one table, view or assertion: definition, columns, keys, lag, options, analysis and plan."""
    return await service.workers.read(lambda: json_answer(relation_document(service.db, name, access)))


@router.get("/views/{name}/rows", **answering(RowsAnswer, 400, 404, 410, arrow=True))
async def rows(
    name: Name,
    request: Request,
    service: Shared,
    access: Caller,
    as_of: Epoch = None,
    limit: Annotated[int | None, Query(ge=0, le=10_000_000, description="The most rows to answer.")] = None,
    where: Where = None,
) -> Response:
    """Rows of a relation, now or at an epoch; as JSON, or as an Arrow stream if the client accepts one."""
    arrow = wants_arrow(request)
    return await service.workers.read(lambda: _rows(service, access, name, as_of, limit, where, arrow))


def _rows(
    service: Service, access: Access, name: str, as_of: int | None, limit: int | None, where: str | None, arrow: bool
) -> Response:
    most = service.limits.rows
    if limit is not None and limit > most:
        raise Problem(
            "too-many-rows",
            f"at most {most:,} rows are answered at once",
            hint="ask for fewer, or have the server started with a larger --max-rows",
            limit=most,
        )
    count = most if limit is None else limit
    query = rows_query(service, access, name, as_of, where)
    try:
        result = service.db.sql(query)
        table = result.head(count + 1)
    except ViewkeeperError as problem:
        problem.place = None  # in a text that the client has not seen
        raise
    epoch = as_of if as_of is not None else result.state.epoch if result.state is not None else service.db.epoch
    more = table.num_rows > count
    table = table.slice(0, count)
    if arrow:
        headers = {"X-Viewkeeper-Epoch": str(epoch), "X-Viewkeeper-More": str(more).lower(), "Vary": "Accept"}
        headers["Cache-Control"] = "no-store"
        return Response(arrow_stream(table), media_type=ARROW_STREAM, headers=headers)
    document = {"epoch": epoch, "columns": column_documents(table.schema), "rows": json_rows(table), "more": more}
    return json_answer(document, {"Vary": "Accept"})


def rows_query(service: Service, access: Access, name: str, as_of: int | None, where: str | None) -> str:
    """The query of the rows that a client asks for, of those that its token reaches."""
    state = service.db.store.refresh()
    grant = access.grant(name)
    if as_of is not None and as_of > state.epoch:
        raise NotFound(f"there is no epoch {as_of} yet", hint=f"the newest is {state.epoch}")
    current = state.find(name)
    if as_of is not None and current is not None and not current.is_hidden and as_of < state.oldest_of(current, as_of):
        raise gone(current.name, as_of, state.oldest_of(current, as_of))
    found = find_relation(state, name, access, as_of)
    condition = condition_for(found, grant, where)
    suffix = "" if as_of is None else f" AS OF EPOCH {as_of}"
    return f"SELECT * FROM {quote(found.name)}{'' if condition is None else f' WHERE {condition}'}{suffix}"
