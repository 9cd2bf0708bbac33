"""The OpenAPI document is the one that is checked in, and no call described by it ever fails with a 5xx."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import viewkeeper as vk
from tests.server.conftest import ADMIN, SHOP, Served, served
from viewkeeper.server.application import bare_app
from viewkeeper.server.openapi_document import openapi_text

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
BEARER = {"Authorization": f"Bearer {ADMIN}"}
BOUNDED = settings(
    max_examples=50, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def test_the_document_is_the_one_checked_in() -> None:
    assert DOCUMENT.read_text() == openapi_text(), "python -m viewkeeper.server.openapi_document > docs/openapi.json"


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with vk.connect(tmp_path_factory.mktemp("fuzz") / "lake", engine="sail", durability="process") as db:
        db.sql(SHOP)
        with served(db, token=ADMIN, rate=1e6, burst=1_000_000, statement_seconds=5.0) as made:
            yield made


OPERATIONS = [found.ok() for found in schemathesis.openapi.from_dict(bare_app().openapi()).get_all_operations()]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_no_call_fails(fuzzed: Served, operation: Any) -> None:
    @given(case=operation.as_strategy())
    @BOUNDED
    def call(case: Any) -> None:
        answer = case.call(base_url=fuzzed.url, headers=BEARER)
        case.validate_response(answer, checks=CHECKS)

    call()


_TEXT = """SELECT FROM WHERE orders by_region secrets big id region amount total n * , ( ) = < + - / 1 0 'EU' NULL NOT
AND OR IN EXISTS GROUP BY ORDER LIMIT count(*) sum(amount) max(id) AS a JOIN ON USING LEFT UNION ALL EXCEPT WITH x ;
INSERT INTO VALUES DELETE UPDATE SET CREATE TABLE VIEW MATERIALIZED DROP BEGIN COMMIT ROLLBACK EXPLAIN DESCRIBE SHOW
TABLES VIEWS COMMITS OF EPOCH VERIFY ANALYZE REFRESH CASE WHEN THEN ELSE END CAST STRING INT `a b` "q" :p ? -- /* */
{x} RULE ASSERTION CHECK MERGE TRUNCATE OVER PARTITION interval explode array(1,2) SUBSCRIBE TO LATERAL 1e999 0x X'0'
"""
_WORDS = _TEXT.split()
_TEXTS = st.one_of(
    st.lists(st.sampled_from(_WORDS), max_size=14).map(" ".join),
    st.lists(st.sampled_from(_WORDS), max_size=8).map(lambda words: "SELECT * FROM orders WHERE " + " ".join(words)),
    st.text(max_size=40),
)


@given(text=_TEXTS, preview=st.booleans())
@settings(BOUNDED, max_examples=400)
def test_no_sql_fails(fuzzed: Served, text: str, preview: bool) -> None:
    with fuzzed.client(ADMIN) as client:
        answer = client.post("/api/v1/sql", json={"sql": text, "preview": preview})
    assert answer.status_code < 500, (text, answer.text)


@given(text=_TEXTS)
@settings(BOUNDED, max_examples=200)
def test_no_condition_fails(fuzzed: Served, text: str) -> None:
    with fuzzed.client(ADMIN) as client:
        rows = client.get("/api/v1/views/secrets/rows", params={"where": text})
        changes = client.get("/api/v1/views/secrets/changes", params={"where": text, "since": 0, "until": 6})
    assert rows.status_code < 500, (text, rows.text)
    assert changes.status_code < 500, (text, changes.text)
