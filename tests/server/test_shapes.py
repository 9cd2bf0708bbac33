"""The npm client of ElectricSQL follows tables and views: its copy equals the view at every offset."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Request
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import viewkeeper as vk
from tests.server.caching_proxy import caching
from tests.server.conftest import ADMIN
from tests.server.electric_client import Client, free_port, served, sorted_rows
from viewkeeper.server.shape_log import Readable

SCRIPT = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, region STRING NOT NULL, amount DECIMAL(12,2));
CREATE TABLE edges (a STRING, b STRING);
CREATE MATERIALIZED VIEW totals AS SELECT region, count(*) AS n, sum(amount) AS total FROM orders GROUP BY region;
CREATE VIEW regions AS SELECT region FROM orders;
CREATE VIEW paths AS
  WITH RECURSIVE p(a, b) AS (SELECT a, b FROM edges UNION SELECT p.a, e.b FROM p JOIN edges e ON p.b = e.a)
  SELECT a, b FROM p;
INSERT INTO orders VALUES (1, 'EU', 10.50), (2, 'US', 20.00), (3, 'EU', 5.25);
INSERT INTO edges VALUES ('a', 'b'), ('b', 'c');
"""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[vk.Database]:
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        db.sql(SCRIPT)
        yield db


@pytest.fixture
def follow() -> Iterator[Callable[..., Client]]:
    started: list[Client] = []

    def start(url: str, table: str, *, options: dict[str, Any] | None = None, **params: Any) -> Client:
        started.append(Client(url, params={"table": table, **params}, **(options or {})))
        return started[-1]

    yield start
    for each in started:
        each.close()
        assert each.warnings == []


def rows_of(db: vk.Database, query: str) -> list[dict[str, Any]]:
    """The rows of a query as the client has them: decimals as strings."""
    result = db.sql(query)
    names = result.columns
    plain = [[value if isinstance(value, int | str | None) else str(value) for value in row] for row in result.rows()]
    return [dict(zip(names, row, strict=True)) for row in plain]


def check_every_state(
    db: vk.Database, client: Client, query: str, known: dict[tuple[str, int], list[dict[str, Any]]] | None = None
) -> None:
    """Every state that the client was in is that of the view at its offset."""
    found = {} if known is None else known
    for state in client.states:
        epoch = int(state["offset"].partition("_")[0])
        if (query, epoch) not in found:
            found[query, epoch] = rows_of(db, f"{query} AS OF EPOCH {epoch}")
        assert sorted_rows(state["rows"]) == sorted_rows(found[query, epoch]), epoch
    epochs = [int(state["offset"].partition("_")[0]) for state in client.states]
    assert epochs == sorted(epochs)


def in_one_epoch(db: vk.Database, *statements: str) -> None:
    with db.transaction() as tx:
        for statement in statements:
            tx.sql(statement)


def test_a_table_with_inserts_updates_and_deletes_in_one_epoch(lake, follow) -> None:
    with served(lake) as url:
        client = follow(url, "orders")
        client.wait(rows_of(lake, "SELECT * FROM orders"))
        in_one_epoch(
            lake,
            "INSERT INTO orders VALUES (4, 'ASIA', NULL)",
            "UPDATE orders SET amount = 11 WHERE id = 1",
            "DELETE FROM orders WHERE id = 2",
        )
        found = client.wait(rows_of(lake, "SELECT * FROM orders"))
        assert found["operations"] == [
            ["delete", '"public"."orders"/"2"', {"id": 2}, None],
            ["update", '"public"."orders"/"1"', {"id": 1, "amount": "11.00"}, None],
            ["insert", '"public"."orders"/"4"', {"id": 4, "region": "ASIA", "amount": None}, None],
        ]
        assert found["keys"] == ['"public"."orders"/"1"', '"public"."orders"/"3"', '"public"."orders"/"4"']
        check_every_state(lake, client, "SELECT * FROM orders")


def test_replica_full_tells_whole_rows(lake, follow) -> None:
    with served(lake) as url:
        client = follow(url, "orders", replica="full")
        client.wait(rows_of(lake, "SELECT * FROM orders"))
        in_one_epoch(lake, "UPDATE orders SET amount = 11 WHERE id = 1", "DELETE FROM orders WHERE id = 2")
        found = client.wait(rows_of(lake, "SELECT * FROM orders"))
        whole = {"id": 1, "region": "EU", "amount": "11.00"}
        assert found["operations"] == [
            ["delete", '"public"."orders"/"2"', {"id": 2, "region": "US", "amount": "20.00"}, None],
            ["update", '"public"."orders"/"1"', whole, {"amount": "10.50"}],
        ]


def test_a_materialized_view_by_its_key_from_the_analysis(lake, follow) -> None:
    with served(lake) as url:
        client = follow(url, "totals")
        client.wait(rows_of(lake, "SELECT * FROM totals"))
        lake.sql("INSERT INTO orders VALUES (4, 'EU', 1), (5, 'ASIA', 2)")
        found = client.wait(rows_of(lake, "SELECT * FROM totals"))
        assert [(each[0], each[1]) for each in found["operations"]] == [
            ("update", '"public"."totals"/"EU"'),
            ("insert", '"public"."totals"/"ASIA"'),
        ]
        lake.sql("DELETE FROM orders WHERE region = 'US'")
        client.wait(rows_of(lake, "SELECT * FROM totals"))
        check_every_state(lake, client, "SELECT * FROM totals")


def test_duplicates_of_a_view_without_a_key(lake, follow) -> None:
    with served(lake) as url:
        client = follow(url, "regions")
        client.wait([{"region": "EU"}, {"region": "US"}, {"region": "EU"}])
        lake.sql("INSERT INTO orders VALUES (4, 'EU', 1), (5, 'EU', 1), (6, 'ASIA', 1)")
        found = client.wait([{"region": region} for region in ("EU", "EU", "EU", "EU", "US", "ASIA")])
        assert len(set(found["keys"])) == 6
        lake.sql("DELETE FROM orders WHERE id IN (1, 3, 5)")
        client.wait([{"region": "EU"}, {"region": "US"}, {"region": "ASIA"}])
        lake.sql("INSERT INTO orders VALUES (7, 'EU', 1)")
        client.wait([{"region": region} for region in ("EU", "EU", "US", "ASIA")])
        many = ", ".join(f"({number}, 'r{number % 30}', 1)" for number in range(100, 160))
        lake.sql(f"INSERT INTO orders VALUES {many}")
        client.wait(rows_of(lake, "SELECT * FROM regions"))
        lake.sql("DELETE FROM orders WHERE id >= 100")
        client.wait([{"region": region} for region in ("EU", "EU", "US", "ASIA")])
        check_every_state(lake, client, "SELECT region FROM orders")


def test_a_recursive_virtual_view(lake, follow) -> None:
    with served(lake) as url:
        client = follow(url, "paths")
        client.wait(rows_of(lake, "SELECT * FROM paths"))
        lake.sql("INSERT INTO edges VALUES ('c', 'd'), ('d', 'a')")
        client.wait(rows_of(lake, "SELECT * FROM paths"))
        lake.sql("DELETE FROM edges WHERE a = 'b'")
        client.wait(rows_of(lake, "SELECT * FROM paths"))
        check_every_state(lake, client, "SELECT * FROM paths")


def test_a_condition_and_columns(lake, follow) -> None:
    with served(lake) as url:
        client = follow(
            url, "orders", where='"region" = $1 AND amount > $2', params=["EU", "5"], columns=["id", "region"]
        )
        part = "SELECT id, region FROM orders WHERE region = 'EU' AND amount > 5"
        client.wait(rows_of(lake, part))
        in_one_epoch(
            lake,
            "INSERT INTO orders VALUES (4, 'EU', 7), (5, 'EU', 1), (6, 'US', 7)",
            "UPDATE orders SET amount = 4 WHERE id = 1",
            "UPDATE orders SET amount = 6 WHERE id = 3",
        )
        found = client.wait(rows_of(lake, part))
        assert [(each[0], each[1]) for each in found["operations"]] == [
            ("delete", '"public"."orders"/"1"'),
            ("insert", '"public"."orders"/"4"'),
        ]
        check_every_state(lake, client, part)


def test_events_instead_of_long_polling(lake, follow) -> None:
    with served(lake) as url:
        client = follow(url, "totals", options={"liveSse": True})
        client.wait(rows_of(lake, "SELECT * FROM totals"))
        for number in range(10, 15):
            lake.sql(f"INSERT INTO orders VALUES ({number}, 'EU', 1)")
        client.wait(rows_of(lake, "SELECT * FROM totals"))
        check_every_state(lake, client, "SELECT * FROM totals")


def test_a_restarted_server_goes_on_with_the_same_handle(tmp_path: Path, lake, follow) -> None:
    port = free_port()
    with served(lake, port) as url:
        client = follow(url, "totals")
        before = client.wait(rows_of(lake, "SELECT * FROM totals"))
    lake.close()
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        db.sql("INSERT INTO orders VALUES (4, 'EU', 1), (5, 'ASIA', 2)")
        with served(db, port) as url:
            after = client.wait(rows_of(db, "SELECT * FROM totals"))
            assert (after["handle"], after["refetches"]) == (before["handle"], 0)
            kept = {"offset": before["offset"], "handle": before["handle"]}
            resumed = follow(url, "totals", options=kept)
            changed = resumed.next()
            assert [each[0] for each in changed["operations"]] == ["update", "insert"]
            check_every_state(db, client, "SELECT * FROM totals")


@pytest.mark.parametrize("most", [100, 1])
def test_random_changes_and_restarts(lake, follow, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    for module in ("feeds", "subscription"):  # with 1, frames are often the net of several epochs
        monkeypatch.setattr(f"viewkeeper.feed.{module}.MOST_FRAMES", most)
    monkeypatch.setattr("viewkeeper.server.shape_calls.LIVE_SECONDS", 1.0)
    monkeypatch.setattr("viewkeeper.server.shape_calls.EVENT_SECONDS", 1.0)
    chance = random.Random(14)
    port = free_port()
    queries = {
        "orders": "SELECT * FROM orders",
        "totals": "SELECT * FROM totals",
        "regions": "SELECT region FROM orders",
        "paths": "SELECT * FROM paths",
        "part": "SELECT id, amount FROM orders WHERE region = 'EU'",
        "events": "SELECT region FROM orders",
    }
    clients: dict[str, Client] = {}
    known: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for _ in range(3):
        with served(lake, port) as url:
            for name in queries if not clients else ():
                match name:
                    case "part":
                        found = follow(url, "orders", where="region = $1", params=["EU"], columns=["id", "amount"])
                    case "events":
                        found = follow(url, "regions", options={"liveSse": True})
                    case _:
                        found = follow(url, name)
                clients[name] = found
            for _ in range(8):
                in_one_epoch(lake, *random_statements(chance))
                time.sleep(chance.choice((0, 0, 0.05, 0.2)))
        for _ in range(chance.randrange(4)):
            in_one_epoch(lake, *random_statements(chance))
    with served(lake, port):
        for name, client in clients.items():
            until = lake.epoch
            while int(client.next()["offset"].partition("_")[0]) < until:
                pass
            check_every_state(lake, client, queries[name], known)
            assert client.states[-1]["refetches"] == 0
            assert len(client.states) > 5


def random_statements(chance: random.Random) -> Iterator[str]:
    """Statements that insert, change and delete some of few rows."""
    for _ in range(chance.randrange(1, 3)):
        number, region = chance.randrange(12), chance.choice(("EU", "US", "ASIA"))
        yield f"DELETE FROM orders WHERE id = {number}"
        if chance.random() < 0.7:
            yield f"INSERT INTO orders VALUES ({number}, '{region}', {chance.randrange(4)})"
        a, b = chance.choice("abcd"), chance.choice("abcd")
        yield f"DELETE FROM edges WHERE a = '{a}' AND b = '{b}'"
        if chance.random() < 0.5:
            yield f"INSERT INTO edges VALUES ('{a}', '{b}')"


def test_a_redefined_view_is_fetched_again(lake, follow) -> None:
    with served(lake) as url:
        client = follow(url, "totals")
        before = client.wait(rows_of(lake, "SELECT * FROM totals"))
        lake.sql(
            "ALTER MATERIALIZED VIEW totals AS "
            "SELECT region, count(*) AS n, max(amount) AS total FROM orders GROUP BY region"
        )
        after = client.wait(rows_of(lake, "SELECT * FROM totals"))
        assert after["refetches"] == 1
        assert after["handle"] != before["handle"]
        in_one_epoch(
            lake,
            "DROP MATERIALIZED VIEW totals",
            "CREATE VIEW totals AS SELECT region, sum(id) AS ids FROM orders GROUP BY region",
        )
        client.wait(rows_of(lake, "SELECT * FROM totals"))
        lake.sql("INSERT INTO orders VALUES (4, 'EU', 100)")
        client.wait(rows_of(lake, "SELECT * FROM totals"))


def test_a_view_over_a_view_that_is_redefined(lake, follow) -> None:
    lake.sql("CREATE VIEW many AS SELECT region, n FROM totals WHERE n > 1")
    with served(lake) as url:
        whole = follow(url, "many")
        part = follow(url, "many", where="n < 9")
        for client in (whole, part):
            client.wait([{"region": "EU", "n": 2}])
        lake.sql("CREATE OR REPLACE VIEW many AS SELECT region, n * 2 AS n FROM totals")
        for client in (whole, part):
            client.wait([{"region": "EU", "n": 4}, {"region": "US", "n": 2}])
        lake.sql(
            "ALTER MATERIALIZED VIEW totals AS "
            "SELECT region, count(*) + 1 AS n, sum(amount) AS total FROM orders GROUP BY region"
        )
        for client in (whole, part):
            client.wait([{"region": "EU", "n": 6}, {"region": "US", "n": 4}])
        lake.sql("INSERT INTO orders VALUES (4, 'EU', 1), (5, 'EU', 1)")
        whole.wait([{"region": "EU", "n": 10}, {"region": "US", "n": 4}])
        part.wait([{"region": "US", "n": 4}])


def test_a_dropped_view_is_an_error(lake, follow) -> None:
    with served(lake) as url:
        client = follow(url, "regions")
        client.next()
        lake.sql("DROP VIEW regions")
        found = client.next()
        while "error" not in found:
            found = client.next()
        assert found["error"] == 404
        assert "regions" in found["text"]


def test_changes_that_are_no_longer_kept_are_fetched_again(tmp_path: Path, follow) -> None:
    port = free_port()
    with vk.connect(tmp_path / "short", engine="sail", keep="0 seconds") as db:
        db.sql(SCRIPT)
        with served(db, port) as url:
            client = follow(url, "orders")
            before = client.wait(rows_of(db, "SELECT * FROM orders"))
        for number in range(10, 14):
            db.sql(f"INSERT INTO orders VALUES ({number}, 'EU', 1)")
        db.compact()
        with served(db, port) as url:
            after = client.wait(rows_of(db, "SELECT * FROM orders"))
            assert after["refetches"] == 1
            assert after["handle"] != before["handle"]
            db.sql("DELETE FROM orders WHERE id = 10")
            client.wait(rows_of(db, "SELECT * FROM orders"))


def test_subsets_of_a_shape_that_is_followed_from_now_on(lake, follow) -> None:
    with served(lake) as url:
        for method in ("GET", "POST"):
            options = {"offset": "now", "log": "changes_only", "subsetMethod": method}
            client = follow(url, "orders", options=options)
            assert client.next()["rows"] == []
            client.ask(where="region = $1", params={"1": "EU"})
            eu = "SELECT * FROM orders WHERE region = 'EU'"
            client.wait(rows_of(lake, eu))
            lake.sql("UPDATE orders SET amount = amount + 1")
            client.wait(rows_of(lake, eu))
            client.ask(orderBy='"amount" DESC NULLS LAST', limit=1, where="region <> 'EU'")
            client.wait(rows_of(lake, "SELECT * FROM orders"))
            client.close()


def test_a_binding_is_not_widened_by_a_condition(lake, follow) -> None:
    async def access(request: Request, table: str) -> Readable:
        region = request.headers["authorization"].removeprefix("Bearer ")
        return Readable(table, f"region = '{region}'", private=True)

    with served(lake, access=access) as url:
        options = {"headers": {"Authorization": "Bearer EU"}}
        client = follow(url, "orders", options=options, where="region = 'US' OR id > 1")
        part = "SELECT * FROM orders WHERE region = 'EU' AND id > 1"
        client.wait(rows_of(lake, part))
        in_one_epoch(
            lake,
            "UPDATE orders SET region = 'EU' WHERE id = 2",
            "INSERT INTO orders VALUES (4, 'EU', 1), (5, 'US', 1)",
        )
        client.wait(rows_of(lake, part))
        check_every_state(lake, client, part)
        query = {"table": "orders", "offset": "-1"}
        answers = [httpx.get(f"{url}/v1/shape", params=query, headers={"Authorization": who}) for who in ("EU", "US")]
        assert len({answer.headers["electric-handle"] for answer in answers}) == 2
        for answer in answers:
            assert answer.headers["cache-control"].startswith("private,")
            assert answer.headers["vary"] == "Authorization"
        other = {
            **query,
            "offset": answers[0].headers["electric-offset"],
            "handle": answers[0].headers["electric-handle"],
        }
        assert httpx.get(f"{url}/v1/shape", params=other, headers={"Authorization": "US"}).status_code == 409


def test_tokens_of_the_server(serve, follow) -> None:
    made = serve(token="an-admin-token", allow_origin=("https://page.example",))
    bound = made.token("eu", totals="region = 'EU'", orders=None)
    headers = {"Authorization": f"Bearer {bound}"}
    whole = follow(made.url, "orders", options={"headers": headers})
    part = follow(made.url, "totals", options={"headers": headers})
    whole.wait(rows_of(made.db, "SELECT * FROM orders"))
    part.wait(rows_of(made.db, "SELECT * FROM totals WHERE region = 'EU'"))
    made.db.sql("INSERT INTO orders VALUES (4, 'EU', 1), (5, 'US', 1)")
    whole.wait(rows_of(made.db, "SELECT * FROM orders"))
    part.wait(rows_of(made.db, "SELECT * FROM totals WHERE region = 'EU'"))
    assert follow(made.url, "edges", options={"headers": headers}).next()["error"] == 403
    assert follow(made.url, "orders").next()["error"] == 401
    asked = {"table": "orders", "offset": "-1"}
    for origin, allowed in (("https://page.example", "https://page.example"), ("https://other.example", None)):
        answer = httpx.get(f"{made.url}/v1/shape", params=asked, headers={**headers, "Origin": origin})
        assert answer.headers.get("access-control-allow-origin") == allowed
        assert "electric-handle" in answer.headers["access-control-expose-headers"]
    before = {"offset": answer.headers["electric-offset"], "handle": answer.headers["electric-handle"]}
    waiting = threading.Thread(
        target=lambda: answers.append(
            httpx.get(f"{made.url}/v1/shape", params={**asked, **before, "live": "true"}, headers=headers, timeout=30)
        )
    )
    answers: list[httpx.Response] = []
    waiting.start()
    time.sleep(0.5)
    began = time.monotonic()
    made.stop()
    waiting.join()
    assert time.monotonic() - began < 8
    assert (answers[0].status_code, len(answers[0].json())) == (200, 1)


def test_values_of_all_types(tmp_path: Path, follow) -> None:
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        db.sql("""
            CREATE TABLE every (
                tiny TINYINT, small SMALLINT, i INT, big BIGINT NOT NULL, f FLOAT, d DOUBLE, dec DECIMAL(20,5),
                s STRING, bin BINARY, yes BOOLEAN, day DATE, at TIMESTAMP, plain TIMESTAMP_NTZ, numbers ARRAY<INT>,
                names ARRAY<STRING>, nested ARRAY<ARRAY<INT>>, m MAP<STRING,INT>, st STRUCT<a: INT, b: STRING>);
            INSERT INTO every SELECT 1Y, 2S, 3, 9223372036854775807, CAST(0.1 AS FLOAT), 1e300,
                CAST('1.50000' AS DECIMAL(20,5)),
                'it''s "q" / ü', X'00ff', true, DATE'2024-02-29', TIMESTAMP'2024-01-02 03:04:05.678',
                TIMESTAMP_NTZ'2024-01-02 03:04:05', array(1, NULL, 3), array('a,b', 'NULL', NULL, '"', '\\\\', ''),
                array(array(1), array()), map('k', 1), named_struct('a', 1, 'b', 'x');
            INSERT INTO every (big, d, f) VALUES (1, CAST('NaN' AS DOUBLE), CAST('Infinity' AS FLOAT));
        """)
        with served(db) as url:
            found = follow(url, "every").next()
            whole, bare = sorted(found["rows"], key=lambda row: row["s"] is None)
            assert whole == {
                **{"tiny": 1, "small": 2, "i": 3, "big": "9223372036854775807", "f": 0.1, "d": 1e300},
                **{"dec": "1.50000", "s": 'it\'s "q" / ü', "bin": "\\x00ff", "yes": True, "day": "2024-02-29"},
                **{"at": "2024-01-02 03:04:05.678+00", "plain": "2024-01-02 03:04:05", "numbers": [1, None, 3]},
                **{"names": ["a,b", "NULL", None, '"', "\\", ""], "nested": [[1], []], "m": {"k": 1}},
                "st": {"a": 1, "b": "x"},
            }
            assert {name for name, value in bare.items() if value is not None} == {"big"}  # JSON has no NaN
            text = httpx.get(f"{url}/v1/shape", params={"table": "every", "offset": "-1"}).json()
            values = next(message["value"] for message in text if message.get("value", {}).get("s") is None)
            assert (values["d"], values["f"]) == ("NaN", "Infinity")


BAD = [
    ({"offset": "-1"}, 400, "table"),
    ({"table": "orders"}, 400, "offset"),
    ({"table": "orders", "offset": "x"}, 400, "not an offset"),
    ({"table": "orders", "offset": "3_0"}, 400, "handle"),
    ({"table": "orders", "offset": "-1", "live": "true"}, 400, "live"),
    ({"table": "nowhere", "offset": "-1"}, 404, "nowhere"),
    ({"table": "orders", "offset": "-1", "columns": "nothing"}, 400, "nothing"),
    ({"table": "orders", "offset": "-1", "where": "nothing = 1"}, 400, "nothing"),
    ({"table": "orders", "offset": "-1", "where": "id = 1; DROP TABLE orders"}, 400, "condition"),
    ({"table": "orders", "offset": "-1", "where": "id IN (SELECT 1)"}, 400, "query"),
    ({"table": "orders", "offset": "-1", "where": "id = 1) OR (1 = 1"}, 400, "condition"),
    ({"table": "orders", "offset": "-1", "where": "id = $1"}, 400, "params[1]"),
    ({"table": "orders", "offset": "-1", "where": "id = $1", "params[1]": "1 OR 1=1"}, 400, "$1"),
    ({"table": "orders", "offset": "-1", "replica": "some"}, 400, "replica"),
    ({"table": "orders", "offset": "-1", "subset__limit": "1"}, 400, "order"),
    ({"table": "orders; DROP TABLE orders", "offset": "-1"}, 404, "DROP"),
]


def test_a_cache_that_keeps_everything_loses_nothing(lake, follow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewkeeper.server.shape_calls.LIVE_SECONDS", 1.0)
    with served(lake) as origin, caching(origin) as (url, proxy):
        first = follow(url, "totals")
        first.wait(rows_of(lake, "SELECT * FROM totals"))
        for number in range(10, 14):
            lake.sql(f"INSERT INTO orders VALUES ({number}, 'EU', 1)")
            first.wait(rows_of(lake, "SELECT * FROM totals"))
        asked = len(proxy.asked)
        others = [follow(url, "totals") for _ in range(3)]
        for client in others:
            client.wait(rows_of(lake, "SELECT * FROM totals"))
            check_every_state(lake, client, "SELECT * FROM totals")
        assert len(proxy.asked) < asked + 12  # rows and changes came from the cache
        lake.sql("DELETE FROM orders WHERE id = 10")
        for client in (first, *others):
            client.wait(rows_of(lake, "SELECT * FROM totals"))
        for client in (first, *others):
            client.close()


def test_waiting_needs_no_thread_per_client(lake) -> None:
    async def wait(url: str) -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, limits=limits, timeout=30) as client:
            begun = await client.get("/v1/shape", params={"table": "totals", "offset": "-1"})
            after = {"offset": begun.headers["electric-offset"], "handle": begun.headers["electric-handle"]}
            query = {"table": "totals", "live": "true", **after}
            waiting = [asyncio.ensure_future(client.get("/v1/shape", params=query)) for _ in range(300)]
            await asyncio.sleep(2)
            assert not any(each.done() for each in waiting)
            assert threading.active_count() < 60
            await asyncio.to_thread(lake.sql, "INSERT INTO orders VALUES (4, 'EU', 1)")
            return await asyncio.gather(*waiting)

    with served(lake) as url:
        answers = asyncio.run(wait(url))
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.content for answer in answers}) == 1
        assert [message["headers"].get("operation") for message in answers[0].json()] == ["update", None]


def test_a_client_that_leaves_is_not_waited_for(serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewkeeper.server.shape_waiting.IDLE_SECONDS", 1.0)
    made = serve()
    asked = {"table": "totals", "offset": "-1"}
    begun = httpx.get(f"{made.url}/v1/shape", params=asked).headers
    asked |= {"offset": begun["electric-offset"], "handle": begun["electric-handle"], "live": "true"}
    for more in ({}, {"live_sse": "true"}):
        with pytest.raises(httpx.ReadTimeout):
            httpx.get(f"{made.url}/v1/shape", params={**asked, **more}, timeout=1)
        until = time.monotonic() + 5
        while made.db._feeds.subscriptions:
            assert time.monotonic() < until
            time.sleep(0.05)


def test_requests_that_cannot_be_answered(lake) -> None:
    with served(lake) as url:
        for query, status, text in BAD:
            answer = httpx.get(f"{url}/v1/shape", params=query)
            assert (answer.status_code, text in answer.text) == (status, True), (query, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
        assert lake.sql("SELECT count(*) FROM orders").rows() == [(3,)]


_TEXT = """id region amount "id" "a b" orders . * , ( ) = <> < + - / % ~ || :: text int 1 0 1e999 'EU' E'\\n' '' $1 $2
$$ NULL NOT AND OR IN ANY ALL ($1) ARRAY[1] {1} LIKE ILIKE BETWEEN IS DISTINCT FROM SELECT CASE WHEN THEN ELSE END CAST
AS DATE INTERVAL '1 day' now() random() sum(id) lower(region) explode row_number() OVER () -- /* ; ` ? :p ASC DESC
NULLS FIRST LIMIT pg_sleep(9) java_method('a','b')"""
_WORDS = _TEXT.split()
_TEXTS = st.one_of(st.lists(st.sampled_from(_WORDS), min_size=1, max_size=9).map(" ".join), st.text(max_size=30))


@given(text=_TEXTS, value=st.one_of(st.sampled_from(["1", "{1,2}", "{", "[1]", "x", "NaN", "t"]), st.text(max_size=9)))
@settings(max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_no_condition_of_a_shape_fails(reading, text: str, value: str) -> None:
    with reading.client(ADMIN) as client:
        begin = {"table": "orders", "offset": "-1"}
        asked: list[dict[str, str]] = [
            {"where": text, "params[1]": value},
            {"subset__where": text, "subset__params": json.dumps([value])},
            {"subset__order_by": text, "subset__limit": "2"},
            {"columns": text},
            {"table": text},
        ]
        for more in asked:
            answer = client.get("/v1/shape", params={**begin, **more})
            assert answer.status_code in (200, 400, 403, 404, 422), (more, answer.text)
        assert "plover" not in answer.text


def test_headers_and_closed_ranges(lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewkeeper.server.shape_calls.CLOSED_EPOCHS", 4)
    monkeypatch.setattr("viewkeeper.server.shape_calls.LIVE_SECONDS", 0.3)
    with served(lake) as url:

        def get(**query: str) -> httpx.Response:
            return httpx.get(f"{url}/v1/shape", params={"table": '"public"."orders"', **query})

        begun = get(offset="-1")
        assert begun.headers["cache-control"] == "public, max-age=5, stale-while-revalidate=5"
        assert "electric-handle" in begun.headers["access-control-expose-headers"]
        assert begun.json()[-1]["headers"]["control"] == "up-to-date"
        handle, first = begun.headers["electric-handle"], lake.epoch
        for number in range(10, 30):
            lake.sql(f"INSERT INTO orders VALUES ({number}, 'EU', 1)")
        copy = {message["key"]: message["value"] for message in begun.json()[:-1]}
        offset, closed = f"{first}_0", 0
        while True:
            answer = get(offset=offset, handle=handle)
            copy |= {message["key"]: message["value"] for message in answer.json() if "key" in message}
            offset = answer.headers["electric-offset"]
            if "electric-up-to-date" in answer.headers:
                break
            closed += 1
            assert int(offset.partition("_")[0]) % 4 == 0
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert closed > 1
        assert len(copy) == 23
        assert offset == f"{lake.epoch}_0"
        query = {"table": "orders", "offset": f"{first}_0", "handle": handle}
        tag = httpx.get(f"{url}/v1/shape", params=query).headers["etag"]
        again = httpx.get(f"{url}/v1/shape", params=query, headers={"If-None-Match": tag})
        assert (again.status_code, again.text) == (304, "")
        lake.sql("INSERT INTO edges VALUES ('x', 'y')")
        quiet = get(offset=offset, handle=handle, live="true", cursor="7")
        assert (quiet.status_code, len(quiet.json())) == (200, 1)
        assert quiet.headers["electric-offset"] == f"{lake.epoch}_0"
        assert int(quiet.headers["electric-cursor"]) > 7
        moved = get(offset="1_0", handle="0123-1")
        assert (moved.status_code, moved.json()) == (409, [{"headers": {"control": "must-refetch"}}])
        assert moved.headers["electric-handle"] == handle
        future = get(offset="99_0", handle=handle)
        assert future.status_code == 409
        assert future.headers["electric-handle"] != handle
