"""docs/views.md tells the truth: its statements run, and what it quotes is what is said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import viewkeeper as vk

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "views.md").read_text()


def quoted(start: str) -> str:
    """An indented block of the page, by its first line."""
    lines = PAGE[PAGE.index(f"    {start}") :].splitlines()
    block = []
    for line in lines:
        if not line.startswith("    "):
            break
        block.append(line[4:])
    return "\n".join(block)


def test_the_page(tmp_path: Path) -> None:
    (script,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        db.sql(script)
        assert sorted(row[0] for row in db.sql("SELECT * FROM totals").rows()) == ["EU", "US"]
        explained = "\n".join(line for (line,) in db.sql("EXPLAIN DELETE FROM orders").rows())
        assert explained == quoted("DELETE changes orders")
        with pytest.raises(vk.errors.SqlError) as found:
            db.sql("DROP TABLE orders")
        message, hint = quoted("orders cannot be dropped").split("\n")
        assert str(found.value).startswith(message)
        assert str(found.value).endswith(hint)
        shown = re.sub(r"\d+|checksum \w+", "n", quoted("totals: equal"))
        assert re.sub(r"\d+|checksum \w+", "n", str(db.verify("totals"))) == shown


def test_views_over_a_demand_view_follow_its_refresh(tmp_path: Path) -> None:
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        db.sql(
            "CREATE TABLE t (id INT); CREATE MATERIALIZED VIEW d WITH (on = 'demand') AS SELECT id FROM t;"
            "CREATE MATERIALIZED VIEW c AS SELECT count(*) AS n FROM d; INSERT INTO t VALUES (1)"
        )
        assert db.sql("SELECT n FROM c").rows() == [(0,)]
        assert db.verify().equal
        commit = db.sql("REFRESH d").commit
        assert commit is not None
        assert commit.changes["c"].weights() == {(0,): -1, (1,): 1}
        assert db.verify().equal
