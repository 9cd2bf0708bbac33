"""POST /api/v1/sql: statements, run or previewed."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from viewkeeper.errors import SqlError
from viewkeeper.server.calling import Caller, Shared, answering, json_answer, wants_arrow
from viewkeeper.server.row_encoding import ARROW_STREAM, arrow_stream
from viewkeeper.server.shapes import SqlAnswer, SqlCall
from viewkeeper.server.statement_rights import Needs, needs_of
from viewkeeper.server.statement_runs import Answer

router = APIRouter(prefix="/api/v1", tags=["sql"])


@router.post("/sql", **answering(SqlAnswer, 400, 404, 409, arrow=True))
async def run_sql(call: SqlCall, request: Request, service: Shared, access: Caller) -> Response:
    """Runs statements one after the other, each as its own transaction unless BEGIN and COMMIT are among them.

    Answers with the rows of the last one and the last commit. With `preview` nothing is committed, and the answer says
    what would change, which rules would fire and which assertions would be violated.
    """
    access.need_everything("SQL")
    needs = await service.workers.read(lambda: _needs(call.sql))
    access.need(needs.right)
    arrow = wants_arrow(request)
    if call.preview:
        return await service.workers.read(lambda: _response(service.runs.preview(call.sql), arrow))
    place = service.workers.commit if needs.commits else service.workers.read
    return await place(lambda: _response(service.runs.run(call.sql), arrow))


def _needs(text: str) -> Needs:
    try:
        return needs_of(text)
    except RecursionError:
        raise SqlError("the statement is nested too deep", hint="define parts of it as views") from None


def _response(answer: Answer, arrow: bool) -> Response:
    if not arrow or answer.table is None:
        return json_answer(answer.document())
    headers = {"Cache-Control": "no-store"}
    if answer.commit is not None:
        headers["X-Viewkeeper-Epoch"] = str(answer.commit["epoch"])
    return Response(arrow_stream(answer.table), media_type=ARROW_STREAM, headers=headers)
