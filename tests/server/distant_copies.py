"""Copies of views, kept over WebSocket, Server-Sent Events, polling, the client and the npm client of ElectricSQL.

Each applies frames by itself, breaks its connection off at random, and goes on where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

import viewkeeper as vk
from tests.server.electric_client import Client
from viewkeeper.client.http_calls import Unreachable

Row = tuple[Any, ...]
PASSING = ("busy", "stopping", "too-many-requests")
"""Codes of problems after which a subscriber tries again."""


@dataclass
class Copy:
    """The rows that frames add up to. Checks that each frame follows what came before."""

    view: str
    where: str | None = None
    part: Callable[[Row], bool] = lambda row: True
    every: str | None = None
    precision: str = "exact"
    rows: Counter[Row] = field(default_factory=Counter)
    epoch: int = -1
    states: dict[int, int] = field(default_factory=dict)
    connections: int = 0

    @property
    def since(self) -> int | None:
        """Where to go on; None for a snapshot."""
        return self.epoch if self.epoch >= 0 else None

    def asked(self) -> dict[str, Any]:
        """The parameters of a subscription that goes on where this copy is."""
        given = {"since": self.since, "where": self.where, "every": self.every, "precision": self.precision}
        return {name: value for name, value in given.items() if value is not None}

    def apply(self, epoch: int, updates: Mapping[Row, int], *, snapshot: bool = False) -> None:
        """Applies a frame."""
        assert epoch > self.epoch, f"{self}: a frame of epoch {epoch} came after epoch {self.epoch}"
        assert snapshot is (self.epoch < 0), f"{self}: a snapshot of epoch {epoch} after epoch {self.epoch}"
        self.epoch = epoch
        for row, diff in updates.items():
            assert diff != 0, f"{self}: {row} with diff 0"
            assert self.part(row), f"{self}: {row} does not belong to it"
            self.rows[row] = int(diff > 0) if self.precision == "nervous" else self.rows[row] + diff
            assert self.rows[row] >= 0, f"{self}: {row} is deleted in epoch {epoch} and was not there"
        self.rows = +self.rows
        self.states[epoch] = digest(self.rows)

    def frame(self, document: Mapping[str, Any]) -> None:
        """Applies a frame as the server sends it."""
        assert document["reset"] is False
        assert document["view"] == self.view
        self.apply(document["epoch"], updates_in(document), snapshot=document["snapshot"])

    def progress(self, epoch: int) -> None:
        """Notes that nothing else comes up to an epoch."""
        assert epoch >= self.epoch, f"{self}: progress to epoch {epoch} after epoch {self.epoch}"
        assert self.epoch >= 0, f"{self}: progress to epoch {epoch} before the snapshot"
        self.epoch = epoch

    def __str__(self) -> str:
        return f"{self.view} where {self.where} every {self.every} {self.precision}"


def updates_in(document: Mapping[str, Any]) -> dict[Row, int]:
    """The updates of a document; every row once."""
    found = {tuple(update["row"]): update["diff"] for update in document["updates"]}
    assert len(found) == len(document["updates"]), "a row comes twice in one frame"
    return found


def digest(rows: Mapping[Row, int]) -> int:
    """A number that equal contents share."""
    return hash(frozenset(rows.items()))


class Subscribers:
    """Tasks that keep copies until all of them have come to the last epoch."""

    def __init__(self, url: str, seed: int) -> None:
        self.url = url
        self.target: int | None = None
        self.contents: Mapping[str, Counter[Row]] = {}
        self.rng = random.Random(seed)
        self.copies: list[Copy] = []
        self.refused = 0
        self.stopped = False
        self._tasks: list[asyncio.Task[None]] = []
        self._http = httpx.AsyncClient(base_url=url, timeout=60, trust_env=False, limits=httpx.Limits())
        self._threads = ThreadPoolExecutor(64)

    def add(self, transport: str, *copies: Copy) -> None:
        """Starts to keep copies; several over one WebSocket, or one over anything else."""
        work = {
            "websocket": self._websocket,
            "sse": self._sse,
            "polling": self._polling,
            "client": self._client,
            "electric": self._electric,
        }
        self.copies += copies
        self._tasks.append(asyncio.create_task(self._again(work[transport], copies), name=f"{transport}: {copies[0]}"))

    async def finish(self, seconds: float) -> None:
        """Waits until all copies are at the last epoch; raises what went wrong with any."""
        until = time.monotonic() + seconds
        while late := [task for task in self._tasks if not task.done()]:
            self.check()
            assert time.monotonic() < until, [task.get_name() for task in late]
            await asyncio.wait(late, timeout=0.2)
        self.check()

    async def close(self) -> None:
        """Ends what is left."""
        self.stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.aclose()
        self._threads.shutdown()

    def check(self) -> None:
        """Raises what went wrong up to now."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    def _done(self, *copies: Copy) -> bool:
        return self.stopped or (self.target is not None and all(copy.epoch >= self.target for copy in copies))

    async def _again(self, work: Callable[..., Any], copies: tuple[Copy, ...]) -> None:
        """Connects again and again; the connection breaks by chance, or because the server was killed."""
        passing = (OSError, httpx.TransportError, WebSocketException, TimeoutError, EOFError, Unreachable)
        while not self._done(*copies):
            with contextlib.suppress(*passing):
                for copy in copies:
                    copy.connections += 1
                await work(*copies)
            await asyncio.sleep(self.rng.uniform(0, 1))

    def _patience(self) -> int:
        """How many messages a connection lasts."""
        return self.rng.choice((1, 3, 10, 30, 1000))

    # WebSocket -------------------------------------------------------------------------------------

    async def _websocket(self, *copies: Copy) -> None:
        by_id = {str(number): copy for number, copy in enumerate(copies)}
        url = f"ws{self.url.removeprefix('http')}/api/v1/stream"
        async with connect(url, max_size=None, proxy=None, open_timeout=30) as socket:
            for key, copy in by_id.items():
                await socket.send(json.dumps({"type": "subscribe", "id": key, "view": copy.view, **copy.asked()}))
            left = self._patience()
            while left and not self._done(*copies):
                left -= await self._hear(socket, by_id)
            if not left:
                socket.transport.abort()

    async def _hear(self, socket: ClientConnection, by_id: Mapping[str, Copy]) -> int:
        """Hears one message, and asks for what comes on demand if there is none; the number of frames heard."""
        try:
            async with asyncio.timeout(self.rng.uniform(0.2, 1.0)):
                message = json.loads(await socket.recv())
        except TimeoutError:
            for key, copy in by_id.items():
                if copy.every == "demand":
                    await socket.send(json.dumps({"type": "poll", "id": key}))
            return 0
        if message["type"] == "frame":
            by_id[message["id"]].frame(message)
            return 1
        if message["type"] == "progress":
            by_id[message["id"]].progress(message["epoch"])
        elif message["type"] == "error":
            self._refuse(message)
        return 0

    def _refuse(self, problem: Mapping[str, Any]) -> None:
        self.refused += 1
        assert problem["code"] in PASSING, problem
        raise EOFError

    # Server-Sent Events ----------------------------------------------------------------------------

    async def _sse(self, copy: Copy) -> None:
        asked = copy.asked()
        headers = {"Accept": "text/event-stream"}
        if self.rng.random() < 0.5 and "since" in asked:
            headers["Last-Event-ID"] = str(asked.pop("since"))
        left = self._patience()
        async with self._http.stream("GET", self._path(copy), params=asked, headers=headers) as answer:
            if answer.status_code != 200:
                self._refuse(json.loads(await answer.aread()))
            event: dict[str, str] = {}
            async for line in answer.aiter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    event[name] = value
                    continue
                left -= self._event(copy, event)
                event = {}
                if not left or self._done(copy):
                    return

    def _event(self, copy: Copy, event: Mapping[str, str]) -> int:
        kind = event.get("event")
        data = json.loads(event.get("data", "null"))
        if kind == "frame":
            assert int(event["id"]) == data["epoch"]
            copy.frame(data)
        elif kind == "progress":
            copy.progress(data["epoch"])
        elif kind == "error":
            self._refuse(data)
        return int(kind == "frame")

    def _path(self, copy: Copy) -> str:
        return f"/api/v1/views/{copy.view}/changes"

    # polling ---------------------------------------------------------------------------------------

    async def _polling(self, copy: Copy) -> None:
        """Asks for what is new; by chance only for its end, and then for two closed ranges."""
        newest = await self._range(copy, max(copy.epoch, 0))
        until = newest["until"]
        if copy.epoch < 0 or self.rng.random() < 0.5:
            self._add(copy, newest)
        else:
            for end in (self.rng.randint(copy.epoch, until), until):
                self._add(copy, await self._range(copy, copy.epoch, end))
        await asyncio.sleep(self.rng.uniform(0, 1))

    async def _range(self, copy: Copy, since: int, until: int | None = None) -> dict[str, Any]:
        asked = {"since": since, "until": until, "where": copy.where}
        params = {name: value for name, value in asked.items() if value is not None}
        answer = await self._http.get(self._path(copy), params=params)
        if answer.status_code != 200:
            self._refuse(answer.json())
        assert ("immutable" in answer.headers["cache-control"]) is (until is not None)
        document: dict[str, Any] = answer.json()
        return document

    def _add(self, copy: Copy, document: Mapping[str, Any]) -> None:
        updates = updates_in(document)
        if document["until"] > copy.epoch:
            copy.apply(document["until"], updates, snapshot=copy.epoch < 0)
        else:
            assert not updates

    # the client ------------------------------------------------------------------------------------

    async def _client(self, copy: Copy) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._follow, copy)

    def _follow(self, copy: Copy) -> None:
        """A subscription of the client, which connects again by itself; closed by chance nevertheless."""
        left = self._patience()
        with vk.client.connect(self.url).subscribe(copy.view, **copy.asked()) as subscription:
            while left and not self._done(copy):
                frame = subscription.next(0.5)
                if frame is not None:
                    copy.apply(frame.epoch, frame.change.weights(), snapshot=frame.snapshot)
                    left -= 1
                elif subscription.epoch > copy.epoch:
                    copy.progress(subscription.epoch)

    # the npm client ----------------------------------------------------------------------------------

    async def _electric(self, copy: Copy) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._shape, copy)

    def _shape(self, copy: Copy) -> None:
        """A shape, which has no epochs: it ends when it is what the view is in the end."""
        params = {"table": copy.view} | ({} if copy.where is None else {"where": copy.where})
        client = Client(self.url, params=params)
        rows: dict[str, dict[str, Any]] = {}
        try:
            while not self.stopped:
                with contextlib.suppress(queue.Empty):
                    state = client.reported(0.5)
                    assert "error" not in state, f"{copy}: {state}"
                    assert state["refetches"] == 0, f"{copy}: fetched again"
                    _operate(rows, state["operations"], str(copy))
                    copy.rows = Counter(tuple(row.values()) for row in state["rows"])
                    told = Counter(tuple(row.values()) for row in rows.values())
                    assert copy.rows == told, f"{copy}: its operations are not its rows"
                if self.target is not None and copy.rows == part_of(self.contents[copy.view], copy):
                    copy.epoch = self.target
                    return
        finally:
            client.close()


def _operate(rows: dict[str, dict[str, Any]], operations: list[Any], what: str) -> None:
    """Applies the operations of a shape: no key is inserted twice, and none is deleted that is not there."""
    for operation, key, value, _ in operations:
        assert (key in rows) is (operation != "insert"), f"{what}: {operation} of {key}"
        if operation == "delete":
            del rows[key]
        else:
            rows[key] = rows.get(key, {}) | value


def part_of(rows: Mapping[Row, int], copy: Copy) -> dict[Row, int]:
    """The part of a view's rows that a copy is bound to."""
    return {row: count for row, count in rows.items() if copy.part(row)}
