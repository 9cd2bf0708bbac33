"""Spark's documented examples mean the same after they were parsed and rendered; what Sail lacks is known by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import spark_examples as se

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


def test_examples_that_are_rendered_in_other_words_mean_the_same_on_spark() -> None:
    changed = [query for query in se.examples() if se.words(query) != se.words(render(parse(query)))]
    assert len(se.examples()) > 1000
    assert changed
    assert differences("spark", changed) == []


@pytest.mark.long
def test_all_examples_mean_the_same_on_spark() -> None:
    assert differences("spark", list(se.examples())) == []


def test_all_examples_mean_the_same_on_sail() -> None:
    assert differences("sail", list(se.examples())) == []


def test_rendering_is_stable() -> None:
    once = [render(parse(query)) for query in se.examples()]
    assert [render(parse(query)) for query in once] == once


def test_what_sail_refuses_is_known() -> None:
    """The file lists, as `function: example`, every example that Sail refuses and Apache Spark answers."""
    queries = list(se.examples())
    refused = [query for query, answer in zip(queries, se.ask_all("sail", queries), strict=True) if answer.error]
    spark = se.ask_all("spark", refused)
    found = [f"{se.examples()[q]}: {q}" for q, answer in zip(refused, spark, strict=True) if not answer.error]
    assert sorted(found) == REFUSED_BY_SAIL.read_text().splitlines()


def test_sail_lacks_these_functions_and_no_others() -> None:
    names = sorted(SAIL_LACKS)
    answers = se.ask_all("sail", [f"SELECT `{name}`()" for name in names])
    assert [n for n, a in zip(names, answers, strict=True) if not a.message.endswith(f"function: {n}")] == []
    named = [re.search(r"function: (\w+)$", answer.message) for answer in se.ask_all("sail", list(se.examples()))]
    assert {found[1] for found in named if found} - SAIL_LACKS == set()
    assert set(se.descriptions()) >= SAIL_LACKS
