"""Outer, semi and anti joins, alone and in chains, read other tables by key when few rows change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import viewkeeper as vk

ROWS = 600
FILES = 60
TABLES = ("b", "d1", "d2", "d3")
TUNING = vk.Tuning(inlined_rows=0, whole_rows=0, picked_rows=0, cached_rows=0, file_rows=ROWS // FILES, stage_rows=100)
"""Small tables are handled like large ones: no table is read in full because it is small."""

VIEWS = {
    "lefts_by_one_key": "SELECT b.id, d1.v, d2.v AS v2, d3.v AS v3 FROM b LEFT JOIN d1 ON b.k = d1.k "
    "LEFT JOIN d2 ON b.k = d2.k LEFT JOIN d3 ON b.k = d3.k",
    "lefts_in_a_row": "SELECT b.id, d1.v, d2.v AS v2, d3.v AS v3 FROM b LEFT JOIN d1 ON b.k = d1.k "
    "LEFT JOIN d2 ON d1.k = d2.k LEFT JOIN d3 ON d2.k = d3.k",
    "right_and_left": "SELECT b.id, d1.v, d2.v AS v2 FROM b RIGHT JOIN d1 ON b.k = d1.k LEFT JOIN d2 ON b.k = d2.k",
    "fulls_by_one_key": "SELECT b.id, d1.v, d2.v AS v2 FROM b FULL JOIN d1 ON b.k = d1.k FULL JOIN d2 ON b.k = d2.k",
    "fulls_in_a_row": "SELECT b.id, d1.v, d2.v AS v2, d3.v AS v3 FROM b FULL JOIN d1 ON b.k = d1.k "
    "FULL JOIN d2 ON d1.k = d2.k FULL JOIN d3 ON d2.k = d3.k",
    "fulls_using": "SELECT k, b.id, d1.v, d2.v AS v2 FROM b FULL JOIN d1 USING (k) FULL JOIN d2 USING (k)",
    "full_and_left": "SELECT b.id, d1.v, d2.v AS v2 FROM b FULL JOIN d1 ON b.k = d1.k LEFT JOIN d2 ON d1.k = d2.k",
    "left_and_full": "SELECT b.id, d1.v, d2.v AS v2 FROM b LEFT JOIN d1 ON b.k = d1.k FULL JOIN d2 ON d1.k = d2.k",
    "null_safe": "SELECT b.id, d1.v, d2.v AS v2 FROM b LEFT JOIN d1 ON b.k <=> d1.k LEFT JOIN d2 ON b.k <=> d2.k",
    "left_and_inner": "SELECT b.id, d1.v, d2.v AS v2 FROM b LEFT JOIN d1 ON b.k = d1.k JOIN d2 ON d1.j = d2.k",
    "inner_and_left": "SELECT b.id, d1.v, d2.v AS v2, d3.v AS v3 FROM b JOIN d1 ON b.k = d1.k "
    "LEFT JOIN d2 ON d1.k = d2.k LEFT JOIN d3 ON b.j = d3.k",
    "left_of_a_full": "SELECT b.id, x.v FROM b LEFT JOIN "
    "(SELECT d1.k, d2.v FROM d1 FULL JOIN d2 ON d1.k = d2.k) AS x ON b.k = x.k",
    "left_and_semi": "SELECT b.id, d1.v FROM b LEFT JOIN d1 ON b.k = d1.k LEFT SEMI JOIN d2 ON d1.j = d2.k",
    "left_and_anti": "SELECT b.id, d1.v FROM b LEFT JOIN d1 ON b.k = d1.k LEFT ANTI JOIN d2 ON b.k = d2.k",
    "semi_and_anti": "SELECT b.id FROM b LEFT SEMI JOIN d1 ON b.k = d1.k LEFT ANTI JOIN d2 ON b.k = d2.k "
    "LEFT SEMI JOIN d3 ON b.j = d3.k",
}

CHANGES = (
    "INSERT INTO {} VALUES (5000, 55, 77, 3)",
    "UPDATE {} SET k = 9000, j = 9001 WHERE id = 5000",
    "UPDATE {} SET k = NULL, j = NULL WHERE id = 5000",
    "DELETE FROM {} WHERE id = 5000",
    "DELETE FROM {} WHERE id = 201",
    "INSERT INTO {} VALUES (201, 201, 407, 5)",
)


@pytest.mark.spark_long
def test_no_table_is_read_in_full(connect: Callable[..., vk.Database]) -> None:
    db = connect(tuning=TUNING, durability="process")
    for table in TABLES:
        db.sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, k BIGINT, j BIGINT, v BIGINT)")
        key = "CASE WHEN id % 97 = 0 THEN NULL ELSE id END"
        db.sql(f"INSERT INTO {table} SELECT id, {key}, id * 2 + 5, id % 11 FROM range({ROWS})")
    for name, text in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} WITH (refresh = 'incremental') AS {text}")
    assert [row["files"] for row in db.ls() if row["name"] in TABLES] == [FILES] * len(TABLES)
    changed = set()
    for change in [change.format(table) for table in TABLES for change in CHANGES]:
        commit = db.sql(change).commit
        assert commit is not None
        reports = {name: report for name, report in commit.report.items() if name in VIEWS}
        wide = {name: report.files_read for name, report in reports.items() if report.files_read >= FILES}
        assert not wide, f"{change} reads too many files: {wide}"
        changed |= {name for name, report in reports.items() if report.rows_changed}
    assert changed == set(VIEWS)
    assert db.verify().equal
