"""Calls about rules, assertions and commits."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from viewkeeper.algebra.types import quote
from viewkeeper.api.database import Database
from viewkeeper.catalog.active_rules import SQL, ActiveRule
from viewkeeper.catalog.state import State
from viewkeeper.log.rule_listing import assertions_listed, watched_text
from viewkeeper.server.calling import Caller, Epoch, Shared, answering, json_answer
from viewkeeper.server.commit_documents import commits_document
from viewkeeper.server.row_encoding import column_documents, json_rows
from viewkeeper.server.shapes import AssertionList, CommitList, RuleList

router = APIRouter(prefix="/api/v1", tags=["history"])

SHOWN = 20
"""Violating rows of each assertion that are answered."""

FIRINGS = 100
"""Firings of rules that are answered."""


@router.get("/rules", **answering(RuleList))
async def rules(service: Shared, access: Caller) -> Response:
    """The active rules in the order of their creation, and their newest firings."""
    access.need_everything("the list of rules")
    return await service.workers.read(lambda: json_answer(_rules(service.db)))


def _rules(db: Database) -> dict[str, Any]:
    state = db.store.refresh()
    there = sorted(state.rules.values(), key=lambda rule: rule.order)
    return {"rules": [_rule(state, rule) for rule in there], "firings": db.rule_firings(FIRINGS)}


def _rule(state: State, rule: ActiveRule) -> dict[str, Any]:
    action = rule.action
    return {
        "name": rule.name,
        "watched": watched_text(state, rule),
        "when": " or ".join(rule.events),
        "coupling": rule.coupling,
        "priority": rule.priority,
        "enabled": rule.enabled,
        "action": action.text if action.kind == SQL else f"{action.kind} {action.text}",
        "definition": rule.text,
    }


@router.get("/assertions", **answering(AssertionList))
async def assertions(service: Shared, access: Caller) -> Response:
    """The assertions, with some of the rows that violate them now."""
    access.need_everything("the list of assertions")
    return await service.workers.read(lambda: json_answer(_assertions(service.db)))


def _assertions(db: Database) -> dict[str, Any]:
    found = []
    for each in assertions_listed(db.store.refresh()):
        rows = db.sql(f"SELECT * FROM {quote(each['name'])}").head(SHOWN + 1)
        count = rows.num_rows
        if count > SHOWN:
            count = db.sql(f"SELECT count(*) AS n FROM {quote(each['name'])}").rows()[0][0]
        found.append(
            {
                "name": each["name"],
                "condition": each["definition"],
                "violation": each["on_violation"],
                "violating": count,
                "columns": column_documents(rows.schema),
                "rows": json_rows(rows.slice(0, SHOWN)),
            }
        )
    return {"assertions": found}


@router.get("/commits", **answering(CommitList))
async def commits(
    service: Shared,
    access: Caller,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
    before: Epoch = None,
) -> Response:
    """The commits before an epoch, newest first: what changed, and how it was maintained."""
    access.need_everything("the list of commits")
    store = service.db.store
    return await service.workers.read(
        lambda: json_answer(
            commits_document(store.ledger, store.refresh(), service.counts, service.recent, limit, before)
        )
    )
