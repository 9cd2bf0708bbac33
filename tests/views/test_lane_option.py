"""WITH (lane = ...) and what EXPLAIN VIEW says of lanes: where changes are computed, never what they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import viewkeeper as vk

pytestmark = pytest.mark.driver_lane

TABLES = "CREATE TABLE t (id INT PRIMARY KEY, g STRING, x INT); CREATE TABLE s (g STRING, y INT)"
QUERY = "SELECT t.g, sum(x) AS total, max(y) AS most FROM t JOIN s ON t.g = s.g GROUP BY t.g"


def lanes(commit: Any) -> dict[str, str]:
    return {name: report.lane for name, report in commit.report.items() if report.lane}


def of_small_changes(db: vk.Database, view: str) -> dict[str, Any]:
    changes = json.loads(db.explain(view, format="json"))["changes"]
    return {table: change["lane"] for table, change in changes.items()}


def test_the_engine_maintains_a_view_of_its_lane(connect: Callable[..., vk.Database]) -> None:
    db = connect(durability="process")
    db.sql(TABLES)
    db.sql("INSERT INTO s VALUES ('a', 1), ('b', NULL)")
    db.sql(f"CREATE MATERIALIZED VIEW auto WITH (lane = 'auto') AS {QUERY}")
    db.sql(f"CREATE MATERIALIZED VIEW theirs WITH (lane = 'engine') AS {QUERY}")
    commit = db.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', NULL), (3, 'b', 3), (4, NULL, 4)").commit
    assert lanes(commit) == {"auto": "driver", "theirs": "engine"}
    assert commit.changes["auto"].weights() == commit.changes["theirs"].weights() == {("a", 1, 1): 1, ("b", 3, None): 1}
    assert len(db.ls(hidden=True)) == 8, "views of different lanes share neither groups nor runners-up"
    db.close()
    db = connect(durability="process")
    assert json.loads(db.explain("theirs", format="json"))["options"]["lane"] == "engine"
    assert "lane" not in json.loads(db.explain("auto", format="json"))["options"]
    assert lanes(db.sql("DELETE FROM t WHERE g = 'b'").commit) == {"auto": "driver", "theirs": "engine"}
    db.sql(f"ALTER MATERIALIZED VIEW theirs WITH (lane = 'auto') AS {QUERY}")
    assert len(db.ls(hidden=True)) == 6, "one set of groups, and its runners-up"
    commit = db.sql("UPDATE t SET x = 7 WHERE id = 2").commit
    assert lanes(commit) == {"auto": "driver", "theirs": "driver"}
    assert commit.changes["auto"].weights() == commit.changes["theirs"].weights()
    db.sql(f"ALTER MATERIALIZED VIEW auto WITH (lane = 'engine') AS {QUERY}")
    assert lanes(db.sql("UPDATE t SET x = 8 WHERE id = 2").commit) == {"auto": "engine", "theirs": "driver"}
    assert db.verify().equal


def test_a_recursion_of_the_engine_lane(connect: Callable[..., vk.Database]) -> None:
    db = connect(durability="process")
    db.sql("CREATE TABLE edge (x INT, y INT)")
    query = (
        "WITH RECURSIVE p(x, y) AS (SELECT x, y FROM edge UNION "
        "SELECT p.x, e.y FROM p JOIN edge AS e ON p.y = e.x) SELECT * FROM p"
    )
    db.sql(f"CREATE MATERIALIZED VIEW auto AS {query}")
    db.sql(f"CREATE MATERIALIZED VIEW theirs WITH (lane = 'engine') AS {query}")
    commit = db.sql("INSERT INTO edge VALUES (1, 2), (2, 3), (3, 1)").commit
    assert lanes(commit)["theirs"] == "engine"
    assert commit.changes["auto"].weights() == commit.changes["theirs"].weights()
    commit = db.sql("DELETE FROM edge WHERE x = 2").commit
    assert commit.changes["auto"].weights() == commit.changes["theirs"].weights()
    assert db.explain("auto").count("lane of a small change: driver") == 1
    assert "every round" in db.explain("theirs")


@pytest.mark.parametrize("tuning", [vk.Tuning(), vk.Tuning(driver_rows=0)])
def test_explain_says_the_lane_that_a_change_takes(connect: Callable[..., vk.Database], tuning: vk.Tuning) -> None:
    db = connect(durability="process", tuning=tuning)
    db.sql(TABLES)
    queries = {
        "joined": "SELECT t.id, s.y FROM t LEFT JOIN s ON t.g = s.g AND t.x > 1",
        "called": "SELECT id, soundex(g) AS code FROM t",
        "nested": "SELECT id, array(x) AS xs FROM t",
        "generated": "SELECT id, e FROM t LATERAL VIEW explode(sequence(1, x)) AS e",
    }
    for name, query in queries.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    commit = db.sql("INSERT INTO t VALUES (1, 'a', 1)").commit
    for name in queries:
        said = of_small_changes(db, name)["t"]
        assert said["small change"] == lanes(commit)[name], name
        assert bool(said["on the engine"]) == (said["small change"] == "engine")
    if tuning.driver_rows:
        here = {"small change": "driver", "on the engine": []}
        assert of_small_changes(db, "joined") == {"t": here, "s": here}
        assert "lane of a small change: engine (on the engine: soundex() is left to the engine)" in db.explain("called")
    else:
        assert of_small_changes(db, "joined")["s"]["on the engine"] == ["driver_rows = 0"]


def test_what_is_read_in_full_keeps_a_change_from_the_driver(connect: Callable[..., vk.Database]) -> None:
    db = connect(durability="process", tuning=vk.Tuning(whole_rows=2))
    db.sql(TABLES)
    db.sql("INSERT INTO s VALUES ('a', 1), ('b', 2), ('c', 3)")
    db.sql("CREATE MATERIALIZED VIEW pairs AS SELECT t.id, s.y FROM t JOIN s ON t.x < s.y")
    assert of_small_changes(db, "pairs")["t"] == {"small change": "engine", "on the engine": ["s is read in full"]}
    assert lanes(db.sql("INSERT INTO t VALUES (1, 'a', 1)").commit) == {"pairs": "engine"}
