"""Random queries, nested and correlated in every way, give what DuckDB gives."""

from __future__ import annotations

import duckdb
import pytest

from tests.sql.translate_oracle import Oracle
from tests.sql.translate_queries import tables
from tests.sql.translate_random import Maker
from viewkeeper.engine.engine import open_engine


@pytest.fixture(scope="module")
def sail() -> Oracle:
    return Oracle(open_engine("sail", None, {}, {}), tables())


def compare(oracle: Oracle, seeds: range) -> int:
    """Compares the answers for some seeds; how many there were (DuckDB cannot answer some)."""
    compared = 0
    for seed in seeds:
        text = Maker(seed).query([], 3, 2)
        try:
            wanted = oracle.expected(text)
        except duckdb.Error:
            continue
        assert oracle.rows(text) == wanted, f"seed {seed}: {text}"
        compared += 1
    return compared


def test_random_queries(sail: Oracle) -> None:
    assert compare(sail, range(75)) > 50


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_random_queries(sail: Oracle) -> None:
    assert compare(sail, range(75, 150)) > 50
    assert compare(sail, range(10_000, 13_000)) > 2_000
