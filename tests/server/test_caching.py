"""Closed ranges scale by any HTTP cache in front: many who poll cost the server one request per range."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.server.caching_proxy import caching
from tests.server.conftest import ADMIN, Served

PATH = "/api/v1/views/by_region/changes"
CLIENTS, RANGES = 50, 6


def test_many_pollers_through_a_cache_cost_one_request_per_range(serve: Callable[..., Served]) -> None:
    made = serve(token=ADMIN)
    for number in range(RANGES):
        made.db.sql(f"INSERT INTO orders VALUES ({100 + number}, 'EU', 1)")
    bearer = {"Authorization": f"Bearer {ADMIN}"}
    with caching(made.url) as (url, proxy), httpx.Client(base_url=url, timeout=60, trust_env=False, verify=False) as c:
        for since in range(6, 6 + RANGES):  # one asks first
            assert c.get(PATH, params={"since": since, "until": since + 1}, headers=bearer).status_code == 200

        def poll(_: int) -> dict[tuple[object, ...], int]:
            copy: dict[tuple[object, ...], int] = {}
            for since in range(6, 6 + RANGES):
                answer = c.get(PATH, params={"since": since, "until": since + 1}, headers=bearer)
                for update in answer.json()["updates"]:
                    row = tuple(update["row"])
                    copy[row] = copy.get(row, 0) + update["diff"]
            return {row: count for row, count in copy.items() if count}

        began = time.perf_counter()
        with ThreadPoolExecutor(10) as pool:
            copies = list(pool.map(poll, range(CLIENTS)))
        through = (time.perf_counter() - began) / (CLIENTS * RANGES)
        assert all(copy == copies[0] for copy in copies)
        assert copies[0] == {("EU", "35.00", 2): -1, ("EU", "41.00", 8): 1}
        assert len(proxy.asked) == RANGES  # of 306 requests
        began = time.perf_counter()
        with made.client(ADMIN) as direct:
            for since in range(6, 6 + RANGES):
                direct.get(PATH, params={"since": since, "until": since + 1})
        print(
            f"{through * 1000:.1f} ms through the cache, {(time.perf_counter() - began) / RANGES * 1000:.1f} ms without"
        )
        assert c.get(PATH, params={"since": 6, "until": 7}).status_code == 401  # another's answer is not given away


def test_what_a_token_binds_is_not_kept(serve: Callable[..., Served]) -> None:
    made = serve(token=ADMIN)
    bearer = {"Authorization": f"Bearer {made.token('eu', by_region=None)}"}
    with caching(made.url) as (url, proxy), httpx.Client(base_url=url, timeout=60, trust_env=False, verify=False) as c:
        for _ in range(2):
            assert c.get(PATH, params={"since": 0, "until": 6}, headers=bearer).status_code == 200
            assert c.get(PATH, params={"since": 0}, headers={"Authorization": f"Bearer {ADMIN}"}).status_code == 200
            assert c.get(PATH, params={"since": 0, "until": 99}, headers=bearer).status_code == 404
        assert len(proxy.asked) == 6
