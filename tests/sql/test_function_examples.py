"""Spark's documented examples mean the same after they were parsed and rendered; what Sail lacks is known by name."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import pytest

from tests.sql import spark_examples as se
from viewkeeper.sql.dialect import parse, render
from viewkeeper.sql.sail_functions import SAIL_LACKS

REFUSED_BY_SAIL = Path(__file__).parent / "sail_refuses.txt"


def differences(kind: str, queries: list[str]) -> list[str]:
    """The examples that mean something else after the round trip."""
    rendered = [render(parse(query)) for query in queries]
    answers = se.ask_all(kind, queries + rendered)
    before, after = answers[: len(queries)], answers[len(queries) :]
    return [
        f"{query}\n  {text}\n  {old}\n  {new}"
        for query, text, old, new in zip(queries, rendered, before, after, strict=True)
        if not old.same(new, values=se.is_deterministic(query))
    ]


def test_the_sessions_are_as_in_production() -> None:
    for kind in ("spark", "sail"):
        conf = se.session(kind).conf
        assert conf.get("spark.sql.ansi.enabled") == "true"
        assert conf.get("spark.sql.session.timeZone") == "UTC"


PARTS = pytest.mark.parametrize("part", ["eighth", pytest.param("all", marks=pytest.mark.long)])
"""A fixed eighth of the examples every day, all of them in the long run."""


def examples_of(part: str) -> list[str]:
    """The eighth is chosen by the text of an example, so it stays the same in any order."""
    return [query for query in se.examples() if part == "all" or zlib.crc32(query.encode()) % 8 == 0]


@PARTS
def test_examples_mean_the_same_on_spark(part: str) -> None:
    assert len(se.examples()) > 1000
    assert differences("spark", examples_of(part)) == []


@PARTS
def test_examples_mean_the_same_on_sail(part: str) -> None:
    assert differences("sail", examples_of(part)) == []


def test_rendering_is_stable() -> None:
    once = [render(parse(query)) for query in se.examples()]
    assert [render(parse(query)) for query in once] == once


@PARTS
def test_what_sail_refuses_is_known(part: str) -> None:
    """The file lists, as `function: example`, every example that Sail refuses and Apache Spark answers."""
    queries = examples_of(part)
    refused = [query for query, answer in zip(queries, se.ask_all("sail", queries), strict=True) if answer.error]
    spark = se.ask_all("spark", refused)
    found = [f"{se.examples()[q]}: {q}" for q, answer in zip(refused, spark, strict=True) if not answer.error]
    lines = REFUSED_BY_SAIL.read_text().splitlines()
    assert lines == sorted(lines)
    assert sorted(found) == [line for line in lines if part == "all" or line.partition(": ")[2] in queries]


@PARTS
def test_sail_lacks_these_functions_and_no_others(part: str) -> None:
    names = sorted(SAIL_LACKS)
    answers = se.ask_all("sail", [f"SELECT `{name}`()" for name in names])
    assert [n for n, a in zip(names, answers, strict=True) if not a.message.endswith(f"function: {n}")] == []
    named = [re.search(r"function: (\w+)$", answer.message) for answer in se.ask_all("sail", examples_of(part))]
    assert {found[1] for found in named if found} - SAIL_LACKS == set()
    assert set(se.descriptions()) >= SAIL_LACKS
