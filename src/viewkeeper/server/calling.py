"""What calls have in common: who calls, what is shared, and how answers are sent."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, Response

from viewkeeper.server.access_tokens import Access
from viewkeeper.server.row_encoding import ARROW_STREAM, json_bytes
from viewkeeper.server.service import Service
from viewkeeper.server.shapes import ProblemAnswer

EVENT_STREAM = "text/event-stream"

MOST_EPOCHS = 2**53
"""Above every epoch."""


def service_of(request: Request) -> Service:
    """What all calls share."""
    service: Service = request.app.state.service
    return service


def access_of(request: Request) -> Access:
    """Who calls."""
    access: Access = request.state.access
    return access


Shared = Annotated[Service, Depends(service_of)]
Caller = Annotated[Access, Depends(access_of)]
Name = Annotated[str, Path(description="A table, view or assertion.", min_length=1, max_length=500)]
Epoch = Annotated[int | None, Query(ge=0, le=MOST_EPOCHS)]
Where = Annotated[
    str | None, Query(description="A condition on the columns, such as region = 'EU'.", min_length=1, max_length=10_000)
]


def json_answer(document: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    """A document as an answer that is not kept by caches. Made in the thread that made the document."""
    made = {"Cache-Control": "no-store", **(headers or {})}
    return Response(json_bytes(document), media_type="application/json", headers=made)


def wants_arrow(request: Request) -> bool:
    """Whether the client asks for an Arrow stream."""
    return ARROW_STREAM in request.headers.get("accept", "")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems that a call may answer with, for the OpenAPI document."""
    shape = {"schema": {"$ref": "#/components/schemas/ProblemAnswer"}}
    every = sorted({401, 403, 408, 413, 422, 429, 503, *statuses})
    return {
        status: {"description": "A problem.", "model": ProblemAnswer, "content": {"application/problem+json": shape}}
        for status in every
    }


def answering(model: type[Any], *statuses: int, arrow: bool = False, events: bool = False) -> dict[str, Any]:
    """What the OpenAPI document says of a call: the shape of its answer, and its problems."""
    answers: dict[int | str, dict[str, Any]] = {200: {"model": model, "description": "The answer."}}
    if arrow:
        answers[200]["content"] = {ARROW_STREAM: {"schema": {"type": "string", "format": "binary"}}}
    if events:
        answers[200]["content"][EVENT_STREAM] = {"schema": {"type": "string"}}
        answers[304] = {"description": "What the client has is still true."}
    return {"responses": {**answers, **problems(*statuses)}}
