"""Queries with the text that DuckDB gets for the same meaning (None: the same text)."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

from tests.sql.translate_oracle import Tables

TABLES: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "t": (
        "a INT; b INT; s STRING; f DOUBLE",
        [
            (1, 10, "x", 1.5),
            (1, 10, "x", 1.5),
            (1, 20, "y", None),
            (2, None, "x", 2.5),
            (2, 5, None, -1.0),
            (3, 7, "z", 0.25),
            (None, 3, "x", 4.0),
            (None, None, None, None),
            (4, 0, "w", 8.5),
        ],
    ),
    "u": (
        "a INT; c INT; s STRING",
        [(1, 100, "x"), (1, 200, "y"), (2, 100, None), (3, None, "z"), (None, 50, "x"), (5, 10, "q"), (1, 100, "x")],
    ),
    "k": ("id INT NOT NULL; v INT NOT NULL", [(1, 10), (2, 20), (3, 30), (7, 10)]),
    "e": ("a INT; c INT", []),
    "m": (
        "id INT NOT NULL; xs ARRAY<INT>; d DECIMAL(12,2); day DATE; ok BOOLEAN; st STRUCT<p: INT, q: STRING>",
        [
            (1, [1, 2, 2], "1.10", "2024-01-01", True, {"p": 1, "q": "a"}),
            (2, [], "2.25", "2024-01-02", False, {"p": 2, "q": None}),
            (3, None, None, "2024-02-01", None, {"p": None, "q": None}),
            (4, [5, None], "-3.33", None, True, {"p": None, "q": "b"}),
            (5, [1], "2.25", "2024-01-02", True, {"p": 1, "q": "a"}),
        ],
    ),
}

SIMPLE = [
    "SELECT a, b FROM t",
    "SELECT * FROM t",
    "SELECT t.*, 1 AS one FROM t",
    "SELECT a, a, a + 1 AS a1 FROM t",
    "SELECT T.A, `b` FROM t AS T",
    "SELECT x.n, x.y FROM t AS x(n, y, z, w)",
    "SELECT a FROM t WHERE b > 5 AND s = 'x'",
    "SELECT a FROM t WHERE b > 5 OR s IS NULL",
    "SELECT a FROM t WHERE NOT (b > 5 OR s = 'x')",
    "SELECT a FROM t WHERE a IN (1, 2) AND b BETWEEN 1 AND 15",
    "SELECT a FROM t WHERE s LIKE 'x%'",
    "SELECT CASE WHEN a = 1 THEN 'one' WHEN a IS NULL THEN 'none' ELSE s END AS w FROM t",
    "SELECT coalesce(a, b, 0) AS v FROM t",
    "SELECT 1 AS x, 'a' AS y",
    "SELECT DISTINCT a, s FROM t",
    "SELECT DISTINCT a FROM t WHERE a > 0",
    "SELECT a FROM (SELECT a, b FROM t WHERE b IS NOT NULL) q WHERE q.b > 5",
    "WITH q AS (SELECT a, b FROM t) SELECT q1.a, q2.b FROM q q1 JOIN q q2 ON q1.a = q2.a",
    "WITH q(x, y) AS (SELECT a, b FROM t), r AS (SELECT x FROM q WHERE y > 5) SELECT * FROM r",
    "WITH t AS (SELECT a + 100 AS a FROM t) SELECT * FROM t",
    "SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS v(x, y)",
    "SELECT 1 AS x WHERE false",
    "SELECT count(*) AS n FROM e",
    "SELECT a FROM t WHERE true AND 1 = 1",
    "SELECT a FROM t WHERE NULL",
]

JOINS = [
    "SELECT t.a, u.c FROM t, u WHERE t.a = u.a",
    "SELECT t.a, u.c FROM t JOIN u ON t.a = u.a AND t.s = u.s",
    "SELECT t.a, u.c, k.v FROM t, u, k WHERE t.a = u.a AND k.id = t.a AND u.c > 50",
    "SELECT t.a, u.c FROM t, u WHERE t.a + 1 = u.a - 1",
    "SELECT t.a, u.c FROM t CROSS JOIN u",
    "SELECT t.a, u.c FROM t JOIN u ON t.a < u.a",
    "SELECT t.a, u.c FROM t, u WHERE (t.a = u.a AND u.c = 100) OR (t.a = u.a AND t.b = 10)",
    "SELECT t.a, t.b, u.c FROM t LEFT JOIN u ON t.a = u.a",
    "SELECT t.a, t.b, u.c FROM t LEFT JOIN u ON t.a = u.a AND u.c > 100",
    "SELECT t.a, t.b, u.c FROM t LEFT JOIN u ON t.a = u.a AND t.b > 10",
    "SELECT t.a, u.c FROM t LEFT JOIN u ON t.a < u.a AND u.c IS NOT NULL",
    "SELECT t.a, u.c FROM t LEFT JOIN u ON t.a = u.a WHERE u.a IS NULL",
    "SELECT t.a, u.c FROM t LEFT JOIN u ON t.a = u.a WHERE t.b > 5",
    "SELECT t.a, t.b, u.a, u.c FROM t RIGHT JOIN u ON t.a = u.a",
    "SELECT * FROM t RIGHT JOIN u ON t.a = u.a AND t.b = 10",
    "SELECT * FROM t FULL JOIN u ON t.a = u.a",
    "SELECT t.a, u.c FROM t FULL OUTER JOIN u ON t.a = u.a AND t.b > 5",
    "SELECT t.a, u.c, k.v FROM t LEFT JOIN u ON t.a = u.a LEFT JOIN k ON u.c = k.v * 10",
    "SELECT t.a, u.c, k.v FROM t LEFT JOIN (u JOIN k ON u.a = k.id) ON t.a = u.a",
    "SELECT * FROM t JOIN u USING (a)",
    "SELECT a, t.s, u.s FROM t LEFT JOIN u USING (a)",
    "SELECT a, s, b, f, c FROM t FULL JOIN u USING (a, s)",
    "SELECT a, t.a, u.a, c FROM t FULL JOIN u USING (a)",
    "SELECT a, c FROM t RIGHT JOIN u USING (a)",
    "SELECT x.a, y.a AS z FROM t x JOIN t y ON x.b = y.b",
    "SELECT t.a FROM t JOIN e ON t.a = e.a",
    "SELECT x.id, y.id AS other FROM m x, m y WHERE x.day - DATE'2024-01-01' = y.day - DATE'2024-01-01'",
    "SELECT t.a, e.c FROM t LEFT JOIN e ON t.a = e.a",
    "SELECT t.a, e.c FROM t LEFT JOIN e ON true",
]

SEMI = [
    ("SELECT a, b FROM t LEFT SEMI JOIN u ON t.a = u.a", "SELECT a, b FROM t SEMI JOIN u ON t.a = u.a"),
    ("SELECT a, b FROM t LEFT ANTI JOIN u ON t.a = u.a", "SELECT a, b FROM t ANTI JOIN u ON t.a = u.a"),
    ("SELECT a, b FROM t LEFT ANTI JOIN u USING (a, s)", "SELECT a, b FROM t ANTI JOIN u ON t.a = u.a AND t.s = u.s"),
    ("SELECT a FROM t LEFT SEMI JOIN u ON t.a < u.a", "SELECT a FROM t SEMI JOIN u ON t.a < u.a"),
    # as in Spark, the columns of USING and NATURAL come first
    ("SELECT * FROM t FULL JOIN u USING (a, s)", "SELECT a, s, b, f, c FROM t FULL JOIN u USING (a, s)"),
    ("SELECT * FROM t NATURAL JOIN u", "SELECT a, s, b, f, c FROM t JOIN u USING (a, s)"),
]

AGGREGATES = [
    "SELECT a, count(*), count(b), sum(b), min(b), max(b), avg(b) FROM t GROUP BY a",
    "SELECT count(*), sum(b), avg(b), min(s) FROM t",
    "SELECT count(*), sum(a), max(a) FROM e",
    "SELECT a, sum(c) FROM e GROUP BY a",
    "SELECT a + 1 AS k, sum(b * 2) + 1 AS v FROM t GROUP BY a + 1",
    "SELECT s, sum(b) AS v FROM t GROUP BY s HAVING sum(b) > 10",
    "SELECT s, sum(b) AS v FROM t GROUP BY s HAVING v > 10 AND count(*) > 1",
    "SELECT s AS k, count(*) FROM t GROUP BY k",
    "SELECT s, a, count(*) FROM t GROUP BY 1, 2",
    "SELECT s, a, count(*) AS n FROM t GROUP BY ALL",
    "SELECT a FROM t GROUP BY a",
    "SELECT a, count(DISTINCT s), sum(DISTINCT b) FROM t GROUP BY a",
    "SELECT count(*) FILTER (WHERE b > 5), sum(b) FILTER (WHERE s = 'x'), avg(b) FILTER (WHERE a = 1) FROM t",
    "SELECT a, min(s) FILTER (WHERE b > 5), count(DISTINCT b) FILTER (WHERE s = 'x') FROM t GROUP BY a",
    "SELECT a, bool_and(b > 5), bool_or(b > 15), count(b) FROM t GROUP BY a",
    "SELECT a, sum(f), avg(f), max(f) FROM t GROUP BY a",
    "SELECT sum(d), min(d), max(d) FROM m",
    "SELECT max(day), min(ok), count(DISTINCT day) FROM m",
    "SELECT stddev_pop(b), var_samp(b), corr(a, b) FROM t",
    "SELECT 1 FROM t HAVING count(*) > 3",
    "SELECT 1 FROM t HAVING count(*) > 300",
    "SELECT sum(a) FROM (SELECT a, count(*) AS n FROM t GROUP BY a) q WHERE n > 1",
    "SELECT t.a, sum(u.c) FROM t LEFT JOIN u ON t.a = u.a GROUP BY t.a",
    "SELECT upper(s) AS k, count(*) FROM t GROUP BY upper(s) HAVING upper(s) <> 'X'",
    "SELECT a, sum(b) + count(*) AS v FROM t GROUP BY a HAVING min(b) IS NOT NULL",
    "SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY n DESC, a LIMIT 2",
    "SELECT a, s, sum(b) FROM t GROUP BY ROLLUP (a, s)",
    "SELECT a, s, count(*) FROM t GROUP BY CUBE (a, s)",
    "SELECT a, s, sum(b) FROM t GROUP BY GROUPING SETS ((a, s), (a), ())",
    "SELECT a, s, sum(a), grouping(a), grouping(s) FROM t GROUP BY ROLLUP (a, s)",
    "SELECT a, s, grouping_id(a, s) AS g, count(*) FROM t GROUP BY CUBE (a, s) HAVING count(*) > 1",
    "SELECT a, s, count(*) FROM t GROUP BY a, ROLLUP (s)",
    "SELECT count(*) FROM e GROUP BY GROUPING SETS ((), (a))",
    "SELECT a, count(*) FROM t GROUP BY GROUPING SETS ((a), (a))",
    "SELECT coalesce(a, -1) AS k, sum(b) FROM t GROUP BY ROLLUP (coalesce(a, -1))",
]

OTHER_AGGREGATES = [
    (
        "SELECT a, count_if(b > 5), any(b > 5), every(b > 5) FROM t GROUP BY a",
        "SELECT a, count_if(b > 5), bool_or(b > 5), bool_and(b > 5) FROM t GROUP BY a",
    ),
    (
        "SELECT count(a, b), count(DISTINCT a, b) FROM t",
        "SELECT count(*) FILTER (WHERE a IS NOT NULL AND b IS NOT NULL), "
        "(SELECT count(*) FROM (SELECT DISTINCT a, b FROM t WHERE a IS NOT NULL AND b IS NOT NULL)) FROM t",
    ),
    (
        "SELECT a, first(b) FROM t GROUP BY a",
        "SELECT a, CASE WHEN count(*) = count(b) THEN min(b) END FROM t GROUP BY a",
    ),
    ("SELECT a, any_value(b) IGNORE NULLS, last(b) FROM t GROUP BY a", "SELECT a, min(b), max(b) FROM t GROUP BY a"),
    (
        "SELECT a, collect_list(b), collect_set(b) FROM t GROUP BY a",
        "SELECT a, coalesce(list_sort(list(b) FILTER (WHERE b IS NOT NULL)), []), "
        "coalesce(list_sort(list(DISTINCT b) FILTER (WHERE b IS NOT NULL)), []) FROM t GROUP BY a",
    ),
    ("SELECT a, listagg(s, ',') FROM t GROUP BY a", "SELECT a, string_agg(s, ',' ORDER BY s) FROM t GROUP BY a"),
    (
        "SELECT listagg(s, '-') WITHIN GROUP (ORDER BY b DESC) FROM t WHERE b IS NOT NULL",
        "SELECT string_agg(s, '-' ORDER BY b DESC, s) FROM t WHERE b IS NOT NULL",
    ),
    ("SELECT mode(s), min_by(s, b), max_by(s, b) FROM t", "SELECT 'x', 'w', 'y'"),
    (
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY b), median(b) FROM t",
        "SELECT quantile_cont(b, 0.5), median(b) FROM t",
    ),
    ("SELECT avg(d), avg(d) FILTER (WHERE id < 3) FROM m", "SELECT 0.567500, 1.675000"),
    ("SELECT a, s, count(*) FROM t GROUP BY a, s WITH ROLLUP", "SELECT a, s, count(*) FROM t GROUP BY ROLLUP (a, s)"),
]

WRITTEN_OTHERWISE = [
    ("SELECT a + 1 AS m, count(*) AS n FROM t GROUP BY m", "SELECT a + 1, count(*) FROM t GROUP BY a + 1"),
    ("SELECT 1 + a AS m, sum(b) AS n FROM t GROUP BY a + 1", "SELECT a + 1, sum(b) FROM t GROUP BY a + 1"),
    (
        "SELECT a + b AS m FROM t GROUP BY b + a HAVING b + a > 3 AND (a + b) * 2 < 100",
        "SELECT DISTINCT a + b FROM t WHERE a + b > 3 AND (a + b) * 2 < 100",
    ),
    (
        "SELECT a + 1 AS p, s AS q, count(*) AS n FROM t GROUP BY CUBE (p, q)",
        "SELECT a + 1, s, count(*) FROM t GROUP BY CUBE (a + 1, s)",
    ),
    (
        "SELECT s, count(NULL) AS n, count(*) FILTER (WHERE true) AS m FROM t GROUP BY s",
        "SELECT s, 0, count(*) FROM t GROUP BY s",
    ),
    (
        "SELECT a FROM t WHERE EXISTS (SELECT NULL FROM u WHERE u.a = t.a)",
        "SELECT a FROM t WHERE a IN (SELECT a FROM u)",
    ),
    ("SELECT * FROM LATERAL (SELECT a FROM t) AS x", "SELECT a FROM t"),
    ("SELECT x.* FROM k, LATERAL (SELECT k.*) AS x", "SELECT * FROM k"),
    (
        "SELECT (SELECT max(c) FROM u WHERE u.a = t.a) AS m, count(*) AS n FROM t "
        "GROUP BY (SELECT max(c) FROM u WHERE u.a = t.a)",
        "SELECT m, count(*) FROM (SELECT (SELECT max(c) FROM u WHERE u.a = t.a) AS m FROM t) GROUP BY m",
    ),
    (
        "SELECT k.id FROM k WHERE EXISTS (SELECT 1 FROM u AS x(k, c, s) WHERE k.id = x.c - 99)",
        "SELECT id FROM k WHERE id IN (SELECT c - 99 FROM u)",
    ),
    (
        "SELECT a, percentile_cont(0.5) WITHIN GROUP (ORDER BY b) FILTER (WHERE b > 5) AS p FROM t GROUP BY a",
        "SELECT a, quantile_cont(b, 0.5) FILTER (WHERE b > 5) FROM t GROUP BY a",
    ),
]
"""Forms of Spark SQL that DuckDB does not have, or has in another way."""

SET_OPERATIONS = [
    "SELECT a FROM t UNION ALL SELECT a FROM u",
    "SELECT a FROM t UNION SELECT a FROM u",
    "SELECT a, s FROM t INTERSECT SELECT a, s FROM u",
    "SELECT a, s FROM t INTERSECT ALL SELECT a, s FROM u",
    "SELECT a FROM t EXCEPT SELECT a FROM u",
    "SELECT a FROM t EXCEPT ALL SELECT a FROM u",
    "SELECT a FROM t UNION ALL SELECT c FROM u UNION ALL SELECT id FROM k",
    "SELECT a FROM t UNION ALL SELECT c FROM u UNION SELECT id FROM k",
    "(SELECT a FROM t EXCEPT SELECT a FROM u) UNION ALL SELECT v FROM k",
    "SELECT NULL AS x UNION ALL SELECT a FROM t",
    "SELECT a, NULL AS x FROM t UNION ALL SELECT id, v FROM k",
    "SELECT 1 AS x UNION ALL SELECT 2.5 UNION ALL SELECT a FROM t",
    "SELECT a FROM t UNION SELECT a FROM u ORDER BY a DESC LIMIT 2",
    "(SELECT a FROM t ORDER BY a LIMIT 3) UNION ALL (SELECT c FROM u ORDER BY c DESC LIMIT 1)",
    "SELECT x, count(*) FROM (SELECT a AS x FROM t UNION ALL SELECT a FROM u) q GROUP BY x",
    "SELECT day FROM m UNION ALL SELECT CAST('2024-05-05' AS TIMESTAMP)",
]

WINDOWS = [
    "SELECT a, b, rank() OVER (PARTITION BY a ORDER BY b) AS r FROM t",
    "SELECT a, b, dense_rank() OVER (ORDER BY b DESC) AS r, percent_rank() OVER (ORDER BY b DESC) FROM t",
    "SELECT a, b, sum(b) OVER (PARTITION BY a) AS v FROM t",
    "SELECT a, b, sum(b) OVER (PARTITION BY s ORDER BY b) AS v FROM t",
    "SELECT a, b, count(*) OVER () AS n, sum(b) OVER (ORDER BY b RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) AS r "
    "FROM t WHERE b IS NOT NULL",
    "SELECT id, v, row_number() OVER (ORDER BY v DESC, id) AS r FROM k",
    "SELECT id, lag(v) OVER (ORDER BY id) AS p, lead(v, 1, 0) OVER (ORDER BY id) AS q FROM k",
    "SELECT id, sum(v) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS r FROM k",
    "SELECT id, first_value(v) OVER (ORDER BY id) AS f, last_value(v) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED "
    "PRECEDING AND UNBOUNDED FOLLOWING) AS l, nth_value(v, 2) OVER (ORDER BY id) AS n, "
    "ntile(2) OVER (ORDER BY id) AS h FROM k",
    "SELECT id, sum(v) OVER w AS x, avg(v) OVER w AS y FROM k WINDOW w AS (PARTITION BY v ORDER BY id)",
    "SELECT a, sum(b) AS v, sum(sum(b)) OVER () AS total, rank() OVER (ORDER BY sum(b)) AS r FROM t GROUP BY a",
    "SELECT id, v FROM k QUALIFY row_number() OVER (PARTITION BY v ORDER BY id) = 1",
    "SELECT id, rank() OVER (ORDER BY v) AS r FROM k QUALIFY r = 1",
    "SELECT a, b + rank() OVER (ORDER BY b) AS x FROM t WHERE a IS NOT NULL",
    "SELECT id, cume_dist() OVER (ORDER BY v) AS c FROM k",
    "SELECT DISTINCT v, count(*) OVER (PARTITION BY v) AS n FROM k",
    "SELECT id, sum(v) FILTER (WHERE v > 10) OVER (ORDER BY id) AS x FROM k",
    "SELECT id FROM k ORDER BY sum(v) OVER (ORDER BY id DESC) LIMIT 2",
]

LIMITS = [
    "SELECT a, b FROM t ORDER BY b LIMIT 3",
    "SELECT a, b FROM t ORDER BY b DESC, a LIMIT 2 OFFSET 1",
    "SELECT a FROM t ORDER BY b DESC LIMIT 2",
    "SELECT id FROM k ORDER BY 1 DESC LIMIT 2",
    "SELECT id AS x FROM k ORDER BY x + v LIMIT 2",
    "SELECT a FROM t ORDER BY b",
    "SELECT DISTINCT a FROM t ORDER BY a LIMIT 2",
    "SELECT id FROM k LIMIT 0",
    "SELECT id FROM k ORDER BY id OFFSET 2",
    "SELECT q.id FROM (SELECT id, v FROM k ORDER BY v, id LIMIT 3) q WHERE q.v = 10",
    "SELECT id FROM k ORDER BY id NULLS LAST LIMIT 1 + 1",
    "SELECT v, id FROM k ORDER BY ALL LIMIT 2",
    "SELECT v, count(*) AS n FROM k GROUP BY v ORDER BY max(id) DESC LIMIT 1",
]

SUBQUERIES = [
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a)",
    "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a)",
    "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.c > t.b * 15)",
    "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.c > t.b * 15)",
    "SELECT a, b FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.c > t.b * 15)",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM e)",
    "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM e)",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u)",
    "SELECT a FROM t WHERE EXISTS (SELECT count(*) FROM u WHERE u.a = t.a)",
    "SELECT a FROM t WHERE EXISTS (SELECT c, count(*) FROM u WHERE u.a = t.a GROUP BY c HAVING count(*) > 1)",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a ORDER BY u.c LIMIT 1)",
    "SELECT a FROM t WHERE a IN (SELECT a FROM u)",
    "SELECT a FROM t WHERE a NOT IN (SELECT a FROM u)",
    "SELECT a FROM t WHERE a NOT IN (SELECT a FROM u WHERE a IS NOT NULL)",
    "SELECT a FROM t WHERE a NOT IN (SELECT a FROM e)",
    "SELECT id FROM k WHERE id NOT IN (SELECT a FROM u WHERE u.c = k.v * 10)",
    "SELECT id FROM k WHERE id NOT IN (SELECT id FROM k WHERE v = 10)",
    "SELECT a, b FROM t WHERE b NOT IN (SELECT c FROM u WHERE u.a = t.a)",
    "SELECT a, b FROM t WHERE b NOT IN (SELECT c FROM u WHERE u.c > t.a)",
    "SELECT a, b FROM t WHERE b IN (SELECT c / 10 FROM u WHERE u.a = t.a AND u.c > t.b)",
    "SELECT a FROM t WHERE (a, s) IN (SELECT a, s FROM u)",
    "SELECT a FROM t WHERE (a, s) NOT IN (SELECT a, s FROM u)",
    "SELECT a FROM t WHERE (a, s) NOT IN (SELECT a, s FROM u WHERE a > 2)",
    "SELECT a, a IN (SELECT a FROM u) AS x FROM t",
    "SELECT a, a NOT IN (SELECT a FROM u) AS x FROM t",
    "SELECT a, a IN (SELECT a FROM u WHERE a IS NOT NULL) AS x, a IN (SELECT a FROM e) AS y FROM t",
    "SELECT a, b IN (SELECT c FROM u WHERE u.a = t.a) AS x FROM t",
    "SELECT a, b IN (SELECT c / 10 FROM u WHERE u.a <= t.a) AS x FROM t",
    "SELECT a, s, (a, s) IN (SELECT a, s FROM u) AS x FROM t",
    "SELECT a, EXISTS (SELECT 1 FROM u WHERE u.a = t.a) AS x FROM t",
    "SELECT a, EXISTS (SELECT 1 FROM u WHERE u.a < t.a) AS x FROM t",
    "SELECT a, EXISTS (SELECT 1 FROM u) AS x, EXISTS (SELECT 1 FROM e) AS y FROM t",
    "SELECT a FROM t WHERE b > 5 OR EXISTS (SELECT 1 FROM u WHERE u.a = t.a)",
    "SELECT a FROM t WHERE b > 5 OR a IN (SELECT a FROM u)",
    "SELECT a FROM t WHERE NOT (b > 5 OR a IN (SELECT a FROM u))",
    "SELECT CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.a = t.a) THEN 'y' ELSE 'n' END AS x FROM t",
    "SELECT a FROM t WHERE b > ANY (SELECT c / 10 FROM u)",
    "SELECT a FROM t WHERE b > ALL (SELECT c / 100 FROM u WHERE c IS NOT NULL)",
    "SELECT a FROM t WHERE b > ALL (SELECT c / 100 FROM u)",
    "SELECT a FROM t WHERE b > ALL (SELECT a FROM e)",
    "SELECT a FROM t WHERE b <> ALL (SELECT c / 10 FROM u WHERE u.a = t.a)",
    "SELECT a FROM t WHERE a = ANY (SELECT a FROM u)",
    "SELECT a, b < ANY (SELECT c / 10 FROM u WHERE u.a = t.a) AS x, b >= ALL (SELECT c FROM u WHERE u.a = t.a) AS y "
    "FROM t",
    "SELECT a, b <> ANY (SELECT c / 10 FROM u) AS x FROM t",
    "SELECT a, (SELECT max(c) FROM u) AS x FROM t",
    "SELECT a, (SELECT max(c) FROM u WHERE u.a = t.a) AS x FROM t",
    "SELECT a, (SELECT count(*) FROM u WHERE u.a = t.a) AS x FROM t",
    "SELECT a, (SELECT count(*) + 1 FROM u WHERE u.a = t.a) AS x FROM t",
    "SELECT a, (SELECT coalesce(sum(c), -1) FROM u WHERE u.a = t.a) AS x FROM t",
    "SELECT a, (SELECT count(*) FROM u WHERE u.a < t.a) AS x FROM t",
    "SELECT a, (SELECT sum(c + t.b) FROM u WHERE u.a = t.a) AS x FROM t",
    "SELECT a, (SELECT t.b + count(*) FROM u WHERE u.a = t.a) AS x FROM t",
    "SELECT a, (SELECT v FROM k WHERE k.id = t.a) AS x FROM t",
    "SELECT a, (SELECT v + t.b FROM k WHERE k.id = t.a) AS x FROM t",
    "SELECT a, (SELECT v FROM k WHERE k.id > 100) AS x FROM t",
    "SELECT a, (SELECT c FROM u WHERE u.a = t.a ORDER BY c DESC LIMIT 1) AS x FROM t",
    "SELECT a, (SELECT c FROM u WHERE u.a <= t.a ORDER BY c DESC LIMIT 1) AS x FROM t",
    "SELECT a FROM t WHERE b > (SELECT avg(c) / 20 FROM u WHERE u.a = t.a)",
    "SELECT a FROM t WHERE b = (SELECT max(b) FROM t t2 WHERE t2.a = t.a)",
    "SELECT a FROM t WHERE b > (SELECT avg(b) FROM t)",
    "SELECT a, sum(b) AS v FROM t GROUP BY a HAVING sum(b) > (SELECT avg(c) / 10 FROM u WHERE u.a = t.a)",
    "SELECT a, sum(b), (SELECT count(*) FROM u WHERE u.a = t.a) AS n FROM t GROUP BY a",
    "SELECT a FROM t GROUP BY a HAVING EXISTS (SELECT 1 FROM u WHERE u.a = t.a)",
    "SELECT sum((SELECT max(c) FROM u WHERE u.a = t.a)) AS x FROM t",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a "
    "AND EXISTS (SELECT 1 FROM k WHERE k.id = u.a AND k.v = t.b))",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE NOT EXISTS (SELECT 1 FROM k WHERE k.id = u.a AND k.v < t.b))",
    "SELECT a, (SELECT max(c) FROM u WHERE u.a = (SELECT min(id) FROM k WHERE k.id >= t.a)) AS x FROM t",
    "SELECT a FROM t WHERE a IN (SELECT a FROM u WHERE c IN (SELECT v * 10 FROM k WHERE k.id = t.a))",
    "SELECT t.a FROM t JOIN u ON t.a = u.a AND u.c IN (SELECT v * 10 FROM k)",
    "SELECT t.a, u.c FROM t LEFT JOIN u ON t.a = u.a AND EXISTS (SELECT 1 FROM k WHERE k.v * 10 = u.c)",
    "SELECT t.a, u.c FROM t LEFT JOIN u ON t.a = u.a AND t.a IN (SELECT id FROM k WHERE v > 10)",
    "SELECT a FROM t WHERE a IN (SELECT a FROM u UNION SELECT id FROM k WHERE k.v = t.b)",
    "SELECT a, (SELECT count(*) FROM (SELECT c FROM u WHERE u.a = t.a EXCEPT SELECT v FROM k WHERE k.id = t.a) q) AS x "
    "FROM t",
    "SELECT a, (SELECT count(DISTINCT q.c) FROM (SELECT DISTINCT c FROM u WHERE u.a = t.a) q) AS x FROM t",
    "SELECT a, (SELECT count(*) FROM u LEFT JOIN k ON k.id = u.a AND k.v = t.b WHERE k.id IS NULL) AS x FROM t",
    "SELECT a, (SELECT sum(r) FROM (SELECT rank() OVER (ORDER BY c) AS r FROM u WHERE u.a = t.a) q) AS x FROM t",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a IS NOT DISTINCT FROM t.a)",
    "SELECT id FROM k WHERE v = (SELECT max(v) FROM k k2 WHERE k2.id < k.id) OR id = 1",
    "SELECT a FROM t WHERE (SELECT count(*) FROM u WHERE u.a = t.a) = 0",
    "SELECT a, (SELECT max(c) FROM u WHERE u.a = t.a AND u.s = t.s) AS x FROM t",
    "SELECT a, (SELECT max(c) FROM u WHERE u.a = t.a OR u.s = t.s) AS x FROM t",
    "SELECT (SELECT count(*) FROM t) AS x, (SELECT sum(v) FROM k) AS y",
    "SELECT t.a, l.c FROM t, LATERAL (SELECT c FROM u WHERE u.a = t.a) l",
    "SELECT t.a, l.c FROM t, LATERAL (SELECT c + t.b AS c FROM u WHERE u.a = t.a AND u.c > t.b) l",
    "SELECT t.a, l.m FROM t, LATERAL (SELECT max(c) AS m, count(*) AS n FROM u WHERE u.a = t.a) l",
    "SELECT t.a, l.c FROM t LEFT JOIN LATERAL (SELECT c FROM u WHERE u.a = t.a AND u.c > 100) l ON true",
    "SELECT t.a, l.c FROM t, LATERAL (SELECT c FROM u WHERE u.a = t.a ORDER BY c DESC LIMIT 1) l",
    "SELECT t.a, l.x FROM t, LATERAL (SELECT t.a + 1 AS x) l",
]

GENERATORS = [
    ("SELECT id, x FROM m LATERAL VIEW explode(xs) q AS x", "SELECT id, unnest(xs) FROM m"),
    (
        "SELECT id, q.x FROM m LATERAL VIEW OUTER explode(xs) q AS x",
        "SELECT id, x FROM m LEFT JOIN LATERAL (SELECT unnest(m.xs) AS x) ON true",
    ),
    ("SELECT id, explode(xs) AS x FROM m", "SELECT id, unnest(xs) FROM m"),
    (
        "SELECT id, posexplode(xs) AS (p, x) FROM m WHERE id = 1",
        "SELECT * FROM (VALUES (1, 0, 1), (1, 1, 2), (1, 2, 2))",
    ),
    ("SELECT m.id, y FROM m, LATERAL explode(xs) AS q(y)", "SELECT id, unnest(xs) FROM m"),
    (
        "SELECT id, x, count(*) FROM m LATERAL VIEW explode(xs) AS x GROUP BY id, x",
        "SELECT id, x, count(*) FROM (SELECT id, unnest(xs) AS x FROM m) GROUP BY id, x",
    ),
    ("SELECT stack(2, 1, 'a', 2, 'b') AS (n, s)", "SELECT * FROM (VALUES (1, 'a'), (2, 'b'))"),
    ("SELECT id, st.p, st.q FROM m", "SELECT id, st.p, st.q FROM m"),
    ("SELECT st.* FROM m", "SELECT st.p, st.q FROM m"),
    ("SELECT m.st.p + 1 AS x, xs[0] AS y FROM m WHERE id = 1", "SELECT 2, 1"),
    ("SELECT * EXCEPT (xs, st) FROM m", "SELECT id, d, day, ok FROM m"),
    ("SELECT a + 1 AS x, x * 2 AS y FROM t", "SELECT a + 1, (a + 1) * 2 FROM t"),
    ("SELECT transform(xs, v -> v + id) AS y FROM m WHERE id = 1", "SELECT [2, 3, 3]"),
    ("SELECT to_json(struct(id, ok)) AS j FROM m WHERE id = 1", """SELECT '{"id":1,"ok":true}'"""),
    ("SELECT x.b, x.a FROM (SELECT struct(*) AS x FROM t) q", "SELECT b, a FROM t"),
    (
        "SELECT z.xs, z.`1` FROM (SELECT explode(arrays_zip(xs, array(7, 8, 9))) AS z FROM m WHERE id = 1)",
        "SELECT * FROM (VALUES (1, 7), (2, 8), (2, 9))",
    ),
    ("SELECT id, rank() OVER (ORDER BY 1) AS r FROM k", "SELECT id, 1 FROM k"),
    ("SELECT id, k1, v1 FROM m LATERAL VIEW explode(map('a', id)) q AS k1, v1", "SELECT id, 'a', id FROM m"),
    ("SELECT id FROM range(3)", "SELECT * FROM range(3)"),
    ("SELECT col FROM explode(array(1, 2))", "SELECT unnest([1, 2])"),
    (
        "SELECT id, b FROM m LEFT JOIN t ON m.id <=> t.a",
        "SELECT id, b FROM m LEFT JOIN t ON m.id IS NOT DISTINCT FROM t.a",
    ),
]


PIVOTS = [
    (
        "SELECT * FROM (SELECT a, s, b FROM t) PIVOT (sum(b) FOR s IN ('x', 'y' AS yy))",
        "SELECT a, sum(b) FILTER (WHERE s = 'x'), sum(b) FILTER (WHERE s = 'y') FROM t GROUP BY a",
    ),
    (
        "SELECT * FROM (SELECT a, s, b FROM t) PIVOT (sum(b) AS v, count(*) AS n FOR s IN ('x', 'y')) AS p",
        "SELECT a, sum(b) FILTER (WHERE s = 'x'), nullif(count(*) FILTER (WHERE s = 'x'), 0), "
        "sum(b) FILTER (WHERE s = 'y'), nullif(count(*) FILTER (WHERE s = 'y'), 0) FROM t GROUP BY a",
    ),
    (
        "SELECT q.* FROM (SELECT a, s, b FROM t) PIVOT (max(b) FOR (a, s) IN ((1, 'x') AS p, (2, 'x') AS q)) q",
        "SELECT max(b) FILTER (WHERE a = 1 AND s = 'x'), max(b) FILTER (WHERE a = 2 AND s = 'x') FROM t",
    ),
    (
        "SELECT * FROM u UNPIVOT (v FOR name IN (a, c AS 'cc'))",
        "SELECT s, 'a', a FROM u WHERE a IS NOT NULL UNION ALL SELECT s, 'cc', c FROM u WHERE c IS NOT NULL",
    ),
    (
        "SELECT z.k, z.v, z.s FROM u UNPIVOT INCLUDE NULLS (v FOR k IN (a, c)) z",
        "SELECT 'a', a, s FROM u UNION ALL SELECT 'c', c, s FROM u",
    ),
]


def tables() -> Tables:
    """The tables, with the values that have no literal in Python as values."""
    made = Tables()
    for name, (columns, rows) in TABLES.items():
        if name == "m":
            rows = [
                (r[0], r[1], r[2] and Decimal(r[2]), r[3] and datetime.date.fromisoformat(r[3]), *r[4:]) for r in rows
            ]
        made.add(name, columns, rows)
    return made


def all_queries() -> list[tuple[str, str]]:
    """Every query with what DuckDB gets."""
    same = [*SIMPLE, *JOINS, *AGGREGATES, *SET_OPERATIONS, *WINDOWS, *LIMITS, *SUBQUERIES]
    pairs = [(text, text.replace("`", '"')) for text in same]
    return [*pairs, *SEMI, *OTHER_AGGREGATES, *WRITTEN_OTHERWISE, *GENERATORS, *PIVOTS]
