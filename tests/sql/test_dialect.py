"""Queries come out of the dialect as they went in: nothing is rewritten, and operators bind as in Spark."""

from __future__ import annotations

import pytest
from sqlglot import exp

from tests.sql import spark_examples as se
from viewkeeper.errors import SqlError
from viewkeeper.sql.dialect import parse, render

VERBATIM = [
    "SELECT count(*), Sum(DISTINCT a), percentile_cont(0.5) WITHIN GROUP (ORDER BY v) FROM t",
    "SELECT string_agg(DISTINCT a, ',') WITHIN GROUP (ORDER BY a DESC), listagg(a) OVER (PARTITION BY b) FROM t",
    "SELECT any_value(a) IGNORE NULLS, lag(a IGNORE NULLS) OVER w FROM t WINDOW w AS (PARTITION BY c)",
    "SELECT nth_value(a, 2) RESPECT NULLS OVER (ORDER BY b) FROM t",
    "SELECT 1L, -9223372036854775808L, 1.5BD, 1.5F, 1D, 1e3, 1S, 1Y, 5., 1e-3D, 1E3BD",
    "SELECT DATE '2020-01-01', TIMESTAMP_NTZ '2020-01-01 00:00:00', TIME '12:00', INTERVAL '1-2' YEAR TO MONTH",
    "SELECT INTERVAL -1 DAY 2 HOURS, interval '1' day + d, INTERVAL '1 day'",
    "SELECT CAST(x AS STRUCT<a: INT, b ARRAY<STRING>>), TRY_CAST(x AS INTERVAL DAY TO SECOND), CAST(x AS VARCHAR(3))",
    "SELECT CAST(x AS GEOGRAPHY(ANY)), CAST(x AS STRING COLLATE UTF8_LCASE), CAST(x AS TIME(6)), CAST(x AS long)",
    "SELECT EXTRACT(YEAR FROM d), TRIM(BOTH 'x' FROM y), trim(y), TRIM(LEADING FROM y)",
    "SELECT transform(arr, x -> x + 1), aggregate(arr, 0, (a, b) -> a + b), f(a => 1, b => 2), exists(arr, x -> x > 1)",
    "SELECT a[0], m['k'], s.f.g, f(x).y[0].z, a DIV b, a % b, a || b, a <=> b, a RLIKE 'x', a ILIKE 'b', v:a.b[0]['c']",
    "SELECT a LIKE 'b' ESCAPE '/', a LIKE ANY ('x', 'y'), a NOT LIKE ALL ('x'), a COLLATE UTF8_LCASE = b, a IS UNKNOWN",
    "SELECT ~a, a & b | c ^ d, a << 2, a >> 1, -a, - -a, current_date, current_date(), any(a), if(a, b, c), date(x)",
    "SELECT dateadd(DAY, 1, x), timestampdiff(MONTH, a, b), struct(a AS b, c), named_struct('a', 1), left(a, 1)",
    "SELECT * FROM a LEFT SEMI JOIN b ON a.x = b.x LEFT ANTI JOIN c USING (x) CROSS JOIN d NATURAL JOIN e",
    "SELECT * FROM t LATERAL VIEW OUTER explode(arr) x AS y LATERAL VIEW posexplode(m) AS k, v",
    "SELECT * FROM t PIVOT(sum(a) AS s, avg(b) FOR c IN ('x' AS x, 'y'))",
    "SELECT * FROM t UNPIVOT INCLUDE NULLS (v FOR n IN (a AS x, b))",
    "SELECT a, sum(b) FROM t GROUP BY GROUPING SETS ((a), ()), ROLLUP (c), CUBE (d, e)",
    "SELECT a FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY b DESC) = 1",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 10) SELECT * FROM r",
    "SELECT `from`, `select`.`x y`, date, timestamp, t.date, interval, time, x, year, user FROM `order` AS t",
    "VALUES (1, 'a'), (2, 'b')",
]


@pytest.mark.parametrize("query", VERBATIM)
def test_a_query_comes_out_as_it_went_in(query: str) -> None:
    assert render(parse(query)) == query


SAME_MEANING = [
    r"""SELECT 'it''s', "a""b", 'a' 'b', r'a\n', R"x\y", 'a\n\t\\\'', 'a"b', "a'b", "a''b", r'a''b', '' '', ''''""",
    r"SELECT '\a\f\v\b\x\0\Z\%\_\101\400\u0041\U0001F600\u00', 'é😀', '\\%', '\\n'",
    "SELECT .5, 5., 1.e3, 100Y, -128Y, 1.50BD, 1e3, 1E-2D, 2.5F, 12345678901, 1.0, -2147483648",
    "SELECT X'1F', x'', X '00ff', DATE'2024-02-29', timestamp '2024-02-29 12:00:00+02:00'",
    "SELECT INTERVAL 1 DAY 2 HOURS, INTERVAL '1' DAY * 2, INTERVAL -3 MONTH, -INTERVAL '1-2' YEAR TO MONTH",
    "SELECT false = false < false, 2 = 2 IS NULL, 1 = 1 IN (true, false), 1 = 1 BETWEEN false AND true",
    "SELECT '1' || 2 - 1, 1 + 2 || 3, 2 * 3 || 4, 1 | 2 & 4 ^ 7, 1 + 1 << 2, 8 >> 1 + 1, -16 >>> 2, ~1 + 1",
    "SELECT NOT true AND false, NOT 1 = 2, ! true OR true, NOT 1 IN (1), 'ab' LIKE 'a' || '%', NOT NOT true",
    "SELECT 2 + 3 * 4 % 5 - 6 DIV 4, -2 * -3, - -1, +1, 7 / 2, -(1 + 2), 1 - (2 - 3), 8 / (4 / 2)",
    "SELECT true IS NOT DISTINCT FROM 1 = 1, NULL <=> NULL, 1 <=> 2 = false, NULL IS UNKNOWN, true IS NOT TRUE",
    "SELECT substring('spark' FROM 2 FOR 3), position('a' IN 'spark'), overlay('spark' PLACING '__' FROM 2 FOR 1)",
    "SELECT trim(BOTH 'x' FROM 'xax'), trim(LEADING FROM '  a'), extract(WEEK FROM DATE'2024-01-31')",
    "SELECT a, b FROM VALUES 1, 2 AS t(a) JOIN VALUES (1, 3) u(c, b) ON a = c, VALUES (5) AS w(z) ORDER BY a, b",
    "SELECT 1 UNION SELECT 2 INTERSECT SELECT 3 EXCEPT SELECT 4 UNION ALL (SELECT 1 UNION SELECT 1)",
    "SELECT parse_json('{\"a\":{\"b\":[1,2]}}'):a.b[1]::int + 1, '1'::int::string || 'x', CAST('1' AS INT) + 1",
    "SELECT a, sum(b) s FROM VALUES (1, 2), (1, 3), (NULL, 4) AS t(a, b) GROUP BY ALL ORDER BY a NULLS LAST",
    "SELECT named_struct('x', array(map('k', 1))).x[0]['k'], struct(1 AS a, 2).a, array(1, 2)[1]",
    "SELECT dateadd(MONTH, 1, DATE'2024-01-31'), datediff(DAY, DATE'2024-01-01', DATE'2024-02-01')",
    "SELECT aggregate(array(1, 2), 0, (a, x) -> a + x, a -> a * 2), transform(array(1), (x, i) -> x + i)",
    "FROM VALUES (1), (2) AS t(a) SELECT a WHERE a > 1",
    "FROM VALUES (1, 2), (1, 5) AS t(a, b) |> EXTEND a + b AS c |> WHERE c > 3 |> AGGREGATE sum(c) AS s GROUP BY a",
]


@pytest.mark.parametrize("query", SAME_MEANING)
def test_a_query_means_the_same(query: str) -> None:
    before, after = se.ask("spark", query), se.ask("spark", render(parse(query)))
    assert before.error == ""
    assert before == after


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 + 2 || 3 - 1, '1' || 2 - 1, 6 DIV 4 * 2, 1 - 2 - 3, 2 * 3 + 4 << 1",
        "SELECT 1 | 2 & 4 ^ 7, 1 ^ 2 | 3, 5 & 3 << 1, ~1 + 1, -2 * 3",
        "SELECT false = false < false, 1 < 2 = true, 1 = 1 IN (true), 1 = 1 BETWEEN false AND true, 1 = 2 IS NULL",
        "SELECT NOT 1 = 2 AND true OR false AND false, NOT 1 IN (1) OR true, NOT true = false",
    ],
)
def test_operators_bind_as_in_spark(query: str) -> None:
    """The tree with every operator in brackets means what the text means."""
    tree = parse(query)
    for node in list(tree.find_all(exp.Binary, exp.Unary, exp.In, exp.Between)):
        if not isinstance(node, exp.Paren) and not isinstance(node.parent, (exp.Select, exp.Paren)):
            node.replace(exp.Paren(this=node.copy()))
    assert se.ask("spark", query).error == ""
    assert se.ask("spark", render(tree)) == se.ask("spark", query)


def test_every_call_is_kept_by_name() -> None:
    tree = parse(
        "SELECT Percentile_Cont(a, 0.5), IF(a, b, c), coalesce(a), Date(x), substr(a, 1), `my f`(b) FROM range(3)"
    )
    assert [call.name for call in tree.find_all(exp.Anonymous)] == [
        *("Percentile_Cont", "IF", "coalesce", "Date", "substr", "my f", "range")
    ]


@pytest.mark.parametrize(
    ("query", "message", "column"),
    [
        ("SELECT a FROM t WHERE", "something is missing", 17),
        ("SELECT a b c FROM t", "'c' is not expected here", 12),
        ("SELECT 0x1F", "numbers cannot be written like this", 8),
        ("SELECT CAST(a INT)", "expected AS after CAST", 15),
        ("SELECT 1; SELECT 2", "expected a query", 1),
        ("DROP TABLE t", "expected a query", 1),
        ("TABLE t", "expected a query", 1),
        ("FROM t |> SELECT a |> UNION ALL SELECT 7", "the query cannot be read", 1),
        ("FROM t |> SET a = 1", "unsupported pipe syntax operator", 11),
        ("SELECT [1, 2]", "'[' is not expected here", 8),
        ("SELECT {'a': 1}", "'}' is not expected here", 15),
        ("SELECT a BETWEEN 1, 2", "expected AND after BETWEEN", 19),
    ],
)
def test_what_cannot_be_read_is_said_at_its_place(query: str, message: str, column: int) -> None:
    with pytest.raises(SqlError) as caught:
        parse(query)
    assert message in caught.value.message
    assert caught.value.place is not None
    assert caught.value.place.column == column


@pytest.mark.parametrize("name", ["all", "distinct", "top", "window", "first"])
def test_words_that_are_names_where_spark_takes_them_for_names(name: str) -> None:
    forms = [
        f"SELECT {name}, c FROM t",
        f"SELECT c, {name} FROM t",
        f"SELECT sum({name}) FROM t GROUP BY {name}, c",
        f"SELECT {name}.c FROM t AS {name}",
    ]
    for text in forms:
        assert repr(parse(text)) == repr(parse(text.replace(name, "zq"))).replace("zq", name)
    assert [item.name for item in parse("SELECT all c FROM t").expressions] == ["c"]
    assert parse("SELECT DISTINCT c FROM t").args["distinct"] is not None
    assert parse("SELECT 1 FROM t WHERE a IS NOT DISTINCT FROM b").find(exp.NullSafeEQ) is not None
    assert parse("SELECT 1 FROM t WHERE a > ALL (SELECT b FROM u)").find(exp.All) is not None
