"""Functions that give other values on Sail than on Apache Spark: each entry is shown, and views that use one are
refused. When a test of this file fails after an upgrade of Sail, the entry can go."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import spark_examples as se

import viewkeeper as vk
from viewkeeper.sql.sail_functions import SAIL_DIFFERS, SAIL_LACKS

TEN = "FROM range(1, 11) AS t(x)"
WEEK = "FROM VALUES (DATE'2024-01-07'), (DATE'2024-01-08') AS t(x)"

SHOWN = {
    "approx_percentile": (f"SELECT approx_percentile(x, 0.5) {TEN}", "(5,)", "(5.5,)"),
    "date_part dow": (f"SELECT date_part('DOW', x) {WEEK}", "(1,) (2,)", "(0,) (1,)"),
    "datepart dow": (f"SELECT datepart('dow', x) {WEEK}", "(1,) (2,)", "(0,) (1,)"),
    "extract dow": (f"SELECT extract(DOW FROM x) {WEEK}", "(1,) (2,)", "(0,) (1,)"),
    "percentile/3": ("SELECT percentile(x, 0.5, n) FROM VALUES (1, 10), (2, 1) AS t(x, n)", "(1.0,)", "(1.5,)"),
    "percentile_approx": (f"SELECT percentile_approx(x, 0.5) {TEN}", "(5,)", "(5.5,)"),
    "percentile_cont": (
        "SELECT percentile_cont(0.3) WITHIN GROUP (ORDER BY x) FROM VALUES (1), (2), (10), (20) AS t(x)",
        "(1.9,)",
        "(1.899999,)",
    ),
    "rint": ("SELECT rint(x) FROM VALUES (2.5D), (1.2D) AS t(x)", "(1.0,) (2.0,)", "(1.0,) (3.0,)"),
    "schema_of_variant": ("SELECT schema_of_variant(parse_json('1.5'))", "('DECIMAL(2,1)',)", "('DOUBLE',)"),
    "schema_of_variant_agg": (
        "SELECT schema_of_variant_agg(parse_json(x)) FROM VALUES ('1.5') AS t(x)",
        "('DECIMAL(2,1)',)",
        "('DOUBLE',)",
    ),
    "try_avg": (
        "SELECT try_avg(x) FROM VALUES (1.50), (2.25), (2.26) AS t(x)",
        "(Decimal('2.003333'),)",
        "(Decimal('2.00'),)",
    ),
    "weekday": (f"SELECT weekday(x) {WEEK}", "(0,) (6,)", "(-1,) (0,)"),
}
"""A query for each entry, what Apache Spark says and what Sail says."""


def told(kind: str, query: str) -> str:
    answer = se.ask(kind, query)
    assert not answer.error, (query, answer)
    return " ".join(answer.rows)


@pytest.mark.parametrize("entry", sorted(SHOWN))
def test_the_engines_differ(entry: str) -> None:
    query, spark, sail = SHOWN[entry]
    assert (told("spark", query), told("sail", query)) == (spark, sail)


def test_every_entry_is_shown() -> None:
    assert set(SHOWN) == set(SAIL_DIFFERS)
    assert {entry.replace("/", " ").split()[0] for entry in SAIL_DIFFERS} <= set(se.descriptions())
    assert not SAIL_LACKS & set(SAIL_DIFFERS)


CORNERS = {
    "SELECT bround(2.5, 0)": ("(Decimal('2'),)", "(3.0,)"),
    "SELECT timestamp_seconds(x) FROM VALUES (1.5) AS t(x)": (
        "(datetime.datetime(1970, 1, 1, 0, 0, 1, 500000),)",
        "(datetime.datetime(1970, 1, 1, 0, 0, 1),)",
    ),
    "SELECT floor(x, 1), ceil(x, 1) FROM VALUES (123.456D), (-1.25D) AS t(x)": (
        "(Decimal('-1.3'), Decimal('-1.2')) (Decimal('123.4'), Decimal('123.5'))",
        "(Decimal('-1.3'), Decimal('-1.3')) (Decimal('123.5'), Decimal('123.5'))",
    ),
    "SELECT round(1.005D, 2)": ("(1.01,)", "(1.0,)"),
    "SELECT conv('-1', 16, 10), conv('1z', 16, 10)": ("('18446744073709551615', '1')", "('-1', None)"),
    "SELECT get_json_object('[{\"a\": 1}, {\"a\": 2}]', '$[*].a')": ("('[1,2]',)", "(None,)"),
    "SELECT get_json_object('{\"a\": [1, 2]}', '$.a'), get_json_object('{\"a\": 1.50}', '$.a')": (
        "('[1,2]', '1.5')",
        "('[1, 2]', '1.50')",
    ),
    "SELECT json_array_length('{\"a\": 1}')": ("(None,)", "(1,)"),
    "SELECT from_json('', 'a INT')": ("(None,)", "(Row(a=None),)"),
    "SELECT hash(x) FROM VALUES (1.5) AS t(x)": ("(-18083236,)", "(628532913,)"),
    "SELECT histogram_numeric(x, 5)[0].y FROM VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9) AS t(x)": (
        "(3.0,)",
        "(2.0,)",
    ),
    "SELECT initcap('jean-luc'), initcap('x,y')": ("('Jean-luc', 'X,y')", "('Jean-Luc', 'X,Y')"),
    "SELECT split('ab', '')": ("(['a', 'b'],)", "(['', 'a', 'b', ''],)"),
    "SELECT left('abc', -1)": ("('',)", "('ab',)"),
    "SELECT isnan(CAST(NULL AS DOUBLE)), is_valid_utf8(CAST(NULL AS STRING))": ("(False, None)", "(None, False)"),
    "SELECT arrays_overlap(CAST(array() AS ARRAY<INT>), array(NULL, 9))": ("(False,)", "(None,)"),
    "SELECT CAST(1e10D AS STRING), CAST(array(1, NULL) AS STRING)": (
        "('1.0E10', '[1, null]')",
        "('10000000000.0', '[1, NULL]')",
    ),
    "SELECT try_cast('2024-02-29T10:11:12Z' AS DATE), try_cast('1e3' AS DECIMAL(5, 1))": (
        "(datetime.date(2024, 2, 29), Decimal('1000.0'))",
        "(None, None)",
    ),
    "SELECT unix_seconds(TIMESTAMP'1969-12-31 23:59:58.5')": ("(-2,)", "(-1,)"),
    "SELECT try_subtract(-2147483648, 1), try_multiply(-2147483648, 10)": (
        "(None, None)",
        "(-2147483649, -21474836480)",
    ),
    "SELECT extract(MINUTE FROM INTERVAL '23:55:59' HOUR TO SECOND)": ("(55,)", "(1435,)"),
    "SELECT parse_url('http://x.org:80/p', 'AUTHORITY')": ("('x.org:80',)", "('x.org',)"),
    "SELECT regr_avgx(y, x) FROM VALUES (1.5, 2.5), (2, 3), (4, 4.25) AS t(y, x)": (
        "(Decimal('3.250000'),)",
        "(3.25,)",
    ),
}
"""The table of odd corners in docs/engines.md: nothing is refused there."""


@pytest.mark.parametrize("query", sorted(CORNERS))
def test_odd_corners(query: str) -> None:
    assert (told("spark", query), told("sail", query)) == CORNERS[query]


@pytest.fixture
def shop(connect: Callable[..., vk.Database]) -> vk.Database:
    db = connect()
    db.sql("CREATE TABLE t (d DATE, x DOUBLE, n INT)")
    return db


def refusal(db: vk.Database, text: str) -> str:
    with pytest.raises(vk.errors.NotMaintainable) as caught:
        db.sql(text)
    return str(caught.value)


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_what_sail_says(shop: vk.Database) -> None:
    assert refusal(shop, "CREATE VIEW v AS SELECT x, WeekDay(d) AS w FROM t") == (
        "weekday gives other values on Sail than on Apache Spark: Sunday is -1, not 6\n"
        "at line 1, column 28:\n"
        "  CREATE VIEW v AS SELECT x, WeekDay(d) AS w FROM t\n"
        "                             ^^^^^^^^^\n"
        'hint: use Apache Spark: vk.connect(..., engine="spark")'
    )
    assert refusal(shop, "CREATE MATERIALIZED VIEW v AS SELECT n FROM t GROUP BY n HAVING rint(sum(x)) > 1") == (
        "rint gives other values on Sail than on Apache Spark: it rounds halves away from zero, not to the even "
        "neighbour\n"
        "at line 1, column 65:\n"
        "  CREATE MATERIALIZED VIEW v AS SELECT n FROM t GROUP BY n HAVING rint(sum(x)) > 1\n"
        "                                                                  ^^^^^^^^^^\n"
        'hint: use Apache Spark: vk.connect(..., engine="spark")'
    )
    assert refusal(shop, "CREATE VIEW v AS SELECT extract(DOW FROM d) AS w FROM t") == (
        "DOW in extract gives other values on Sail than on Apache Spark: it counts the days from 0, not from 1\n"
        "at line 1, column 25:\n"
        "  CREATE VIEW v AS SELECT extract(DOW FROM d) AS w FROM t\n"
        "                          ^^^^^^^\n"
        'hint: use Apache Spark: vk.connect(..., engine="spark")'
    )
    assert refusal(shop, "CREATE VIEW v AS SELECT percentile(x, 0.5, n) AS p FROM t").startswith(
        "percentile with 3 arguments gives other values on Sail than on Apache Spark: it does not look at the "
        "frequencies\n"
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
    assert shop.ls()[0]["name"] == "t"


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("entry", sorted(SHOWN))
def test_every_entry_is_refused(db: vk.Database, entry: str) -> None:
    db.sql("CREATE VIEW v AS SELECT 1 AS one")
    query = SHOWN[entry][0]
    for statement in ("CREATE VIEW w AS", "CREATE MATERIALIZED VIEW w AS", "ALTER VIEW v AS"):
        assert " gives other values on Sail than on Apache Spark: " + SAIL_DIFFERS[entry] in refusal(
            db, f"{statement} {query}"
        )


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
def test_what_agrees_is_not_refused(shop: vk.Database) -> None:
    shop.sql("INSERT INTO t VALUES (DATE'2024-01-07', 1.5, 2)")
    shop.sql("CREATE VIEW v AS SELECT extract(DOY FROM d) AS a, dayofweek(d) AS b, date_part('MONTH', d) AS c FROM t")
    assert shop.sql("SELECT * FROM v").rows() == [(7, 1, 1)]
    shop.sql("CREATE VIEW w AS SELECT percentile(x, 0.5) AS p, avg(n) AS m FROM t")
    assert shop.sql("SELECT * FROM w").rows() == [(1.5, 2.0)]
    shop.function("weekday", lambda d: 5, "INT")
    shop.sql("CREATE VIEW own AS SELECT weekday(d) AS w FROM t")


@pytest.mark.parametrize("engine", ["spark"], indirect=True)
def test_apache_spark_runs_them(shop: vk.Database) -> None:
    shop.sql("INSERT INTO t VALUES (DATE'2024-01-07', 2.5, 10), (DATE'2024-01-08', 0.5, 1)")
    shop.sql("CREATE VIEW v AS SELECT weekday(d) AS w, rint(x) AS r, extract(DOW FROM d) AS e FROM t")
    assert sorted(shop.sql("SELECT * FROM v").rows()) == [(0, 0.0, 2), (6, 2.0, 1)]
