"""A recursion is given up by the queries that it runs itself, whoever else reads through the same reader."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import viewkeeper as vk
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Numbers
from viewkeeper.algebra.types import Type
from viewkeeper.maintain.state_reader import OutOfQueries, StateReader
from viewkeeper.recursion.row_sets import TooDear, Workspace
from viewkeeper.sql.templates import templated as text


def readers(db: vk.Database, limits: tuple[float | None, float | None]) -> tuple[StateReader, n.Node, list[Workspace]]:
    db.sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)")
    store = db._store
    state = store.refresh()
    reader = StateReader(store, state.relations.__getitem__, state.epoch, state.epoch)
    relation = state.find("t")
    assert relation is not None
    a = Numbers().attribute("a", Type("int"))
    query = n.Filter(n.Scan(relation.id, "t", (a,)), text("{} > 0", a))
    return reader, query, [Workspace(store.engine, reader, limit) for limit in limits]


@pytest.mark.spark_long
def test_others_do_not_count(connect: Callable[..., vk.Database]) -> None:
    db = connect(tuning=vk.Tuning(driver_rows=0))
    reader, query, (one, other) = readers(db, (0.0, None))
    for _ in range(3):
        assert other.run(lambda _: query).count == 2
    assert (reader.queries, other.reader.queries, one.reader.queries) == (3, 3, 0)
    one.worked(0)
    one.run(lambda _: query)
    with pytest.raises(TooDear, match="1 queries and 0 rows"):
        one.worked(0)
    assert reader.queries == 4, "the report has them all"


@pytest.mark.spark_long
def test_on_trial_each_has_its_own_number_of_queries(db: vk.Database) -> None:
    reader, query, _ = readers(db, (None, None))
    reader.most_queries = 2
    one, other = (Workspace(db._store.engine, reader) for _ in range(2))
    for space in (one, other):
        for _ in range(2):
            space.run(lambda _: query)
    with pytest.raises(OutOfQueries):
        one.run(lambda _: query)
