"""The application: calls, the gate around them, and how problems are answered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, TextIO

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException

from viewkeeper.api.database import Database
from viewkeeper.errors import ViewkeeperError
from viewkeeper.server import (
    change_calls,
    health_calls,
    history_calls,
    relation_calls,
    shape_calls,
    sql_calls,
    stream_calls,
)
from viewkeeper.server.gate import Gate
from viewkeeper.server.gate import Request as Passed
from viewkeeper.server.http_problems import MEDIA_TYPE, Problem, problem_of
from viewkeeper.server.server_settings import ServerSettings
from viewkeeper.server.service import Service
from viewkeeper.server.shape_calls import Shapes
from viewkeeper.server.shape_log import Readable

API_VERSION = "1"
_ROUTERS = (sql_calls, relation_calls, change_calls, history_calls, health_calls, stream_calls, shape_calls)


def create_app(db: Database, settings: ServerSettings | None = None, log: TextIO | None = None) -> FastAPI:
    """The ASGI application that serves a database. `log` is where lines are written, stderr by default."""
    service = Service(db, settings or ServerSettings(), log)

    @contextlib.asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        work = (service.streams.tick(), service.commits.run(), service.watch_tokens())
        tasks = [asyncio.create_task(each) for each in work]
        try:
            yield
        finally:
            service.streams.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.to_thread(service.close)

    app = bare_app(life)
    app.state.service = service
    app.state.shapes = Shapes(db, readable_shape, service.workers.derive, service.streams)
    app.add_middleware(Gate, service=service)
    return app


async def readable_shape(request: Request, table: str) -> Readable:
    """What the token of a request may read of a relation; it may be dropped while a client waits."""
    service: Service = request.app.state.service
    access = await service.access(Passed(request.scope).token)
    return Readable(table, access.grant(table).where, private=access.grants is not None)


def bare_app(life: Any = None) -> FastAPI:
    """The calls without a database: what the OpenAPI document is made from."""
    app = FastAPI(
        title="Viewkeeper",
        version=API_VERSION,
        description="Views that are kept exactly true while tables change.",
        redoc_url=None,
        lifespan=life,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # its spans would show what clients ask for
    )
    for module in _ROUTERS:
        app.include_router(module.router)
    app.add_exception_handler(Problem, _answer_problem)
    app.add_exception_handler(ViewkeeperError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_status)
    setattr(app, "openapi", lambda: _document(app))  # noqa: B010 (mypy refuses an assignment to a method)
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document: as FastAPI makes it, with bearer tokens, and with our problems instead of its own."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = made["components"]["schemas"]
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        made["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        for path, calls in made["paths"].items():
            for call in calls.values():
                for status, answer in call["responses"].items():
                    if int(status) >= 400:
                        answer.get("content", {}).pop("application/json", None)
                if path not in ("/healthz", "/readyz"):
                    call["security"] = [{"bearer": []}]
        app.openapi_schema = made
    return app.openapi_schema


# problems -----------------------------------------------------------------------------------------


def _answer_problem(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    headers = {"Cache-Control": "no-store", **problem.headers}
    return Response(problem.body(), problem.status, media_type=MEDIA_TYPE, headers=headers)


def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ViewkeeperError)
    access = getattr(request.state, "access", None)
    found = problem_of(error, trusted=access is not None and access.may("admin"))
    if found.status >= 500:
        service: Service = request.app.state.service
        service.log.failure("failure", error, path=request.url.path)
    return _answer_problem(request, found)


def _answer_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    problem = Problem("bad-request", f"{where}: {first['msg']}", hint="see /docs for the form of this call")
    return _answer_problem(request, problem)


_CALLS = {404: "no-such-call", 405: "wrong-method"}


def _answer_status(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _CALLS.get(error.status_code, "bad-request")
    headers = dict(error.headers or {})
    problem = Problem(code, str(error.detail), status=error.status_code, hint="/docs lists the calls", headers=headers)
    return _answer_problem(request, problem)
