"""WS /api/v1/stream: many subscriptions over one WebSocket, and the commits."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from pydantic import BaseModel, Field, ValidationError

from viewkeeper.errors import ViewkeeperError
from viewkeeper.server.access_tokens import Access
from viewkeeper.server.calling import MOST_EPOCHS
from viewkeeper.server.change_calls import asked_of
from viewkeeper.server.gate import Request as Passed
from viewkeeper.server.http_problems import Problem, problem_of
from viewkeeper.server.service import Service
from viewkeeper.server.streams import Progress, Stream, columns_of

router = APIRouter()

SUBPROTOCOL = "viewkeeper"
GOING_AWAY, DROPPED = 1001, 4401
"""Codes with which a WebSocket is closed: the server stops; the token was dropped."""


class ClientMessage(BaseModel):
    """A message of a client."""

    type: str
    id: str | int | None = None
    view: str = Field("", max_length=500)
    since: int | None = Field(None, ge=0, le=MOST_EPOCHS)
    snapshot: bool = True
    where: str | None = Field(None, min_length=1, max_length=10_000)
    every: float | str | None = None
    precision: str = "exact"
    reset: bool = False


@router.websocket("/api/v1/stream")
async def stream(websocket: WebSocket) -> None:
    """Serves one WebSocket until either side ends it."""
    service: Service = websocket.app.state.service
    offered = websocket.scope.get("subprotocols", ())
    await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
    session = _Session(service, websocket, websocket.state.access)
    await session.serve()


class _Session:
    """One WebSocket: its subscriptions, each delivered by a task of its own."""

    def __init__(self, service: Service, websocket: WebSocket, access: Access) -> None:
        self._service = service
        self._websocket = websocket
        self._access = access
        self._passed = Passed(websocket.scope)
        self._passed.access = access
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._streams: dict[str, Stream] = {}
        self._commits: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._code = GOING_AWAY

    async def serve(self) -> None:
        """Answers messages until the client or the server ends it."""
        service = self._service
        epoch = await service.workers.derive(lambda: service.db.epoch)
        await self._send({"type": "hello", "epoch": epoch, "server": service.version})
        take_back = service.streams.at_end(self._ended.set)
        reading = asyncio.create_task(self._read())
        ending = asyncio.create_task(self._ended.wait())
        try:
            with service.while_known(self._passed.token, self._drop):
                if service.streams.is_stopping:
                    self._ended.set()
                await asyncio.wait((reading, ending), return_when=asyncio.FIRST_COMPLETED)
            if self._ended.is_set():
                await self._finish()
        finally:
            take_back()
            tasks = [reading, ending, *self._tasks.values(), *([self._commits] if self._commits else ())]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _drop(self) -> None:
        """The token was dropped: nothing more is sent."""
        self._code = DROPPED
        for task in self._tasks.values():
            task.cancel()
        self._ended.set()

    async def _finish(self) -> None:
        """Lets streams send the frames that wait, then closes the WebSocket."""
        if self._tasks and self._code == GOING_AWAY:
            await asyncio.wait(list(self._tasks.values()), timeout=self._service.settings.shutdown_seconds / 2)
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # the client was faster
            await self._websocket.close(self._code)

    async def _read(self) -> None:
        try:
            while True:
                message = await self._websocket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                await self._answer(message.get("text") or message.get("bytes") or "")
        except (WebSocketDisconnect, RuntimeError):
            return

    async def _answer(self, text: str | bytes) -> None:
        key: str | int | None = None
        try:
            self._service.clients.spend(self._passed.client)
            message = _parsed(text)
            key = message.id
            await self._do(message)
        except Problem as problem:
            await self._tell(key, problem)
        except ViewkeeperError as problem:
            await self._tell(key, problem_of(problem))

    async def _do(self, message: ClientMessage) -> None:
        key = "" if message.id is None else str(message.id)
        if message.type == "subscribe":
            await self._subscribe(key or message.view, message)
        elif message.type == "unsubscribe":
            task = self._tasks.pop(key, None)
            if task is not None:
                task.cancel()
        elif message.type == "poll":
            if key not in self._streams:
                raise Problem("bad-request", f"there is no subscription '{key}'", hint="subscribe first")
            self._streams[key].ask()
        elif message.type == "commits":
            self._access.need_everything("the list of commits")
            if self._commits is None:
                self._commits = asyncio.create_task(self._follow())
        else:
            raise Problem(
                "bad-request",
                f"there is no message '{message.type[:50]}'",
                hint="send subscribe, unsubscribe, poll or commits",
            )

    async def _subscribe(self, key: str, message: ClientMessage) -> None:
        if key in self._tasks:
            raise Problem("bad-request", f"there is already a subscription '{key}'", hint="use another id")
        most = self._service.limits.websocket_subscriptions
        if len(self._tasks) >= most:
            raise Problem("too-many-subscriptions", f"there are {most} subscriptions already", limit=most)
        service, m = self._service, message
        asked = await service.workers.read(
            lambda: asked_of(service, self._access, m.view, m.where, m.since, m.snapshot, m.every, m.precision, m.reset)
        )
        made = await service.streams.open(asked, "websocket")
        self._streams[key] = made
        self._tasks[key] = asyncio.create_task(self._deliver(key, made))

    async def _deliver(self, key: str, made: Stream) -> None:
        """Sends the frames of one subscription."""
        columns: list[dict[str, Any]] | None = columns_of(made)
        try:
            while (found := await made.next()) is not None:
                if isinstance(found, Progress):
                    await self._send({"type": "progress", "id": key, "epoch": found.epoch})
                else:
                    encoded = await self._service.streams.encoded(found)
                    await self._websocket.send_text(encoded.message(key, columns))
                    columns = None
        except (Problem, ViewkeeperError) as problem:
            await self._tell(key, problem if isinstance(problem, Problem) else problem_of(problem))
        except (WebSocketDisconnect, RuntimeError):
            return  # the client has gone
        finally:
            made.close()
            if self._streams.get(key) is made:
                del self._streams[key]
                self._tasks.pop(key, None)

    async def _follow(self) -> None:
        with self._service.commits.follow() as queue:
            while True:
                await self._send(await queue.get())

    async def _tell(self, key: str | int | None, problem: Problem) -> None:
        document: dict[str, Any] = {
            "type": "error",
            "id": key,
            "code": problem.code,
            "detail": problem.detail,
            "hint": problem.hint,
            **{name: problem.more[name] for name in ("oldest", "limit") if name in problem.more},
        }
        await self._send(document)

    async def _send(self, document: dict[str, Any]) -> None:
        await self._websocket.send_text(json.dumps(document))


def _parsed(text: str | bytes) -> ClientMessage:
    try:
        return ClientMessage.model_validate_json(text)
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the message"
        raise Problem("bad-request", f"{where}: {first['msg']}", hint="send a JSON object with a type") from None
