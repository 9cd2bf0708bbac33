"""Activations of a rule are bindings: a changed row looks up those that it concerns, however many there are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import viewkeeper as vk
from viewkeeper.algebra.rows import signed
from viewkeeper.maintain import state_reader
from viewkeeper.transaction.row_changes import apply_rows


@pytest.mark.spark_long
def test_a_changed_row_reads_its_own_activations(db: vk.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.sql("CREATE TABLE orders (id INT PRIMARY KEY, customer INT, total INT)")
    db.sql("CREATE TABLE alerts (customer INT, id INT)")
    db.sql(
        "CREATE RULE big (c INT) ON (SELECT id FROM orders WHERE customer = :c AND total > 100) WHEN INSERTED "
        "DO INSERT INTO alerts SELECT :c, id FROM inserted"
    )
    with db.transaction() as tx:
        tx.sql("ACTIVATE RULE big (0)")
        (rule,) = tx._tx.active_rules()
        assert rule.activations is not None
        table = tx._tx.by_id(rule.activations)
        assert isinstance(table, state_reader.Relation)
        more = pa.table([pa.array(range(1, 5_000), pa.int32())], names=table.schema.names)
        apply_rows(tx._tx, table, signed(more, 1))  # type: ignore[arg-type]
    keys: list[int] = []
    pick = state_reader.pick

    def watched(source: Any, given: Any = None, *rest: Any, **options: Any) -> Any:
        if source.schema.names == table.schema.names:
            keys.append(-1 if given is None else given.table.num_rows)
        return pick(source, given, *rest, **options)

    monkeypatch.setattr(state_reader, "pick", watched)
    db.sql("INSERT INTO orders VALUES (1, 77, 500), (2, 78, 50), (3, 9000, 500)")
    assert db.sql("SELECT * FROM alerts").rows() == [(77, 1)]
    assert keys, "the activations are read"
    assert all(0 < count <= 3 for count in keys), f"{keys}: they are read by the customers of the new orders"
