"""Unions inside unions keep their columns."""

from __future__ import annotations

import viewkeeper as vk
from viewkeeper.engine.connect_columns import listed


def test_nested_unions(db: vk.Database) -> None:
    engine = db._store.engine
    leaf = engine.session.createDataFrame([(1, 2, 3)], "a BIGINT, b BIGINT, c BIGINT")
    for count in (3, 4, 7):
        inner = engine.union([leaf] * count).select(*listed(("b", "x"), ("a", "y")))
        outer = engine.union([inner, leaf.select(*listed(("c", "x"), ("c", "y")))])
        assert sorted(map(tuple, outer.collect())) == [(2, 1)] * count + [(3, 3)]
