"""GET /v1/shape: the shape protocol of ElectricSQL, so that its clients follow tables and views.

A client begins at offset -1 and gets all rows; then it asks for what came after its offset, and waits with live=true.
An offset is an epoch, written <epoch>_0: every answer ends with a closed epoch. docs/electric.md has the protocol.
"""

from __future__ import annotations

import asyncio
import functools
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from viewkeeper.api.database import Database
from viewkeeper.errors import Gone, NotFound
from viewkeeper.server.calling import problems
from viewkeeper.server.http_problems import Problem
from viewkeeper.server.row_encoding import json_bytes
from viewkeeper.server.shape_log import OpenShapes, Readable, Shape
from viewkeeper.server.shape_messages import MUST_REFETCH, joined, up_to_date
from viewkeeper.server.shape_requests import ShapeRequest, read_request
from viewkeeper.server.shape_waiting import Bodies, Ending, OwnEnding, Threads, Watch, in_thread

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

    async def answer(self, request: Request, asked: ShapeRequest) -> Response:
        """The answer to a request."""
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
            watch = await self._watch(request, shape, asked.since)
            headers = {**_headers(asked, shape, readable, asked.since, None), "x-accel-buffering": "no"}
            stream = self._events(request, watch, asked, readable)
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
        if asked.live and body == joined([up_to_date(until)]) and not self._ending.is_stopping:
            try:
                return await self._live(request, asked, shape, readable)
            except (Gone, NotFound):
                return await self._moved(asked, readable)
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
        watch = await self._watch(request, shape, since)
        try:
            frame = await watch.next(LIVE_SECONDS)
            epoch = max(since, watch.subscription.epoch)
        finally:
            watch.close()
        if frame is None:
            body = joined([up_to_date(epoch)])
        else:
            epoch = frame.epoch
            now = await self._open(asked, await self._access(request, asked.table))
            if not now.continues(asked.handle, since):
                return _begin_again(now.handle(asked.handle))
            rows = frame.change.rows
            body = await self._bodies.get(
                (shape.identity, since, epoch, True),
                lambda: joined([*now.messages(rows, since, epoch), up_to_date(epoch)]),
            )
        return Response(body, media_type="application/json", headers=_headers(asked, shape, readable, epoch, SHORT))

    async def _moved(self, asked: ShapeRequest, readable: Readable) -> Response:
        """The answer when the relation was dropped, or its changes are gone, while a client waited."""
        try:
            shape = await self._open(asked, readable)
        except NotFound:
            return _begin_again(f"{secrets.token_hex(12)}-0")
        return _begin_again(shape.handle(asked.handle))

    async def _events(
        self, request: Request, watch: Watch, asked: ShapeRequest, readable: Readable
    ) -> AsyncIterator[bytes]:
        """Changes as events, epoch by epoch. It ends when the client has to begin again: its next request says so."""
        until = time.monotonic() + EVENTS_SECONDS
        since = asked.since or 0
        try:
            while True:
                frame = await watch.next(min(EVENT_SECONDS, until - time.monotonic()))
                if frame is not None:
                    if await self._access(request, asked.table) != readable:
                        return
                    now = await self._open(asked, readable)
                    if not now.continues(asked.handle, since):
                        return
                    encode = functools.partial(now.messages, frame.change.rows, since, frame.epoch)
                    for message in await self._run(encode):
                        yield b"data: %s\n\n" % message
                    since = frame.epoch
                else:
                    since = max(since, watch.subscription.epoch)
                yield b"data: %s\n\n" % up_to_date(since)
                if watch.ended or time.monotonic() >= until:
                    return
        except (Gone, NotFound, Problem):
            return
        finally:
            watch.close()

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

    async def _watch(self, request: Request, shape: Shape, since: int) -> Watch:
        name, where = shape.relation.name, shape.where
        made = await self._run(lambda: self._db.subscribe(name, since, snapshot=False, where=where))
        watch = Watch(made, self._run)
        watch.on_close(self._ending.at_end(watch.end))
        if self._ending.is_stopping:
            watch.end()
        leaving = asyncio.ensure_future(_left(request))
        leaving.add_done_callback(lambda _: watch.end())
        watch.on_close(leaving.cancel)
        return watch


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
