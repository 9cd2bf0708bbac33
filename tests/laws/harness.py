"""Views made of algebra, without SQL: each law of change beside the operator it is the law of."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import viewkeeper as vk
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Numbers
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.serial import to_json
from viewkeeper.catalog.definition import MATERIALIZED, Definition
from viewkeeper.transaction.commit import commit
from viewkeeper.transaction.open_transaction import OpenTransaction

TABLES = {"s": "a INT, b INT, c STRING", "t": "a INT, d INT, e STRING"}


class Laws:
    """A database with two tables, s(a, b, c) and t(a, d, e), of many duplicates and NULLs, and views over them."""

    def __init__(self, db: vk.Database, seed: int) -> None:
        self.db = db
        self.random = random.Random(seed)
        self.numbers = Numbers()
        self.nodes: dict[str, n.Node] = {}
        for name, columns in TABLES.items():
            db.sql(f"CREATE TABLE {name} ({columns})")

    def scan(self, name: str) -> tuple[n.Scan, tuple[Attribute, ...]]:
        """A table with attributes of its own."""
        relation = self.db._store.refresh().find(name)
        assert relation is not None
        attributes = tuple(self.numbers.attribute(c.name, c.type) for c in relation.schema)
        return n.Scan(relation.id, name, attributes), attributes

    def view(self, name: str, node: n.Node) -> None:
        """Makes a materialized view of an expression, group-bys inside it and all."""
        self.views({name: node})

    def views(self, nodes: dict[str, n.Node]) -> None:
        """Makes several in one transaction."""
        tx = OpenTransaction(self.db._store)
        for name, node in nodes.items():
            self._create(tx, name, node)
        assert commit(tx) is not None
        self.nodes |= nodes

    def _create(self, tx: OpenTransaction, name: str, node: n.Node) -> None:
        names = tuple(f"x{i}" for i in range(len(node.outputs)))
        schema = Schema(tuple(Column(c, a.type) for c, a in zip(names, node.outputs, strict=True)))
        uses = tuple(dict.fromkeys(scan.relation for scan in n.scans(node)))
        body = to_json(node)
        relation = tx.create(
            name, schema, Definition(MATERIALIZED, "", names, body, body, uses=uses, refresh="incremental")
        )
        tx.to_load.add(relation.id)

    def row(self) -> tuple[Any, ...]:
        """A row that is likely to be there already, or to meet others."""
        pick = self.random.choice
        return (pick([None, 1, 1, 2, 3]), pick([None, 0, 1, 2]), pick([None, "x", "y"]))

    def step(self) -> Any:
        """A transaction of inserts and deletes on one table or both."""
        with self.db.transaction() as tx:
            for name in self.random.choice([["s"], ["t"], ["s", "t"]]):
                there = self.db.table(name).read().rows()
                gone = self.random.sample(there, min(len(there), self.random.randint(0, 3)))
                if gone:
                    tx.delete(name, gone)
                added = [self.row() for _ in range(self.random.randint(0, 4))]
                if added:
                    tx.insert(name, added)
        return tx.commit_info

    def contents(self, name: str) -> Counter[tuple[Any, ...]]:
        """What is stored of a relation."""
        return Counter(self.db.sql(f"SELECT * FROM `{name}`").rows())
