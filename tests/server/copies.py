"""Copies of views, held by clients that lose their connection now and then and go on where they were."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

SSE = {"Accept": "text/event-stream"}
FAILING = (httpx.HTTPError, WebSocketException, OSError, EOFError, TimeoutError)


@dataclass
class Copy:
    """A copy of a view, or of the part of it that a condition selects."""

    url: str
    view: str
    where: str | None
    every: str | None
    random: random.Random
    rows: Counter[str] = field(default_factory=Counter)
    epoch: int = -1
    connections: int = 0
    frames: int = 0

    def apply(self, frame: dict[str, Any]) -> None:
        """Adds the diffs of a frame. Frames have to come once, and in order."""
        assert frame["snapshot"] or frame["epoch"] > self.epoch, (self, frame)
        if frame["snapshot"]:
            assert self.epoch == -1 or frame["reset"], (self, frame)
            self.rows.clear()
        for update in frame["updates"]:
            self.rows[json.dumps(update["row"])] += update["diff"]
        assert min(self.rows.values(), default=0) >= 0, (self, frame)
        self.rows = +self.rows
        self.epoch = frame["epoch"]
        self.frames += 1

    def moved(self, epoch: int) -> None:
        """Nothing else comes of epochs up to this one."""
        self.epoch = max(self.epoch, epoch)

    @property
    def is_tired(self) -> bool:
        """Whether the connection is lost now."""
        return self.random.random() < 0.05

    async def follow(self) -> None:
        """Follows the view for ever, by one connection after the other."""
        while True:
            self.connections += 1
            with contextlib.suppress(*FAILING):
                await self.connected()
            await asyncio.sleep(self.random.random() * 0.3)

    async def connected(self) -> None:
        """Follows the view by one connection, until it is lost."""
        raise NotImplementedError


class ByWebSocket(Copy):
    """Over a WebSocket."""

    async def connected(self) -> None:
        """Applies messages until it is tired."""
        address = f"ws{self.url.removeprefix('http')}/api/v1/stream"
        async with connect(address, open_timeout=10) as socket:
            since = None if self.epoch < 0 else self.epoch
            asked = {"type": "subscribe", "id": "a", "view": self.view, "where": self.where, "every": self.every}
            await socket.send(json.dumps({**asked, "since": since}))
            async for text in socket:
                message = json.loads(text)
                assert message["type"] != "error", message
                if message["type"] == "frame":
                    self.apply(message)
                elif message["type"] == "progress" and self.frames:
                    self.moved(message["epoch"])
                if self.is_tired:
                    return


class ByEvents(Copy):
    """By Server-Sent Events, with Last-Event-ID."""

    async def connected(self) -> None:
        """Applies events until it is tired."""
        headers = {**SSE, **({"Last-Event-ID": str(self.epoch)} if self.epoch >= 0 else {})}
        asked = {name: value for name, value in (("where", self.where), ("every", self.every)) if value}
        path = f"{self.url}/api/v1/views/{self.view}/changes"
        async with (
            httpx.AsyncClient(timeout=30, trust_env=False, verify=False) as client,
            client.stream("GET", path, params=asked, headers=headers) as stream,
        ):
            assert stream.status_code == 200, await stream.aread()
            kind = ""
            async for line in stream.aiter_lines():
                if line.startswith("event: "):
                    kind = line[7:]
                if line.startswith("data: "):
                    data = json.loads(line[6:])
                    assert kind != "error", data
                    self.apply(data) if kind == "frame" else self.moved(data["epoch"])
                    if self.is_tired:
                        return


class ByPolling(Copy):
    """By closed ranges of epochs."""

    async def connected(self) -> None:
        """Asks for what has changed, again and again."""
        path = f"{self.url}/api/v1/views/{self.view}/changes"
        async with httpx.AsyncClient(timeout=30, trust_env=False, verify=False) as client:
            while not self.is_tired:
                asked: dict[str, Any] = {"since": max(self.epoch, 0), **({"where": self.where} if self.where else {})}
                answer = await client.get(path, params=asked)
                assert answer.status_code == 200, answer.text
                found = answer.json()
                if found["until"] > self.epoch:
                    self.apply({**found, "epoch": found["until"], "snapshot": False})
                await asyncio.sleep(0.2)
