"""The views of the airline, maintained by triggers under random transactions."""

from __future__ import annotations

import psycopg
import pytest

from tests.postgres.world import World, in_postgres

TABLES = """
CREATE TABLE flight (flight_id INT PRIMARY KEY, flight_no INT NOT NULL, date DATE NOT NULL, UNIQUE (flight_no, date));
CREATE TABLE res (res_id INT PRIMARY KEY, psgr_id INT NOT NULL, flight_id INT NOT NULL, seat STRING NOT NULL,
  UNIQUE (psgr_id, flight_id), UNIQUE (flight_id, seat));
CREATE TABLE psgr (psgr_id INT PRIMARY KEY, name STRING, phone STRING, meal STRING, ffn INT NOT NULL UNIQUE);
CREATE TABLE ff (ffn INT PRIMARY KEY, miles INT);
"""

VIEWS = {
    "special_meals": "SELECT res.seat, psgr.meal FROM res, psgr "
    "WHERE res.flight_id = 2 AND res.psgr_id = psgr.psgr_id AND psgr.meal IS NOT NULL",
    "ff_res": "SELECT DISTINCT psgr.ffn FROM psgr, res WHERE psgr.psgr_id = res.psgr_id",
    "ff_res_each": "SELECT psgr.ffn FROM psgr, res WHERE psgr.psgr_id = res.psgr_id",
    "many_miles": "SELECT psgr_id AS id FROM psgr WHERE psgr.ffn IN (SELECT ffn FROM ff WHERE miles > 1)",
    "bad_flight": "SELECT res_id FROM res "
    "WHERE NOT EXISTS (SELECT * FROM flight WHERE flight.flight_id = res.flight_id)",
    "seats": "SELECT flight_id, count(*) AS n, max(seat) AS last FROM res GROUP BY flight_id",
    "sold": "SELECT f.flight_no, s.n FROM flight f LEFT JOIN seats s ON f.flight_id = s.flight_id",
}


@pytest.mark.parametrize("seed", range(4))
def test_random_transactions(pg: psycopg.Connection, seed: int) -> None:
    world = World(pg, seed)
    world.create_tables(TABLES)
    world.fill(6)
    views = ";\n".join(f"CREATE MATERIALIZED VIEW {name} AS {query}" for name, query in VIEWS.items())
    world.keep(TABLES + views, {name: in_postgres(query) for name, query in VIEWS.items()})
    world.check()
    for _ in range(40):
        world.transaction()
        world.check()
