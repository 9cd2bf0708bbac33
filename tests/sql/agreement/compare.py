"""Compares what a view on Sail says with what Apache Spark says."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.sql.agreement.oracle import RAISED, Answer
from tests.sql.agreement.product import Sail
from viewkeeper.sql.sail_agreement import AGREES, DIFFERS, FAILS, MISSING, NEARLY

_INEXACT = """
    acos acosh asin asinh atan atan2 atanh cbrt cos cosh cot csc exp expm1 hypot ln log log10 log1p log2 pow
    power sec sin sinh sqrt tan tanh degrees radians corr covar_pop covar_samp kurtosis skewness std stddev
    stddev_pop stddev_samp var_pop var_samp variance regr_avgx regr_avgy regr_intercept regr_r2 regr_slope
    regr_sxx regr_sxy regr_syy avg mean sum try_sum try_avg months_between percentile percentile_cont median
    vector_inner_product vector_l2_distance vector_cosine_similarity
"""
INEXACT = frozenset(_INEXACT.split())
"""Functions of floats whose last digits no engine promises."""


@dataclass(frozen=True)
class Verdict:
    """Whether two engines agree; if not, an example: what it is about, what Spark says, what Sail says."""

    outcome: str
    example: str = ""


def plain(value: Any) -> Any:
    """A value that can be compared: NaN equals itself, times are UTC, maps have no order, -0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return sorted(((plain(k), plain(v)) for k, v in value), key=repr)
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value


def near(one: Any, other: Any) -> bool:
    """Whether two values are the same up to the last digits of floats."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(near, one, other))
    return bool(one == other)


def _same(name: str, one: Any, other: Any) -> str:
    """AGREES, NEARLY or DIFFERS."""
    left, right = plain(one), plain(other)
    if left == right:
        return AGREES
    return NEARLY if name in INEXACT and near(left, right) else DIFFERS


def scalar(sail: Sail, name: str, text: str, spark: Answer) -> Verdict:
    """The verdict on a scalar expression over all rows."""
    query = sail.translated(f"SELECT id, {text} AS v FROM nasty")
    if isinstance(query, str):
        return Verdict(MISSING, query)
    kind = query.node.outputs[1].type.ddl
    if kind != spark.type:
        return Verdict(DIFFERS, f"type: {spark.type} | {kind}")
    good = [row for row, value in enumerate(spark.values) if not raised(value)]
    bad = [row for row, value in enumerate(spark.values) if raised(value)]
    nearly, failing = False, ""
    if good:
        found = sail.run(query, good)
        if isinstance(found, str):
            raising, words = _raising(sail, query, good, found)
            if not raising:
                return Verdict(MISSING, f"{text}, of many rows: a value | {words}")
            failing = f"{_shown_row(sail, text, raising[0])}: {spark.values[raising[0]]!r} | {words}"
            good = [row for row in good if row not in raising]
            found = sail.run(query, good)
            if isinstance(found, str) or 2 * len(good) < len(raising):
                return Verdict(MISSING, failing)
        for row, value in sorted(found, key=lambda pair: pair[0]):
            same = _same(name, spark.values[row], value)
            if same == DIFFERS:
                return Verdict(DIFFERS, f"{_shown_row(sail, text, row)}: {spark.values[row]!r} | {value!r}")
            nearly = nearly or same == NEARLY
    for row in bad[:: max(1, len(bad) // 12)]:
        found = sail.run(query, [row])
        if not isinstance(found, str):
            return Verdict(DIFFERS, f"{_shown_row(sail, text, row)}: raises | {found[0][1]!r}")
    return Verdict(FAILS, failing) if failing else Verdict(NEARLY if nearly else AGREES)


def scalars(sail: Sail, cases: Sequence[tuple[str, str, Answer]]) -> list[Verdict]:
    """The verdicts on many expressions (name, text, what Spark says): together, unless one of them is in the way."""
    if len(cases) == 1:
        return [scalar(sail, *cases[0])]
    verdicts = _together(sail, cases) if not any(map(raised, (v for case in cases for v in case[2].values))) else None
    if verdicts is not None:
        return verdicts
    middle = len(cases) // 2
    return [*scalars(sail, cases[:middle]), *scalars(sail, cases[middle:])]


def _together(sail: Sail, cases: Sequence[tuple[str, str, Answer]]) -> list[Verdict] | None:
    """The verdicts if nothing is refused, raises or differs."""
    columns = ", ".join(f"{text} AS v{i}" for i, (_, text, _) in enumerate(cases))
    query = sail.translated(f"SELECT id, {columns} FROM nasty")
    if isinstance(query, str) or [a.type.ddl for a in query.node.outputs[1:]] != [case[2].type for case in cases]:
        return None
    found = sail.run(query)
    if isinstance(found, str):
        return None
    outcomes = [AGREES] * len(cases)
    for row, *values in found:
        for i, ((name, _, spark), value) in enumerate(zip(cases, values, strict=True)):
            same = _same(name, spark.values[row], value)
            if same == DIFFERS:
                return None
            outcomes[i] = NEARLY if same == NEARLY else outcomes[i]
    return [Verdict(outcome) for outcome in outcomes]


def raised(value: Any) -> bool:
    """Whether a value stands for an error."""
    return isinstance(value, str) and value == RAISED


def _raising(sail: Sail, query: Any, rows: Sequence[int], words: str) -> tuple[list[int], str]:
    """The rows for which a query raises, and the words for one of them."""
    if len(rows) == 1:
        return list(rows), words
    raising: list[int] = []
    middle = len(rows) // 2
    for half in (rows[:middle], rows[middle:]):
        found = sail.run(query, half)
        if isinstance(found, str):
            more, words = _raising(sail, query, half, found)
            raising += more
    return raising, words


def _shown_row(sail: Sail, text: str, row: int) -> str:
    """An expression with the values of a row in the place of its columns."""
    shown = text
    names = [name for name in sail.table.schema.names if name in text]
    for name in sorted(names, key=len, reverse=True):
        try:
            shown = re.sub(rf"\b{name}\b", lambda _, name=name: _literal(sail.table[name][row].as_py()), shown)
        except UnicodeDecodeError:
            continue
    return shown


def _literal(value: Any) -> str:
    if isinstance(value, (dt.date, dt.datetime)):
        return f"{type(value).__name__.upper()[:4]} '{value}'"
    return "NULL" if value is None else str(value) if isinstance(value, (Decimal, bool)) else repr(value)


def rows(sail: Sail, name: str, text: str, spark: Answer) -> Verdict:
    """The verdict on a query with a key."""
    found = sail.query(text)
    if found.refused and not found.type:
        return Verdict(MISSING, found.refused)
    if found.type != spark.type:
        return Verdict(DIFFERS, f"type: {spark.type} | {found.type}")
    if (spark.values == [RAISED]) != (found.values == [RAISED]):
        if found.values == [RAISED]:
            return Verdict(MISSING, f"{text}: a value | {found.refused}")
        return Verdict(DIFFERS, f"{text}: raises | a value")
    if spark.values == [RAISED]:
        return Verdict(AGREES)
    left, right = _ordered(spark.values), _ordered(found.values)
    if len(left) != len(right):
        return Verdict(DIFFERS, f"{text}: {len(left)} rows | {len(right)} rows")
    outcome = AGREES
    for one, other in zip(left, right, strict=True):
        same = _same(name, list(one), list(other))
        if same == DIFFERS:
            return Verdict(DIFFERS, f"{text}: {one!r} | {other!r}")
        outcome = NEARLY if same == NEARLY else outcome
    return Verdict(outcome)


def _ordered(found: Sequence[Any]) -> list[Any]:
    return sorted(found, key=lambda row: (row[0] is None, row[0] or 0, repr(plain(list(row[1:])))))
