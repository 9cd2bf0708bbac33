"""A view on Sail means what it means on Apache Spark, or is refused by name: the table of agreement and its use."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import viewkeeper as vk
from tests.sql import function_agreement as fa
from tests.sql import spark_examples as se
from tests.sql.agreement import compare, merge, nasty
from tests.sql.agreement.product import Sail
from viewkeeper.sql.context import Context
from viewkeeper.sql.sail_agreement import table
from viewkeeper.sql.sail_functions import SAIL_LACKS
from viewkeeper.sql.sail_rewrites import REWRITES

SAMPLE = {
    "arrays_overlap": "arrays_overlap(a_array_int, b_array_int)",
    "array_contains": "array_contains(a_array_string, b_string)",
    "bround": "bround(a_double, 1)",
    "cast double": "CAST(a_double AS STRING)",
    "cast float": "CAST(a_float AS STRING)",
    "cast decimal": "CASE WHEN abs(a_double) < 1000000 THEN CAST(a_double AS DECIMAL(9,2)) END",
    "char": "chr(a_int)",
    "concat": "concat(a_double, '/', a_timestamp)",
    "concat_ws": "concat_ws('-', a_float, b_string)",
    "datediff": "datediff(a_date, b_date)",
    "dow": "extract(DOW FROM a_date)",
    "initcap": "initcap(a_string)",
    "is_valid_utf8": "is_valid_utf8(a_string)",
    "isnan": "isnan(a_double)",
    "json_array_length": "json_array_length(a_string)",
    "left": "left(a_string, a_int)",
    "log": "log(a_double, b_double)",
    "lower": "lower(a_double)",
    "rint": "rint(a_double)",
    "right": "right(a_string, -1)",
    "round": "round(a_double, 2)",
    "round tens": "round(a_double, -1)",
    "texts": "a_double || '/' || a_float",
    "trunc": "trunc(a_date, 'QUARTER')",
    "trunc week": "trunc(a_date, 'week')",
    "trunc month": "trunc(a_date, 'MM')",
    "date_part": "date_part('year', a_date)",
    "try_add": "try_add(a_int, b_int)",
    "try_multiply": "try_multiply(a_bigint, b_bigint)",
    "try_subtract": "try_subtract(a_tinyint, b_tinyint)",
    "unix_seconds": "unix_seconds(a_timestamp)",
    "weekday": "weekday(a_date)",
    "abs": "abs(a_double)",
    "upper": "upper(a_string)",
    "hash": "hash(a_string, a_int)",
    "year": "year(a_date)",
    "array_sort": "array_sort(a_array_double)",
}
"""Calls that are mended, and some that need no mending, which raise for no value of the table."""

AGGREGATED = {
    "least": "min(a_double)",
    "most": "max(b_double)",
    "least float": "min(a_float)",
    "most float": "max(b_float)",
    "first": "CASE WHEN count(a_double) = count(1) THEN min(a_double) END",
    "fit": "regr_r2(a_int, b_int)",
    "middle": "median(a_double)",
    "quarter": "percentile_cont(0.25) WITHIN GROUP (ORDER BY a_double DESC)",
    "all": "bool_and(a_boolean)",
}
"""Aggregates of groups, among them some of NaN and infinities alone."""


def on_spark(text: str) -> list[dict[str, Any]]:
    session = se.session("spark")
    kinds = ", ".join(f"{column.name} {column.type.ddl}" for column in nasty.schema())
    session.createDataFrame(nasty.table(), kinds).createOrReplaceTempView("nasty")
    return list(session.sql(text).toArrow().to_pylist())


def test_a_sample_means_the_same_on_both_engines() -> None:
    sail = Sail()
    for calls, key, tail in ((SAMPLE, "id", ""), (AGGREGATED, "g", " GROUP BY g")):
        query = f"SELECT {key}, {', '.join(f'{text} AS `{name}`' for name, text in calls.items())} FROM nasty{tail}"
        made = sail.translated(query)
        assert not isinstance(made, str), made
        found = sail.run(made)
        assert not isinstance(found, str), found
        wanted = {row[key]: row for row in on_spark(query)}
        assert len(found) == len(wanted)
        wrong = [
            (name, which, wanted[which][name], value)
            for which, *values in found
            for name, value in zip(calls, values, strict=True)
            if not compare.near(compare.plain(wanted[which][name]), compare.plain(value))
        ]
        assert wrong == []


def test_the_documentation_has_the_table() -> None:
    lines = [line for many in table().values() for line in many]
    assert fa.DOCS.read_text() == fa.with_table(fa.DOCS.read_text(), lines)
    assert fa.TABLE.read_text() == "\n".join(merge.as_text(lines)) + "\n"


def test_every_function_of_apache_spark_is_compared_or_lacking() -> None:
    compared = {name for _, name in table()}
    assert {name for name in REWRITES if name not in compared} <= {"character_length", "datepart"}
    assert not {name for name in SAIL_LACKS if ("scalar", name) in table()}


@pytest.mark.long
def test_the_table_is_what_the_engines_say(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "refuses", False)
    assert "\n".join(merge.as_text(fa.compared(tmp_path))) + "\n" == fa.TABLE.read_text()


# what users are told ------------------------------------------------------------------------------


@pytest.fixture
def shop(connect: Callable[..., vk.Database]) -> vk.Database:
    db = connect()
    db.sql("CREATE TABLE t (d DATE, x DOUBLE, n INT, m DECIMAL(9,2), s STRING)")
    db.sql("CREATE TABLE u (now_ TIMESTAMP, then_ TIMESTAMP)")
    return db


def refusal(db: vk.Database, text: str) -> str:
    with pytest.raises(vk.errors.NotMaintainable) as caught:
        db.sql(text)
    return str(caught.value)


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_what_sail_says(shop: vk.Database) -> None:
    told = refusal(shop, "CREATE VIEW v AS SELECT n, hash(m) AS h FROM t")
    assert told.startswith("hash of DECIMAL, DECIMAL is another value on Sail than on Apache Spark, for instance ")
    assert told.endswith(
        "at line 1, column 28:\n"
        "  CREATE VIEW v AS SELECT n, hash(m) AS h FROM t\n"
        "                             ^^^^^^\n"
        'hint: use Apache Spark: vk.connect(..., engine="spark")'
    )
    with pytest.raises(vk.errors.SqlError, match="max_by takes a value and a key"):
        shop.sql("CREATE MATERIALIZED VIEW v AS SELECT n, max_by(n, x, 2) OVER (PARTITION BY s) AS m FROM t")
    assert refusal(shop, "CREATE VIEW v AS SELECT extract(DAY FROM now_ - then_) AS d FROM u").startswith(
        "extract of an INTERVAL is another value on Sail"
    )
    assert refusal(shop, "CREATE VIEW v AS SELECT percentile_approx(x, 0.5) AS p FROM t").startswith(
        "percentile_approx of DOUBLE, constant is another value on Sail"
    )
    assert refusal(shop, "CREATE VIEW v AS SELECT zip_with(array(1), array(2), (a, b) -> a + b) AS z") == (
        "Sail has no function zip_with\n"
        "at line 1, column 25:\n"
        "  CREATE VIEW v AS SELECT zip_with(array(1), array(2), (a, b) -> a + b) AS z\n"
        "                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        'hint: use Apache Spark: vk.connect(..., engine="spark")'
    )
    assert refusal(shop, "CREATE VIEW v AS SELECT input_file_name() AS f FROM t").startswith(
        "input_file_name() cannot be maintained: "
    )
    shop.sql("CREATE VIEW v AS SELECT 1 AS one")
    assert refusal(shop, "ALTER VIEW v AS SELECT hash(m) AS one FROM t").startswith("hash of DECIMAL, DECIMAL is")
    assert [relation["name"] for relation in shop.ls()] == ["t", "u", "v"]


@pytest.mark.parametrize("operator", ["a + b", "-a - b", "b * 2 - a"])
def test_a_result_with_a_39th_digit_raises(connect: Callable[..., vk.Database], operator: str) -> None:
    db = connect()
    db.sql("CREATE TABLE t (a DECIMAL(38,0), b DECIMAL(38,0))")
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {operator} AS c FROM t")
    db.sql("INSERT INTO t VALUES (10, 4999999999999999999999999999999999999)")
    (before,) = db.sql("SELECT * FROM v").rows()
    with pytest.raises(vk.errors.ViewkeeperError, match="NUMERIC_VALUE_OUT_OF_RANGE"):
        db.sql(f"INSERT INTO t VALUES (10, {'9' * 38})")
    assert db.sql("SELECT * FROM v").rows() == [before]


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_what_agrees_is_not_refused(shop: vk.Database) -> None:
    shop.sql("INSERT INTO t VALUES (DATE'2024-01-07', 1.005D, 2, 1.25, 'jean-luc')")
    shop.sql("CREATE VIEW v AS SELECT extract(DOW FROM d) AS a, weekday(d) AS b, round(x, 2) AS c, hash(n) AS h FROM t")
    assert shop.sql("SELECT * FROM v").rows() == [(1, 6, 1.01, 1765031574)]
    shop.sql("CREATE VIEW w AS SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS p, avg(n) AS m FROM t")
    assert shop.sql("SELECT * FROM w").rows() == [(1.005, 2.0)]
    shop.function("percentile_of", lambda d: 5, "INT")
    shop.sql("CREATE VIEW own AS SELECT percentile_of(d) AS w, initcap(s) AS i FROM t")
    assert shop.sql("SELECT * FROM own").rows() == [(5, "Jean-luc")]


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_queries_that_no_view_is_made_of_get_the_engine_s_answer(shop: vk.Database) -> None:
    shop.sql("INSERT INTO t VALUES (DATE'2024-01-07', 1.5D, 2, 1.25, 'a')")
    ((value,),) = shop.sql("SELECT approx_percentile(x, 0.5) FROM t GROUP BY n").rows()
    assert math.isclose(value, 1.5)
