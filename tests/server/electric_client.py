"""The npm client of ElectricSQL under node, and a small server with nothing but shapes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import Response
from filelock import FileLock

import viewkeeper as vk
from viewkeeper.server.http_problems import MEDIA_TYPE, Problem, problem_of
from viewkeeper.server.shape_calls import Access, Shapes, everything, router
from viewkeeper.server.shape_waiting import OwnEnding

PACKAGE = Path(__file__).parent / "electric"
PATIENCE = 60.0


def installed() -> Path:
    """The program that follows a shape, beside the installed client; installed once, outside of the repository."""
    wanted = json.loads((PACKAGE / "package.json").read_text())["dependencies"]["@electric-sql/client"]
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    there = caches / "viewkeeper-tests" / f"electric-client-{wanted}"
    there.mkdir(parents=True, exist_ok=True)
    with FileLock(str(there / ".lock")):
        if not (there / "installed").exists():
            shutil.copy(PACKAGE / "package.json", there)
            npm = ["npm", "install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"]
            subprocess.run(npm, cwd=there, check=True, capture_output=True, timeout=300)
            (there / "installed").touch()
        source = (PACKAGE / "follow.mjs").read_bytes()
        program = there / f"follow-{hashlib.sha256(source).hexdigest()[:12]}.mjs"
        if not program.exists():
            program.write_bytes(source)
    return program


class Client:
    """A process with the npm client, which keeps a copy of one shape. `states` are all it has reported."""

    def __init__(self, url: str, **options: Any) -> None:
        given = json.dumps({"url": f"{url}/v1/shape", **options})
        self.process = subprocess.Popen(
            ["node", str(installed()), given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.states: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self._lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self._threads = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_warnings, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(json.loads(line))

    def _read_warnings(self) -> None:
        assert self.process.stderr is not None
        self.warnings.extend(self.process.stderr)

    def next(self, seconds: float = PATIENCE) -> dict[str, Any]:
        """The next report."""
        try:
            found = self._lines.get(timeout=seconds)
        except queue.Empty:
            last = self.states[-1] if self.states else None
            raise AssertionError(f"no report; the last was {last}; {''.join(self.warnings)}") from None
        self.states.append(found)
        return found

    def reported(self, seconds: float) -> dict[str, Any]:
        """A report; raises queue.Empty without one."""
        return self._lines.get(timeout=seconds)

    def wait(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """The first report from now on in which the copy has these rows."""
        until = time.monotonic() + PATIENCE
        while True:
            found = self.next(max(0.1, until - time.monotonic()))
            if sorted_rows(found.get("rows", ())) == sorted_rows(rows):
                return found

    def ask(self, **subset: Any) -> None:
        """Loads a subset into the copy."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(subset) + "\n")
        self.process.stdin.flush()

    def close(self) -> None:
        """Ends the process. Closing twice is fine."""
        self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def sorted_rows(rows: Any) -> list[str]:
    """Rows in an order of their own, to compare them as bags."""
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def free_port() -> int:
    """A port that nobody listens to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def shape_app(shapes: Shapes) -> FastAPI:
    """An app with nothing but shapes."""
    app = FastAPI()
    app.state.shapes = shapes
    app.include_router(router)

    def refuse(_: Request, problem: Exception) -> Response:
        found = problem if isinstance(problem, Problem) else problem_of(problem)  # type: ignore[arg-type]
        return Response(found.body(), found.status, found.headers, MEDIA_TYPE)

    app.add_exception_handler(Problem, refuse)
    app.add_exception_handler(vk.errors.ViewkeeperError, refuse)
    return app


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ending: OwnEnding) -> None:
        super().__init__(config)
        self._ending = ending

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Lets those who wait go, first."""
        self._ending.stop()
        await super().shutdown(sockets)


@contextlib.contextmanager
def served(db: vk.Database, port: int | None = None, access: Access = everything) -> Iterator[str]:
    """Serves the shapes of a database; gives the address."""
    ending = OwnEnding()
    shapes = Shapes(db, access, ending=ending)
    where = port or free_port()
    config = uvicorn.Config(shape_app(shapes), port=where, log_level="warning", ws="none", lifespan="off")
    server = _Server(config, ending)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{where}"
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
