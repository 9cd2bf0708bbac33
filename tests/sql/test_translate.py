"""Queries translated to algebra and lowered give what DuckDB gives for the same question."""

from __future__ import annotations

import pytest

from tests.sql.translate_oracle import Oracle
from tests.sql.translate_queries import all_queries, tables
from viewkeeper.engine.engine import open_engine

QUERIES = all_queries()
SAMPLE = QUERIES[::12]


@pytest.fixture(scope="module")
def sail() -> Oracle:
    return Oracle(open_engine("sail", None, {}, {}), tables())


@pytest.fixture(scope="module")
def spark() -> Oracle:
    return Oracle(open_engine("spark", None, {}, {}), tables())


@pytest.mark.parametrize(("text", "question"), QUERIES, ids=[text for text, _ in QUERIES])
def test_on_sail(sail: Oracle, text: str, question: str) -> None:
    assert sail.rows(text) == sail.expected(question)


@pytest.mark.parametrize(("text", "question"), SAMPLE, ids=[text for text, _ in SAMPLE])
def test_sample_on_spark(spark: Oracle, text: str, question: str) -> None:
    assert spark.rows(text) == spark.expected(question)


@pytest.mark.long
@pytest.mark.parametrize(("text", "question"), QUERIES, ids=[text for text, _ in QUERIES])
def test_on_spark(spark: Oracle, text: str, question: str) -> None:
    assert spark.rows(text) == spark.expected(question)
