"""What is said of views in a database, and what the planner makes of their keys."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import viewkeeper as vk
from viewkeeper.catalog.state import Relation
from viewkeeper.maintain import net_changes
from viewkeeper.transaction.open_transaction import OpenTransaction

TABLES = """
    CREATE TABLE t (id INT PRIMARY KEY, g STRING, x INT);
    CREATE TABLE s (k INT PRIMARY KEY, t INT);
    INSERT INTO t VALUES (1, 'a', 5), (2, 'b', NULL), (3, 'a', 7);
    INSERT INTO s VALUES (1, 1), (2, 1), (3, 2)
"""

NOTHING_KEPT = {
    "DISTINCT over a key": "SELECT DISTINCT id, g FROM t",
    "DISTINCT over a join by a key": "SELECT DISTINCT s.k, t.g FROM s JOIN t ON s.t = t.id",
    "GROUP BY a key": "SELECT id, count(*) AS n, sum(x) AS total, max(x) AS most, avg(x) AS mean, count(x) AS there "
    "FROM t GROUP BY id",
    "GROUP BY what determines a key": "SELECT s.k, t.g, count(*) AS n, sum(t.x) AS total FROM s JOIN t ON s.t = t.id "
    "GROUP BY s.k, t.g",
}


@pytest.mark.spark_long
@pytest.mark.parametrize("case", NOTHING_KEPT)
def test_keys_make_counts_and_states_unnecessary(db: vk.Database, case: str) -> None:
    db.sql(TABLES)
    db.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh = 'incremental') AS {NOTHING_KEPT[case]}")
    body = json.loads(db.explain("v", format="json"))
    assert body["auxiliary"] == []
    assert len(body["by keys"]) == 1
    assert body["by keys"][0] in db.explain("v").splitlines()
    with db.transaction() as tx:
        tx.sql("INSERT INTO t VALUES (4, NULL, 1); UPDATE t SET x = NULL WHERE id = 1; DELETE FROM t WHERE id = 3")
        tx.sql("INSERT INTO s VALUES (9, 4); UPDATE s SET t = 2 WHERE k = 1")
    assert tx.commit_info is not None
    assert tx.commit_info.report["v"].strategy == "incremental"
    assert db.verify().equal


def test_without_a_key_they_are_kept(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT DISTINCT g FROM t")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT t, count(*) + 1 AS n FROM s GROUP BY t")
    for name in ("v", "w"):
        assert len(json.loads(db.explain(name, format="json"))["auxiliary"]) == 1


@pytest.mark.spark_long
@pytest.mark.parametrize(
    ("query", "statement", "looked_up"),
    [
        ("SELECT s.k, t.g FROM s JOIN t ON s.t = t.id", "UPDATE t SET g = 'z' WHERE id = 1", []),
        ("SELECT g FROM t", "UPDATE t SET g = 'z' WHERE id = 1", ["v"]),
        ("SELECT id FROM t AS o WHERE EXISTS (SELECT 1 FROM s WHERE s.t = o.id)", "DELETE FROM s", ["v"]),
    ],
)
def test_what_safe_references_delete_is_not_looked_up(
    db: vk.Database, monkeypatch: pytest.MonkeyPatch, query: str, statement: str, looked_up: list[str]
) -> None:
    db.sql(TABLES)
    db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    found: list[str] = []
    check = net_changes.check_minimal

    def noted(tx: OpenTransaction, relation: Relation, net: pa.Table) -> None:
        found.append(relation.name)
        check(tx, relation, net)

    monkeypatch.setattr(net_changes, "check_minimal", noted)
    db.sql(statement)
    assert found == looked_up
    assert db.verify().equal


@pytest.mark.spark_long
def test_a_view_before_it_is_created(db: vk.Database) -> None:
    db.sql(TABLES)
    db.sql("CREATE MATERIALIZED VIEW per_g AS SELECT g, count(*) AS n FROM t GROUP BY g")
    analysis = db.analyze("SELECT s.k, p.n FROM s JOIN t ON s.t = t.id JOIN per_g p ON p.g = t.g")
    assert analysis.keys == [("k",)]
    assert not analysis.duplicates
    assert [reference["table"] for reference in analysis.to_json()["references"]] == ["s", "t", "per_g"]
    assert all(verdict.is_safe for verdict in analysis.findings.verdicts)
    lines = [line for (line,) in db.sql("ANALYZE VIEW SELECT g FROM t WHERE x = 5").rows()]
    assert lines[:2] == [
        "the view: g",
        "keys: none known: there may be duplicates, and a count is stored with each row",
    ]
    assert "you could add t.id to the SELECT list: t is safe then, and there are no duplicates" in lines
    assert str(db.view("per_g").analysis).startswith("per_g: g, n\nkeys: (g)\n")


@pytest.mark.spark_long
def test_outer_joins_and_set_operations_have_keys_too(db: vk.Database) -> None:
    db.sql(TABLES)
    keys = {
        "SELECT s.k, t.g FROM s LEFT JOIN t ON s.t = t.id": [("k",)],
        "SELECT t.id, s.k FROM t LEFT JOIN s ON s.t = t.id": [("id", "k")],
        "SELECT id FROM t INTERSECT SELECT k FROM s": [("id",)],
        "SELECT id FROM t EXCEPT ALL SELECT k FROM s": [("id",)],
        "SELECT id FROM t UNION ALL SELECT k FROM s": [],
        "SELECT count(*) AS n FROM t": [()],
        "SELECT g FROM t ORDER BY id LIMIT 1": [()],
        "SELECT x FROM t WHERE id = 1": [()],
    }
    for query, wanted in keys.items():
        assert db.analyze(query).keys == wanted, query


@pytest.mark.spark_long
def test_a_union_can_be_split(db: vk.Database) -> None:
    db.sql(TABLES)
    advice = db.analyze("SELECT id FROM t UNION SELECT k FROM s UNION SELECT id + 1 FROM t").advice
    assert [one.text for one in advice] == []  # id + 1 is not known to be a key
    advice = db.analyze("SELECT id FROM t UNION SELECT k FROM s").advice
    assert [(one.text, one.effect) for one in advice] == [
        (
            "split the UNION: create a view for each of its 2 branches",
            "none of them has duplicates, so no counts are stored",
        )
    ]


@pytest.mark.spark_long
def test_what_reads_a_whole_table_is_said(db: vk.Database) -> None:
    db.sql(TABLES)
    body = db.analyze("SELECT t.id, s.k FROM t, s WHERE t.x < s.t").to_json()
    insert = body["references"][0]["operations"]["insert"]
    assert (insert["effort"], insert["reads"]) == ("whole", ["all of s"])
    assert insert["cost"].endswith("better left virtual, or with refresh = 'full'")


@pytest.mark.spark_long
def test_errors(db: vk.Database) -> None:
    db.sql(TABLES)
    with pytest.raises(vk.errors.SqlError, match="ANALYZE VIEW needs a query"):
        db.sql("ANALYZE VIEW v")
    with pytest.raises(vk.errors.NotMaintainable, match="rand"):
        db.analyze("SELECT rand() AS r FROM t")
    db.datalog(".decl p(x:number) .output p p(x) :- s(x, _).")
    with pytest.raises(vk.errors.NotMaintainable, match="p is defined by rules"):
        _ = db.view("p").analysis


@pytest.mark.spark_long
def test_only_what_can_be_selected_is_suggested(db: vk.Database) -> None:
    db.sql(TABLES)
    query = "SELECT q.g FROM (SELECT g FROM t) AS q LEFT SEMI JOIN t AS r ON q.g = r.g"
    assert "add" not in " ".join(advice.text.split()[0] for advice in db.analyze(query).advice)
