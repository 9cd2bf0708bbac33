"""GET /v1/shape: the shape protocol of ElectricSQL, so that its clients follow tables and views.

A client begins at offset -1 and gets all rows; then it asks for what came after its offset, and waits with live=true.
An offset is an epoch, written <epoch>_0: every answer ends with a closed epoch. docs/electric.md has the protocol.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from viewkeeper.api.database import Database
from viewkeeper.errors import Gone, NotFound
from viewkeeper.feed.epoch_frames import Frame
from viewkeeper.server.calling import problems
from viewkeeper.server.http_problems import Problem
from viewkeeper.server.row_encoding import json_bytes
from viewkeeper.server.shape_log import OpenShapes, Readable, Shape
from viewkeeper.server.shape_messages import MUST_REFETCH, SEPARATOR, joined, up_to_date
from viewkeeper.server.shape_requests import ShapeRequest, read_request
from viewkeeper.server.shape_waiting import (
    Behind,
    Bodies,
    Ending,
    Once,
    OwnEnding,
    SharedWatch,
    Threads,
    Waiting,
    in_thread,
)

LIVE_SECONDS = 20.0
"""How long a live request waits for a change."""

EVENTS_SECONDS = 60.0
"""How long a stream of events lasts; the client opens the next one."""

EVENT_SECONDS = 15.0
"""The longest time without an event."""

CLOSED_EPOCHS = 256
"""From so many epochs behind the newest, answers end at multiples of this number, so that caches can keep them."""

CURSOR_SECONDS = 20
"""Clients that wait at the same time have the same cursor for so long, and a cache asks once for all of them."""

SHORT = "max-age=5, stale-while-revalidate=5"
FOREVER = "max-age=31536000, immutable"

EXPOSED = "electric-cursor, electric-handle, electric-offset, electric-schema, electric-snapshot, electric-up-to-date"
"""The headers that pages of other origins have to see."""

Access: TypeAlias = Callable[[Request, str], Awaitable[Readable]]
"""What the sender of a request may read of the relation of a name; raises if it may not. Asked again after waiting."""


async def everything(_: Request, table: str) -> Readable:
    """Access to all rows of all relations."""
    return Readable(table)


class Shapes:
    """Answers requests for shapes of one database."""

    def __init__(
        self, db: Database, access: Access = everything, run: Threads = in_thread, ending: Ending | None = None
    ) -> None:
        """`run` does what takes a while in threads; at the `ending` of the server all who wait are answered."""
        self._db = db
        self._access = access
        self._run = run
        self._ending = ending or OwnEnding()
        self._shapes = OpenShapes(db.store)
        self._bodies = Bodies(run)
        self._once = Once()
        self._shared: dict[Hashable, SharedWatch] = {}

    async def answer(self, request: Request, asked: ShapeRequest) -> Response:
        """The answer to a request. A server that stops gives none, or a client would ask again and again."""
        if self._ending.is_stopping:
            headers = {"Connection": "close", "Retry-After": "1"}
            raise Problem("stopping", "the server is stopping", headers=headers)
        made = await self._answer(request, asked)
        if self._ending.is_stopping:
            made.headers["connection"] = "close"
        return made

    async def _answer(self, request: Request, asked: ShapeRequest) -> Response:
        readable = await self._access(request, asked.table)
        try:
            shape = await self._open(asked, readable)
        except NotFound:
            if asked.since is None:
                raise
            return _begin_again(f"{secrets.token_hex(12)}-0")  # the client drops its copy, and learns why next
        if asked.since is not None and not shape.continues(asked.handle, asked.since):
            return _begin_again(shape.handle(asked.handle))
        if asked.subset is not None:
            return await self._subset(asked, shape)
        if asked.since is None:
            return await self._begin(asked, shape, readable)
        if asked.events:
            headers = {**_headers(asked, shape, readable, asked.since, None), "x-accel-buffering": "no"}
            stream = self._events(request, asked, shape, readable)
            return StreamingResponse(stream, media_type="text/event-stream", headers=headers)
        return await self._continue(request, asked, shape, readable)

    async def _open(self, asked: ShapeRequest, readable: Readable) -> Shape:
        return await self._run(lambda: self._shapes.open(asked, readable))

    # answers -------------------------------------------------------------------------------------

    async def _begin(self, asked: ShapeRequest, shape: Shape, readable: Readable) -> Response:
        """All rows of the newest epoch, or none for a client that wants later changes only."""
        epoch = shape.epoch
        if asked.now or asked.changes_only:
            body = joined([up_to_date(epoch)])
        else:
            key = (shape.identity, None, epoch)
            body = await self._bodies.get(key, lambda: joined([*shape.rows(), up_to_date(epoch)]))
        return Response(body, media_type="application/json", headers=_headers(asked, shape, readable, epoch, SHORT))

    async def _continue(self, request: Request, asked: ShapeRequest, shape: Shape, readable: Readable) -> Response:
        """What came after an epoch; with live=true at least one change, unless it takes too long."""
        since = asked.since or 0
        until = shape.epoch if asked.live else _last_of_answer(since, shape.epoch)
        newest = until == shape.epoch
        body = await self._changes(shape, since, until, newest=newest)
        if not newest:
            headers = _headers(asked, shape, readable, until, FOREVER, newest=False)
            return _unless_known(request, headers, body, f'"{asked.handle}:{since}:{until}"')
        if asked.live and body == joined([up_to_date(until)]):
            try:
                return await self._live(request, asked, shape, readable)
            except (Gone, NotFound):
                return await self._moved(asked, readable)
            except Behind:
                return await self._continue(request, asked, await self._open(asked, readable), readable)
        headers = _headers(asked, shape, readable, until, SHORT)
        return Response(body, media_type="application/json", headers=headers)

    async def _changes(self, shape: Shape, since: int, until: int, *, newest: bool) -> bytes:
        if since == until:
            return joined([up_to_date(until)])

        def make() -> bytes:
            return joined([*shape.changes(since, until), *([up_to_date(until)] if newest else [])])

        return await self._bodies.get((shape.identity, since, until, newest), make)

    async def _live(self, request: Request, asked: ShapeRequest, shape: Shape, readable: Readable) -> Response:
        since = shape.epoch
        with Waiting(await self._watch(shape), self._ending, _left(request)) as waiting:
            frame = await waiting.next(since, LIVE_SECONDS)
            epoch = max(since, waiting.shared.epoch)
        if frame is None:
            body = joined([up_to_date(epoch)])
        else:
            epoch = frame.epoch
            messages = await self._messages(request, asked, readable, frame, since)
            if messages is None:
                return await self._moved(asked, readable)
            body = messages
        return Response(body, media_type="application/json", headers=_headers(asked, shape, readable, epoch, SHORT))

    async def _messages(
        self, request: Request, asked: ShapeRequest, readable: Readable, frame: Frame, since: int
    ) -> bytes | None:
        """The body with a frame; None if the client has to begin again, or may read something else by now."""
        if await self._access(request, asked.table) != readable:
            return None
        key = (
            asked.table,
            asked.where,
            *sorted(asked.params.items()),
            asked.columns,
            asked.full,
            readable,
            frame.epoch,
        )
        now = await self._once.get(key, lambda: self._open(asked, readable))
        if not now.continues(asked.handle, since):
            return None
        rows, epoch = frame.change.rows, frame.epoch
        return await self._bodies.get(
            (now.identity, since, epoch, True),
            lambda: joined([*now.messages(rows, since, epoch), up_to_date(epoch)]),
        )

    async def _moved(self, asked: ShapeRequest, readable: Readable) -> Response:
        """The answer when the relation was dropped, or its changes are gone, while a client waited."""
        try:
            shape = await self._open(asked, readable)
        except NotFound:
            return _begin_again(f"{secrets.token_hex(12)}-0")
        return _begin_again(shape.handle(asked.handle))

    async def _events(
        self, request: Request, asked: ShapeRequest, shape: Shape, readable: Readable
    ) -> AsyncIterator[bytes]:
        """Changes as events, epoch by epoch. It ends when the client has to begin again: its next request says so."""
        until = time.monotonic() + EVENTS_SECONDS
        since = shape.epoch
        body: bytes | None = await self._changes(shape, asked.since or 0, since, newest=True)
        try:
            with Waiting(await self._watch(shape), self._ending, _left(request)) as waiting:
                while body is not None:
                    for message in body[1:-1].split(SEPARATOR):
                        yield b"data: %s\n\n" % message
                    if waiting.ended or not waiting.shared.is_open or time.monotonic() >= until:
                        return
                    frame = await waiting.next(since, min(EVENT_SECONDS, until - time.monotonic()))
                    if frame is None:
                        since = max(since, waiting.shared.epoch)
                        body = joined([up_to_date(since)])
                    else:
                        body = await self._messages(request, asked, readable, frame, since)
                        since = frame.epoch
        except (Behind, Gone, NotFound, Problem):
            return

    async def _subset(self, asked: ShapeRequest, shape: Shape) -> Response:
        """A part of the rows, of the epoch that the client's copy has: later changes continue it."""
        subset = asked.subset
        assert subset is not None
        epoch = shape.epoch if asked.since is None else asked.since
        mark = secrets.randbelow(2**31)
        messages = await self._run(lambda: shape.subset(subset, epoch, mark))
        after = str(epoch + 1)
        about = {"snapshot_mark": mark, "database_lsn": str(epoch), "xmin": after, "xmax": after, "xip_list": []}
        headers = _headers(asked, shape, Readable(asked.table, private=True), epoch, None, newest=False)
        headers["electric-snapshot"] = "true"
        body = b'{"metadata":%s,"data":%s}' % (json_bytes(about), joined(messages))
        return Response(body, media_type="application/json", headers=headers)

    # waiting -------------------------------------------------------------------------------------

    async def _watch(self, shape: Shape) -> SharedWatch:
        """What all who wait for changes of the same rows share; it knows what came after the newest epoch."""
        name, where, since = shape.relation.name, shape.where, shape.epoch
        key = (shape.relation.id, name, where)
        found = self._shared.get(key)
        if found is not None and found.is_open and found.begin <= since:
            return found

        async def begin() -> SharedWatch:
            made = await self._run(lambda: self._db.subscribe(name, since, snapshot=False, where=where))
            self._shared = {each: shared for each, shared in self._shared.items() if shared.is_open}
            self._shared[key] = SharedWatch(made, since, self._run, self._ending)
            return self._shared[key]

        return await self._once.get((key, since), begin)


async def _left(request: Request) -> None:
    """Returns when the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _last_of_answer(since: int, newest: int) -> int:
    """The epoch with which the answer about changes after an epoch ends.

    For a client far behind it is a multiple of CLOSED_EPOCHS, so that all clients get the same few answers, which never
    change: the longest range that begins at a multiple of its own length.
    """
    if newest - since < CLOSED_EPOCHS:
        return newest
    if since % CLOSED_EPOCHS:
        return since - since % CLOSED_EPOCHS + CLOSED_EPOCHS
    size = CLOSED_EPOCHS
    while since % (size * 2) == 0 and since + size * 2 <= newest:
        size *= 2
    return since + size


def _headers(
    asked: ShapeRequest, shape: Shape, readable: Readable, epoch: int, cache: str | None, *, newest: bool = True
) -> dict[str, str]:
    who = "private" if readable.private else "public"
    found = {
        "electric-handle": asked.handle if asked.since is not None else shape.handle(),
        "electric-offset": f"{epoch}_0",
        "electric-schema": shape.form.header,
        "cache-control": "no-store" if cache is None else f"{who}, {cache}",
        "vary": "Authorization",
        "access-control-expose-headers": EXPOSED,
    }
    if newest:
        found["electric-up-to-date"] = ""
    if asked.live:
        found["electric-cursor"] = str(_cursor(asked.cursor))
    return found


def _cursor(before: int) -> int:
    """The cursor of a live answer: the same for all who ask about now, but never that of the request."""
    now = int(time.time()) // CURSOR_SECONDS * CURSOR_SECONDS
    return now if now > before else before + 1


def _begin_again(handle: str) -> Response:
    headers = {
        "electric-handle": handle,
        "cache-control": "no-store",
        "access-control-expose-headers": EXPOSED,
    }
    return Response(MUST_REFETCH, 409, headers, "application/json")


def _unless_known(request: Request, headers: dict[str, str], body: bytes, tag: str) -> Response:
    headers["etag"] = tag
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


# calls --------------------------------------------------------------------------------------------

router = APIRouter(tags=["shapes"])

Text: TypeAlias = str | None


def _about(text: str) -> Any:
    return Query(description=text, max_length=10_000)


def _answers(text: str, *statuses: int) -> dict[str, Any]:
    """What the OpenAPI document says of a call."""
    listed: dict[int | str, dict[str, Any]] = {200: {"description": text}, 409: {"description": "Begin again."}}
    listed |= {status: {"description": "As it was."} for status in statuses}
    return {"responses": {**problems(400, 404), **listed}, "response_class": JSONResponse}


def _shapes(request: Request) -> Shapes:
    found: Shapes = request.app.state.shapes
    return found


@router.get("/v1/shape", **_answers("Messages, or a part of the rows.", 304))
async def get_shape(
    request: Request,
    table: Annotated[Text, _about("The table or view.")] = None,
    offset: Annotated[Text, _about("-1, now, or the electric-offset of an answer.")] = None,
    handle: Annotated[Text, _about("The electric-handle of an answer.")] = None,
    live: Annotated[Text, _about("true: wait for changes.")] = None,
    cursor: Annotated[Text, _about("The electric-cursor of an answer.")] = None,
    where: Annotated[Text, _about("A condition as for Postgres, with $1 for the value params[1].")] = None,
    columns: Annotated[Text, _about("The columns that are wanted.")] = None,
    replica: Annotated[Text, _about("default, or full: updates and deletes have all values.")] = None,
    log: Annotated[Text, _about("full, or changes_only: no rows at the start.")] = None,
) -> Response:
    """Rows and changes of a table or view, by the shape protocol of ElectricSQL."""
    return await _shapes(request).answer(request, read_request(request.query_params))


@router.post("/v1/shape", **_answers("A part of the rows."))
async def post_shape(
    request: Request,
    table: Annotated[Text, _about("The table or view.")] = None,
    offset: Annotated[Text, _about("-1, now, or the electric-offset of an answer.")] = None,
    handle: Annotated[Text, _about("The electric-handle of an answer.")] = None,
) -> Response:
    """A part of the rows at the epoch of an offset, by the shape protocol; the body, a JSON object, says which."""
    return await _shapes(request).answer(request, read_request(request.query_params, await request.body()))
