"""GET /views/{name}/changes: a stream of frames, or the net change of a closed range of epochs, which never changes."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Annotated

import pyarrow as pa
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.catalog.relations import Relation
from viewkeeper.catalog.state import State
from viewkeeper.errors import NotFound, SqlError, ViewkeeperError
from viewkeeper.feed.followed import Followed
from viewkeeper.server.access_tokens import Access
from viewkeeper.server.calling import EVENT_STREAM, Caller, Epoch, Name, Shared, Where, answering, wants_arrow
from viewkeeper.server.frame_encoding import error_event, progress_event
from viewkeeper.server.gate import Request as Passed
from viewkeeper.server.http_problems import Problem, gone, problem_of
from viewkeeper.server.relation_documents import find_relation
from viewkeeper.server.row_conditions import condition_for
from viewkeeper.server.row_encoding import ARROW_STREAM, arrow_stream, json_bytes, updates_of
from viewkeeper.server.service import Service
from viewkeeper.server.shapes import ChangesAnswer
from viewkeeper.server.streams import Asked, Progress, Stream

router = APIRouter(prefix="/api/v1", tags=["changes"])

A_YEAR = 31_536_000


@router.get("/views/{name}/changes", **answering(ChangesAnswer, 400, 404, 410, arrow=True, events=True))
async def changes(
    name: Name,
    request: Request,
    service: Shared,
    access: Caller,
    since: Epoch = None,
    until: Epoch = None,
    where: Where = None,
    snapshot: Annotated[bool, Query(description="Of a stream: begin with all rows.")] = True,
    every: Annotated[str | None, Query(description="Of a stream: a duration, such as '5 seconds'.")] = None,
    precision: Annotated[str, Query(description="Of a stream: exact or nervous.")] = "exact",
    reset: Annotated[bool, Query(description="Of a stream: begin again if `since` is no longer kept.")] = False,
    last_event_id: Annotated[str | None, Header(description="Of a stream: go on after this epoch.")] = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """The net change after epoch `since`, up to `until` (or the newest); it never changes, and may be kept by caches.

    If the client accepts `text/event-stream`: a stream of events. `frame` has the net change of one epoch, whose number
    is its id, `progress` the epoch up to which nothing else will come. First comes a snapshot, unless Last-Event-ID or
    `since` say where to go on.
    """
    if EVENT_STREAM in request.headers.get("accept", ""):
        if last_event_id is not None and last_event_id.strip():
            since = _event_number(last_event_id)
        asked = await service.workers.read(
            lambda: asked_of(service, access, name, where, since, snapshot, every, precision, reset)
        )
        stream = await service.streams.open(asked, "sse")
        token = Passed(request.scope).token
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Vary": "Accept"}
        return StreamingResponse(_events(service, stream, token), media_type=EVENT_STREAM, headers=headers)
    arrow = wants_arrow(request)
    return await service.workers.read(
        lambda: _range(service, access, name, since, until, where, arrow, if_none_match or "")
    )


def _event_number(text: str) -> int:
    if not text.strip().isdecimal() or len(text) > 20:
        raise Problem("bad-request", "Last-Event-ID is not an epoch", hint="send the id of the last event")
    return int(text)


def asked_of(
    service: Service,
    access: Access,
    name: str,
    where: str | None,
    since: int | None,
    snapshot: bool,
    every: str | float | None,
    precision: str,
    reset: bool,
) -> Asked:
    """What a client subscribes to: a relation that its token reaches, and of it the rows it is bound to."""
    grant = access.grant(name)
    found = find_relation(service.db.store.refresh(), name, access)
    condition = condition_for(found, grant, where)
    return Asked(found.name, condition, since, snapshot, every, precision, reset)


# streams ------------------------------------------------------------------------------------------


async def _events(service: Service, stream: Stream, token: str | None) -> AsyncIterator[bytes]:
    """The events of a stream. It ends when the server stops, or when its token is dropped."""
    try:
        with service.while_known(token, stream.subscription.close):
            yield b"retry: 1000\n\n"
            while (found := await stream.next()) is not None:
                if isinstance(found, Progress):
                    yield progress_event(found.epoch)
                else:
                    yield (await service.streams.encoded(found)).sse
    except (Problem, ViewkeeperError) as problem:
        yield error_event((problem if isinstance(problem, Problem) else problem_of(problem)).document())
    finally:
        stream.close()


# ranges -------------------------------------------------------------------------------------------


def _range(
    service: Service,
    access: Access,
    name: str,
    since: int | None,
    until: int | None,
    where: str | None,
    arrow: bool,
    known: str,
) -> Response:
    if since is None:
        raise Problem(
            "bad-request",
            "`since` is missing",
            hint="add since=0 for all changes, or accept text/event-stream for a stream",
        )
    grant = access.grant(name)
    held = service.db.store.hold()
    state = held.state
    last = state.epoch if until is None else until
    if max(since, last) > state.epoch:
        raise NotFound(f"there is no epoch {max(since, last)} yet", hint=f"the newest is {state.epoch}")
    if since > last:
        raise SqlError(f"epoch {since} is after epoch {last}", hint="since is the earlier one")
    relation = _relation_at(state, name, access, last)
    condition = condition_for(relation, grant, where)
    tag = _tag(relation, since, last, condition, arrow)
    shared = "public" if access.grants is None else "private"
    headers = {
        "ETag": tag,
        "Vary": "Accept, Authorization",
        "Cache-Control": f"{shared}, max-age={A_YEAR}, immutable" if until is not None else f"{shared}, no-cache",
    }
    if tag in known or known.strip() == "*":
        return Response(status_code=304, headers=headers)
    followed = Followed(service.db.store, relation.name, relation.id)
    oldest = state.oldest_feed(relation, since)
    if relation.created <= since < oldest:
        raise gone(relation.name, since, oldest)
    if condition is not None:
        followed = followed.where(condition)
    change = followed.snapshot(held, last) if relation.created > since else followed.change(held, since, last)
    rows: pa.Table = change.rows
    most = service.limits.rows
    if rows.num_rows > most:
        raise Problem("too-many-rows", f"more than {most:,} rows changed", hint="ask for fewer epochs", limit=most)
    if arrow:
        rows = rows.rename_columns([name if name != WEIGHT else "_diff" for name in rows.column_names])
        return Response(arrow_stream(rows), media_type=ARROW_STREAM, headers=headers)
    document = {"view": relation.name, "since": since, "until": last, "updates": updates_of(rows)}
    return Response(json_bytes(document), media_type="application/json", headers=headers)


def _relation_at(state: State, name: str, access: Access, epoch: int) -> Relation:
    """The relation that had a name at an epoch, so that an answer does not depend on what was created since."""
    try:
        return find_relation(state, name, access, epoch)
    except NotFound:
        current = state.find(name)
        if current is None or current.is_hidden or not current.lives_at(epoch):
            raise
        raise gone(current.name, epoch, state.oldest_of(current, epoch)) from None


def _tag(relation: Relation, since: int, until: int, condition: str | None, arrow: bool) -> str:
    """The tag of an answer: what it depends on. A closed range never changes."""
    parts = (relation.id, since, until, condition or "", "arrow" if arrow else "json")
    return '"' + hashlib.sha256(repr(parts).encode(errors="replace")).hexdigest()[:32] + '"'
