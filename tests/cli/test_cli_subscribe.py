"""viewkeeper subscribe, SUBSCRIBE in viewkeeper sql, and the stream of the demo."""

from __future__ import annotations

import json
import random
from typing import Any

import viewkeeper as vk
from viewkeeper.cli.demo_stream import Shop


def test_frames_are_lines_of_json_in_a_pipe(run: Any, items: None) -> None:
    first, second = (
        run("subscribe", "items", "--since", "1", "--frames", "1"),
        run("subscribe", "items", "--frames", "1"),
    )
    (frame,), (snapshot,) = ([json.loads(line) for line in done.stdout.splitlines()] for done in (first, second))
    assert (frame["view"], frame["epoch"], frame["snapshot"], frame["reset"]) == ("items", 2, False, False)
    assert (snapshot["epoch"], snapshot["snapshot"]) == (2, True)
    for each in (frame, snapshot):
        assert sorted(each["updates"], key=str) == [
            {"row": ["hat", 15, "9.50"], "diff": 1},
            {"row": ["shirt", 120, None], "diff": 1},
            {"row": ["shoe", 90, "80.00"], "diff": 1},
        ]


def test_bound(run: Any, items: None) -> None:
    done = run("subscribe", "items", "--where", "item = 'hat'", "--frames", "1")
    assert json.loads(done.stdout)["updates"] == [{"row": ["hat", 15, "9.50"], "diff": 1}]


def test_mistakes(run: Any, items: None) -> None:
    assert "there is no table named 'hats'" in run("subscribe", "hats", code=1).stderr
    assert "there is no epoch 9 yet" in run("subscribe", "items", "--since", "9", code=1).stderr
    assert "cannot be reached" in run("subscribe", "items", "--url", "http://127.0.0.1:9", code=1).stderr


def test_a_statement(run: Any, items: None) -> None:
    text = "SUBSCRIBE TO items WHERE item = 'hat' AS OF EPOCH 1 UP TO EPOCH 2"
    assert run("--format", "csv", "sql", text).stdout.splitlines() == [
        "_epoch,_progressed,_diff,item,quantity,price",
        "1,true,,,,",
        "2,false,1,hat,15,9.50",
        "2,true,,,,",
    ]


def test_the_stream_of_the_demo(tmp_path: Any) -> None:
    with vk.connect(tmp_path / "lake", engine="sail", durability="process") as db:
        shop = Shop(db, random.Random(1))
        shop.create()
        with db.subscribe("connections") as connections, db.subscribe("revenue") as revenue:
            for _ in range(8):
                shop.change()
            for subscription in (connections, revenue):
                held: dict[Any, int] = {}
                while subscription.epoch < db.epoch:
                    frame = subscription.next(20)
                    for row, weight in (frame.change.weights() if frame else {}).items():
                        held[row] = held.get(row, 0) + weight
                rows = db.sql(f"SELECT * FROM {subscription.name}").rows()
                assert sorted(row for row, count in held.items() if count) == sorted(rows)
        assert db.verify().equal
