"""What the tables of functions say is what Apache Spark says."""

from __future__ import annotations

import re

import pytest
from sqlglot import exp

from tests.sql import spark_examples as se
from viewkeeper.sql import functions as fn
from viewkeeper.sql.dialect import parse, render


def class_of(text: str) -> str:
    found = re.search(r"^Class: .*\.sql\.(\S+)$", text, re.MULTILINE)
    return found[1] if found else ""


def known(pattern: str) -> set[str]:
    """The functions whose class matches."""
    return {name for name, text in se.descriptions().items() if re.search(pattern, class_of(text))}


def test_every_aggregate_is_listed() -> None:
    assert known(r"\.aggregate\.|Agg$|Vector(Sum|Avg)$") == fn.AGGREGATES
    for name, text in se.descriptions().items():
        usage = text.partition("Extended Usage")[0]
        if re.search(r"\b(in|of|for) a group\b|aggregate function", usage, re.IGNORECASE):
            assert name in fn.AGGREGATES | fn.WINDOW_ONLY | fn.GROUPINGS, usage


def test_every_generator_is_listed() -> None:
    assert known(r"Explode|Inline|\.Stack$|JsonTuple") == fn.GENERATORS


def test_every_window_function_is_listed() -> None:
    found = set()
    for query in se.examples():
        for window in parse(query).find_all(exp.Window):
            call = window.find(exp.Anonymous)
            found.add(call.name.lower() if call else "")
    assert found - fn.AGGREGATES == fn.WINDOW_ONLY


def test_table_functions_stand_in_from_only() -> None:
    names = sorted(fn.TABLE_FUNCTIONS)
    answers = se.ask_all("spark", [f"SELECT {name}()" for name in names])
    assert {name: answer.error for name, answer in zip(names, answers, strict=True)} == dict.fromkeys(
        names, "NOT_A_SCALAR_FUNCTION"
    )
    assert known(r"plans\.logical|SQLKeywords|Collations") == fn.TABLE_FUNCTIONS


def test_every_name_is_spark_s_and_in_one_kind_only() -> None:
    kinds = (fn.AGGREGATES, fn.GROUPINGS, fn.WINDOW_ONLY, fn.GENERATORS, fn.TABLE_FUNCTIONS)
    names = frozenset().union(*kinds)
    assert sum(map(len, kinds)) == len(names)
    everything = {*names, *fn.NON_DETERMINISTIC, *fn.WITHOUT_BRACKETS, *fn.EMPTY_VALUE, *fn.ORDER_DEPENDENT}
    assert everything - set(se.descriptions()) == set()
    assert fn.ORDER_DEPENDENT <= fn.AGGREGATES
    assert set(fn.EMPTY_VALUE) <= fn.AGGREGATES - fn.SKETCHES


def test_what_spark_calls_non_deterministic_is_listed() -> None:
    for name, text in se.descriptions().items():
        if re.search(r"non-?deterministic", text, re.IGNORECASE) and "is deterministic" not in text:
            assert name in {*fn.NON_DETERMINISTIC, *fn.ORDER_DEPENDENT}, name
    moving = r"\.(Current\w+|CurDate\w+|LocalTimestamp|Now|Rand\w*|Uniform|Uuid|Shuffle|InputFile\w+|SparkPartitionID)$"
    assert known(moving) - set(fn.NON_DETERMINISTIC) == set()


def test_calls_that_depend_on_their_arguments() -> None:
    assert fn.why_not_deterministic("UNIX_TIMESTAMP", 0)
    assert fn.why_not_deterministic("unix_timestamp", 1) is None
    assert fn.why_not_deterministic("aes_encrypt", 2)
    assert fn.why_not_deterministic("aes_encrypt", 5) is None
    assert fn.why_not_deterministic("Rand", 1)
    assert fn.why_not_deterministic("abs", 1) is None


def test_functions_without_brackets() -> None:
    names = sorted(name for name in se.descriptions() if name.isidentifier())
    candidates = [name for name in names if name in fn.NON_DETERMINISTIC]
    answers = se.ask_all("spark", [f"SELECT {name}" for name in candidates])
    found = {n for n, answer in zip(candidates, answers, strict=True) if not answer.error.startswith("UNRESOLVED")}
    assert found == fn.WITHOUT_BRACKETS


@pytest.mark.parametrize("word", sorted(fn.MOVING_TIMES))
def test_times_that_move(word: str) -> None:
    assert fn.is_moving_time(f" {word.upper()} UTC")
    assert se.ask("spark", f"SELECT CAST('{word}' AS TIMESTAMP) > TIMESTAMP'2024-01-01'").rows == ("(True,)",)


def test_times_that_do_not_move() -> None:
    assert not any(map(fn.is_moving_time, ("", " ", "epoch", "2024-01-31", "nowhere")))


def test_values_over_no_rows() -> None:
    """One call of each aggregate, over no rows."""
    calls: dict[str, str] = {}
    for query, name in se.examples().items():
        tree = parse(query)
        found = [c for c in tree.find_all(exp.Anonymous) if c.name.lower() == name] if name in fn.AGGREGATES else []
        if not found or not isinstance(tree, exp.Select) or tree.args.get("from_") is None:
            continue
        inner = found[0]
        while isinstance(inner.parent, (exp.WithinGroup, exp.Filter)):
            inner = inner.parent
        if inner.find_ancestor(exp.Subquery) is None and inner.find(exp.Interval) is None and name not in calls:
            tree.set("expressions", [inner.copy()])
            calls[name] = render(tree.where(exp.false()))
    del calls["measure"]  # needs a metric view
    assert {*calls, "measure"} == fn.AGGREGATES
    names = sorted(calls)
    empty = dict(zip(names, se.ask_all("spark", [calls[name] for name in names]), strict=True))
    texts = [f"SELECT {fn.EMPTY_VALUE.get(name, 'NULL')}" for name in names]
    expected = dict(zip(names, se.ask_all("spark", texts), strict=True))
    wrong = [name for name in names if name not in fn.SKETCHES and empty[name].rows != expected[name].rows]
    assert wrong == [], [(calls[name], empty[name]) for name in wrong]
    assert [name for name in fn.SKETCHES if empty[name].rows == ("(None,)",)] == []
    assert [name for name in fn.SKETCHES if empty[name].error] == ["approx_top_k_combine"]
