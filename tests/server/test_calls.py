"""Every call: its answer, as JSON and as Arrow."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from tests.server.conftest import ADMIN, Served, code_of

ARROW = {"Accept": "application/vnd.apache.arrow.stream"}


def arrow_of(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()


def test_select(reading: Served) -> None:
    with reading.client(ADMIN) as client:
        answer = client.post("/api/v1/sql", json={"sql": "SELECT * FROM by_region ORDER BY region"}).json()
    assert answer["columns"] == [
        {"name": "region", "type": "STRING"},
        {"name": "total", "type": "DECIMAL(22,2)"},
        {"name": "n", "type": "BIGINT"},
    ]
    assert answer["rows"] == [["EU", "35.00", 2], ["US", "20.50", 1]]
    assert answer["commit"] is None
    assert answer["preview"] is None


def test_values_as_json(reading: Served) -> None:
    query = """SELECT 9007199254740993 AS big, 1.50BD AS exact, DATE '2024-02-29' AS day, X'00FF' AS bytes,
        TIMESTAMP '2024-02-29 12:00:00' AS at, double('NaN') AS nan, double('-Infinity') AS low, 0.5D AS half,
        array(1, NULL) AS list, map('a', 1.5BD) AS pairs, named_struct('x', 1) AS parts, true AS yes, NULL AS nothing"""
    with reading.client(ADMIN) as client:
        row = client.post("/api/v1/sql", json={"sql": query}).json()["rows"][0]
    assert row[:4] == [9007199254740993, "1.50", "2024-02-29", "AP8="]
    assert row[4] == "2024-02-29T12:00:00+00:00"
    assert row[5:8] == ["NaN", "-Infinity", 0.5]
    assert row[8:] == [[1, None], {"a": "1.5"}, {"x": 1}, True, None]


def test_change_and_commit(serve: Callable[..., Served]) -> None:
    with serve().client() as client:
        answer = client.post(
            "/api/v1/sql", json={"sql": "INSERT INTO orders VALUES (4, 'EU', 1), (5, 'ASIA', 2)"}
        ).json()
        commit = answer["commit"]
        assert answer["count"] == 2
        assert commit["epoch"] == 7
        assert commit["changes"]["orders"] == {"inserted": 2, "deleted": 0}
        assert commit["changes"]["by_region"] == {"inserted": 2, "deleted": 1}
        assert commit["report"]["by_region"]["strategy"] == "incremental"
        listed = client.get("/api/v1/commits", params={"limit": 2}).json()["commits"]
        assert [each["epoch"] for each in listed] == [7, 6]
        assert listed[0]["changes"]["by_region"] == {"inserted": 2, "deleted": 1}
        assert listed[0]["milliseconds"] > 0
        earlier = client.get("/api/v1/commits", params={"before": 3}).json()["commits"]
        assert [(each["epoch"], each["created"]) for each in earlier] == [(2, ["secrets"]), (1, ["orders"])]


def test_script_and_transaction(serve: Callable[..., Served]) -> None:
    with serve().client() as client:
        script = "BEGIN; DELETE FROM orders WHERE id = 1; INSERT INTO orders VALUES (9, 'US', 1); COMMIT"
        assert client.post("/api/v1/sql", json={"sql": script}).json()["commit"]["changes"]["orders"] == {
            "inserted": 1,
            "deleted": 1,
        }
        mixed = client.post("/api/v1/sql", json={"sql": "DELETE FROM orders WHERE id = 9; SELECT count(*) FROM orders"})
        assert mixed.json()["rows"] == [[2]]
        assert mixed.json()["commit"]["epoch"] == 8
        left = client.post("/api/v1/sql", json={"sql": "BEGIN; DELETE FROM orders"})
        assert (left.status_code, code_of(left)) == (400, "transaction-left-open")
        failed = client.post("/api/v1/sql", json={"sql": "BEGIN; DELETE FROM orders; SELECT nothing FROM orders"})
        assert failed.json()["statement"] == {"number": 3, "of": 3}
        assert client.post("/api/v1/sql", json={"sql": "SELECT count(*) FROM orders"}).json()["rows"] == [[2]]


def test_preview_changes_nothing(serve: Callable[..., Served]) -> None:
    made = serve()
    made.db.sql("CREATE ASSERTION positive CHECK (NOT EXISTS (SELECT * FROM orders WHERE amount < 0))")
    made.db.sql("CREATE TABLE seen (id BIGINT)")
    made.db.sql("CREATE RULE note ON big WHEN INSERTED DO INSERT INTO seen SELECT id FROM inserted")
    epoch = made.db.epoch
    with made.client() as client:
        call = {"sql": "INSERT INTO orders VALUES (7, 'EU', 50), (8, 'EU', -1)", "preview": True}
        preview = client.post("/api/v1/sql", json=call).json()["preview"]
    assert preview["changes"]["orders"]["inserted"] == 2
    assert preview["changes"]["big"]["updates"] == [{"row": [7, "EU", "50.00"], "diff": 1}]
    assert sorted(each["diff"] for each in preview["changes"]["by_region"]["updates"]) == [-1, 1]
    assert preview["rules"] == [{"rule": "note", "rows": 1}]
    assert [(each["assertion"], each["rows"]) for each in preview["assertions"]] == [("positive", [[8, "EU", "-1.00"]])]
    assert made.db.epoch == epoch


def test_tables_and_views(reading: Served) -> None:
    with reading.client(ADMIN) as client:
        tables = client.get("/api/v1/tables").json()
        views = client.get("/api/v1/views").json()
    assert tables["epoch"] == 6
    orders = tables["tables"][0]
    assert (orders["name"], orders["kind"], orders["key"], orders["rows"]) == ("orders", "table", ["id"], 3)
    assert orders["columns"][0] == {"name": "id", "type": "BIGINT", "nullable": False}
    assert orders["last_change"] == 5
    listed = {each["name"]: each for each in views["views"]}
    assert listed["big"]["materialized"] is False
    assert listed["big"]["rows"] is None
    assert listed["by_region"]["rows"] == 2
    assert listed["by_region"]["lag"] == 0


def test_one_view_in_full(reading: Served) -> None:
    with reading.client(ADMIN) as client:
        view = client.get("/api/v1/views/BY_REGION").json()
        table = client.get("/api/v1/views/orders").json()
        missing = client.get("/api/v1/views/order")
    assert view["name"] == "by_region"
    assert view["keys"] == [["region"]]
    assert view["definition"].startswith("CREATE MATERIALIZED VIEW by_region")
    assert view["reads"] == ["orders"]
    assert "keys: (region)" in view["analysis"]
    assert view["plan"]
    assert view["oldest"] == 3
    assert table["readers"] == ["by_region", "big"]
    assert table["keys"] == [["id"]]
    assert (missing.status_code, code_of(missing)) == (404, "not-found")
    assert missing.json()["hint"] == "did you mean 'orders'?"


def test_rows(reading: Served) -> None:
    with reading.client(ADMIN) as client:
        rows = "/api/v1/views/orders/rows"
        assert sorted(client.get(rows).json()["rows"]) == [[1, "EU", "5.00"], [2, "US", "20.50"], [3, "EU", "30.00"]]
        found = client.get(rows, params={"where": "region = 'EU' AND amount > 10"}).json()
        assert found["rows"] == [[3, "EU", "30.00"]]
        assert found["epoch"] == 6
        one = client.get(rows, params={"limit": 1}).json()
        assert len(one["rows"]) == 1
        assert one["more"] is True
        assert client.get(rows, params={"as_of": 1}).json()["rows"] == []
        assert client.get(rows, params={"as_of": 7}).status_code == 404
        table = arrow_of(client.get("/api/v1/views/big/rows", headers=ARROW).content)
        assert sorted(table["id"].to_pylist()) == [2, 3]
        answer = client.get("/api/v1/views/by_region/rows", headers=ARROW, params={"where": "n = 2"})
        assert answer.headers["x-viewkeeper-epoch"] == "6"
        assert arrow_of(answer.content)["region"].to_pylist() == ["EU"]
        select = client.post("/api/v1/sql", headers=ARROW, json={"sql": "SELECT id FROM orders ORDER BY id"})
        assert arrow_of(select.content)["id"].to_pylist() == [1, 2, 3]


def test_graph(serve: Callable[..., Served]) -> None:
    made = serve()
    made.db.sql("CREATE RULE tell ON (SELECT * FROM big) DO DELETE FROM secrets")
    with made.client() as client:
        graph = client.get("/api/v1/graph").json()
    levels = {node["name"]: (node["kind"], node["level"]) for node in graph["nodes"]}
    assert levels["orders"] == ("table", 0)
    assert levels["big"] == ("view", 1)
    assert levels["by_region"][0] == "materialized view"
    assert levels["tell"] == ("rule", 2)
    assert {"from": "orders", "to": "big"} in graph["edges"]
    assert {"from": "big", "to": "tell"} in graph["edges"]


def test_rules_and_assertions(serve: Callable[..., Served]) -> None:
    made = serve()
    made.db.sql("CREATE RULE note ON big WHEN INSERTED DO INSERT INTO secrets SELECT id, 'seen' FROM inserted")
    made.db.sql("CREATE ASSERTION few ON VIOLATION WARN CHECK (NOT EXISTS (SELECT region FROM by_region WHERE n > 2))")
    with made.client() as client:
        answer = client.post("/api/v1/sql", json={"sql": "INSERT INTO orders VALUES (7, 'EU', 50)"}).json()
        assert answer["commit"]["rules"] == ["note"]
        assert len(answer["commit"]["warnings"]) == 1
        rules = client.get("/api/v1/rules").json()
        assertions = client.get("/api/v1/assertions").json()["assertions"]
        assert client.get("/api/v1/views/few/rows").json()["rows"] == [["EU"]]
    assert (rules["rules"][0]["name"], rules["rules"][0]["watched"]) == ("note", "big")
    assert rules["firings"][0]["rule"] == "note"
    assert [(each["name"], each["violation"], each["violating"], each["rows"]) for each in assertions] == [
        ("few", "warn", 1, [["EU"]])
    ]


def test_health_metrics_and_documents(serve: Callable[..., Served]) -> None:
    made = serve(token=ADMIN)
    with made.client() as client:
        assert client.get("/healthz").json() == {"status": "ok", "failing": []}
        assert client.get("/readyz").json() == {"status": "ok", "failing": []}
        assert client.get("/docs").status_code == 200
        assert client.get("/openapi.json").json()["openapi"].startswith("3.")
        assert client.get("/").status_code == 200
        assert client.get("/metrics").status_code == 401
    with made.client(ADMIN) as client:
        client.post("/api/v1/sql", json={"sql": "DELETE FROM orders WHERE id = 1"})
        text = client.get("/metrics").text
    assert "viewkeeper_epoch 7.0" in text
    assert "viewkeeper_commit_seconds_count 1.0" in text
    assert "viewkeeper_propagation_seconds_count 1.0" in text
    assert 'viewkeeper_http_requests_total{method="POST",route="/api/v1/sql",status="200"} 1.0' in text


def test_calls_that_are_not_there(reading: Served) -> None:
    with reading.client(ADMIN) as client:
        assert code_of(client.get("/api/v1/nothing")) == "no-such-call"
        assert code_of(client.get("/api/v1/sql")) == "wrong-method"
        assert code_of(client.post("/api/v1/sql", json={})) == "bad-request"
        assert code_of(client.post("/api/v1/sql", content=b"{")) == "bad-request"


@pytest.mark.parametrize("readers", [4])
def test_many_selects_at_once_while_commits_go_on(serve: Callable[..., Served], readers: int) -> None:
    made = serve(readers=readers)
    with made.client() as client:

        def select(number: int) -> int:
            query = f"SELECT count(*), {number} FROM orders o JOIN by_region r ON o.region = r.region"
            answer = client.post("/api/v1/sql", json={"sql": query})
            assert answer.status_code == 200, answer.text
            assert answer.json()["rows"][0][1] == number
            return int(answer.json()["rows"][0][0])

        def insert(number: int) -> int:
            answer = client.post("/api/v1/sql", json={"sql": f"INSERT INTO orders VALUES ({100 + number}, 'EU', 1)"})
            assert answer.status_code == 200, answer.text
            return int(answer.json()["commit"]["epoch"])

        with ThreadPoolExecutor(12) as pool:
            epochs = [pool.submit(insert, number) for number in range(8)]
            counts = [pool.submit(select, number) for number in range(24)]
            assert sorted(each.result() for each in epochs) == list(range(7, 15))
            assert all(3 <= each.result() <= 11 for each in counts)
        assert client.get("/healthz").status_code == 200
