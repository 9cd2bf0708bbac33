"""Calls about the server itself: health, readiness, metrics, and the page."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.responses import FileResponse, HTMLResponse

from viewkeeper.server.calling import Caller, Shared, answering, json_answer, problems
from viewkeeper.server.http_problems import Problem
from viewkeeper.server.row_encoding import json_bytes
from viewkeeper.server.server_metrics import CONTENT_TYPE
from viewkeeper.server.shapes import Health

router = APIRouter(tags=["server"])

PAGE = Path(__file__).parent / "page"
"""Where the page and its assets are, if they were built."""

_NO_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Viewkeeper</title>
<h1>Viewkeeper</h1><p>The server is running. <a href="/docs">Its calls</a></p></html>
"""


@router.get("/healthz", **answering(Health))
async def healthz() -> Response:
    """Whether the server is alive."""
    return json_answer({"status": "ok", "failing": []})


@router.get("/readyz", responses={503: {"model": Health, "description": "What is failing."}}, response_model=Health)
async def readyz(service: Shared) -> Response:
    """Whether the engine and the log are reachable; 503 and what is failing if not."""
    failing = await service.faults()
    if service.streams.is_stopping:
        failing = [*failing, "stopping"]
    document = {"status": "failing" if failing else "ok", "failing": failing}
    headers = {"Cache-Control": "no-store"}
    status = 503 if failing else 200
    return Response(json_bytes(document), status, media_type="application/json", headers=headers)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems()},
)
async def metrics(service: Shared, access: Caller) -> Response:
    """Metrics in Prometheus' text form."""
    access.need_everything("the metrics")
    await asyncio.to_thread(service.streams.measure)
    return Response(service.metrics.text(), headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})


@router.get("/", include_in_schema=False)
async def page() -> Response:
    """The page."""
    index = PAGE / "index.html"
    if index.exists():
        return FileResponse(index, headers={"Cache-Control": "no-cache"})
    return HTMLResponse(_NO_PAGE)


@router.get("/assets/{path:path}", include_in_schema=False)
async def asset(path: str) -> Response:
    """A file of the page. Their names change with their contents."""
    root = (PAGE / "assets").resolve()
    found = (root / path).resolve() if "\0" not in path else root
    if not found.is_relative_to(root) or not found.is_file():
        raise Problem("no-such-call", "there is no such file")
    return FileResponse(found, headers={"Cache-Control": "public, max-age=31536000, immutable"})
