"""A database that cannot be written can be read: without a lease, and with a word about what that means."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import viewkeeper as vk
from tests.faults import read_only
from tests.processes import child


def tree(lake: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in lake.rglob("*") if path.is_file()}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        db.sql(
            """CREATE TABLE t (k BIGINT PRIMARY KEY, s STRUCT<a: BIGINT>);
            INSERT INTO t VALUES (1, named_struct('a', 1)), (2, NULL);
            CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t;
            INSERT INTO t VALUES (3, named_struct('a', 3))"""
        )
    shutil.copytree(tmp_path / "lake", tmp_path / "warm")
    return tmp_path / "lake"


def close_to_writers(lake: Path) -> None:
    """Everyone may read everything, and its owner (unless that is root) may write nothing."""
    for directory, _, names in os.walk(lake):
        os.chmod(directory, 0o555)
        for name in names:
            os.chmod(os.path.join(directory, name), 0o444)
    for above in lake.parents:
        if not os.stat(above).st_mode & 0o001:
            os.chmod(above, os.stat(above).st_mode | 0o011)


def test_a_read_only_database_answers_queries(lake: Path) -> None:
    close_to_writers(lake)
    before = tree(lake)
    with child(read_only, lake, lake.parent / "warm", "sail") as reader:
        said, errors = reader.communicate(timeout=240)
        assert reader.returncode == 0, errors
    answers: list[dict[str, Any]] = [json.loads(line) for line in said.splitlines()]
    select, past, ls, history, verify, _doctor, *writes = answers
    assert [row["k"] for row in json.loads(select["out"])] == [1, 2, 3], select
    assert [row["k"] for row in json.loads(past["out"])] == [1, 2], past
    assert [row["name"] for row in json.loads(ls["out"])] == ["t", "v"]
    assert [row["epoch"] for row in json.loads(history["out"])] == [4, 3, 2, 1]
    assert json.loads(verify["out"])["equal"] is True
    assert [row["code"] for row in answers[:6]] == [0] * 6, answers
    warning = (
        f"viewkeeper: no lease can be written in {lake} (Permission denied), so it is open for reading only, and a "
        "vacuum by another process may delete files while they are read here\n"
    )
    told = "".join(answer["err"] for answer in answers) + errors
    assert told.count(warning) == 1, told
    for write in writes[:2]:
        assert write["code"] == 1, write
        assert f"the database is open for reading only: Permission denied ({lake})" in write["err"]
        assert "make its directory writable" in write["err"]
    assert tree(lake) == before
