"""All 22 TPC-H queries translate, and give what DuckDB gives on a small scale."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.sql.translate_oracle import Oracle, Tables
from tests.sql.translate_tpch import QUERIES, SCHEMAS
from viewkeeper.algebra import nodes as n
from viewkeeper.engine.engine import open_engine


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tpch")
    command = Path(sys.executable).parent / "tpchgen-cli"
    subprocess.run([command, "parquet", "-s", "0.01", "--output-dir", str(folder)], check=True, capture_output=True)
    return {name: folder / f"{name}.parquet" for name in SCHEMAS}


@pytest.fixture(scope="module")
def oracle(data: dict[str, Path]) -> Oracle:
    tables = Tables()
    for name, columns in SCHEMAS.items():
        tables.add(name, columns, [])
        tables.arrow[name] = pq.read_table(data[name]).cast(tables.arrow[name].schema)
    return Oracle(open_engine("sail", None, {}, {}), tables)


@pytest.mark.parametrize("number", QUERIES)
def test_answer(oracle: Oracle, number: int) -> None:
    text = QUERIES[number]
    question = text
    for name in ("l_quantity", "l_extendedprice", "l_discount"):  # an average of decimals has six digits, as in Spark
        question = question.replace(f", avg({name}) as", f", cast(avg({name}) as decimal(19, 6)) as")
        question = question.replace(f"        avg({name}) as", f"        cast(avg({name}) as decimal(19, 6)) as")
    if number == 14:  # a quotient of decimals has a scale, also six digits here
        question = f"select cast(promo_revenue as decimal(38, 6)) from ({question})"
    assert oracle.rows(text) == oracle.expected(question)


@pytest.mark.parametrize("number", QUERIES)
def test_only_needed_columns_are_read(oracle: Oracle, number: int) -> None:
    text = QUERIES[number].lower()
    for scan in n.scans(oracle.translated(text).node):
        for attribute in scan.attributes:
            assert attribute.name in text


@pytest.mark.parametrize("number", [2, 4, 11, 15, 16, 17, 18, 20, 21, 22])
def test_subqueries_need_no_copy_of_the_outer_query(oracle: Oracle, number: int) -> None:
    """Every subquery of TPC-H is tied by equations, so no domain is joined: each table is read as often as written."""
    node = oracle.translated(QUERIES[number]).node
    names = [scan.name for scan in n.scans(node)]
    text = " ".join(QUERIES[number].replace(",", " ").replace("(", " ").replace(")", " ").split())
    written = sum(text.split().count(name) for name in SCHEMAS)
    used_twice = 3 if number == 15 else written  # WITH revenue is named twice
    assert len(names) == used_twice
    assert not any(isinstance(part, n.Outer) for part in node.walk())
