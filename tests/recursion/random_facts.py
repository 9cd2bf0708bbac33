"""Random facts of base relations, and random transactions on them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from tests.recursion.naive import (
    Row,
    Value,
)
from tests.recursion.programs import (
    BASE,
    NUMBER,
    NUMBERS,
    SYMBOL,
    WORDS,
    Facts,
    Relation,
    Transaction,
)


def random_value(rng: random.Random, kind: str, null: float = 0.0) -> Value:
    if rng.random() < null:
        return None
    return rng.choice(WORDS) if kind == SYMBOL else rng.choice(NUMBERS)


def random_rows(rng: random.Random, kinds: Sequence[str], count: int, null: float = 0.0) -> set[Row]:
    return {tuple(random_value(rng, kind, null) for kind in kinds) for _ in range(count)}


def random_facts(rng: random.Random, relations: Iterable[Relation]) -> Facts:
    """A few rows per relation; some numbers form a chain, some relations are empty, some programs have NULLs."""
    null = 0.12 if rng.random() < 0.35 else 0.0
    facts = {}
    for relation in relations:
        most = {1: 5, 2: 13, 3: 18}[len(relation.kinds)]
        rows = random_rows(rng, relation.kinds, 0 if rng.random() < 0.04 else rng.randint(2, most), null)
        if relation.kinds == (NUMBER, NUMBER) and rng.random() < 0.3:
            rows = {(n, n + 1) for n in NUMBERS[:-1]} | set(sorted(rows, key=repr)[:2])
        facts[relation.name] = rows
    return facts


def random_transaction(rng: random.Random, facts: Facts) -> Transaction:
    """Rows to insert and to delete in some of the relations; now and then none at all, or all rows of a relation.

    Relations that are not among BASE need a row that shows their kinds, or are left alone.
    """
    change: Transaction = {}
    if rng.random() < 0.06:
        return change
    has_null = any(None in row for rows in facts.values() for row in rows)
    null = 0.12 if has_null or rng.random() < 0.1 else 0.0
    many = 8 if rng.random() < 0.15 else 3
    style = rng.choice(("mixed", "mixed", "insert", "delete"))
    for name in rng.sample(sorted(facts), rng.randint(1, len(facts))) if facts else ():
        rows = sorted(facts[name], key=repr)
        kinds = BASE[name].kinds if name in BASE else kinds_of(rows)
        gone: list[Row] = []
        if style != "insert":
            gone = rows if rng.random() < 0.08 else rng.sample(rows, min(len(rows), rng.randint(0, many)))
        new: set[Row] = set()
        if style != "delete" and kinds:
            new = random_rows(rng, kinds, rng.randint(0, many), null) - facts[name]
        if new or gone:
            change[name] = (new, set(gone))
    return change


def kinds_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """The kinds of the columns of rows, by the first of them that has no NULL."""
    whole = [row for row in rows if None not in row]
    return tuple(SYMBOL if isinstance(value, str) else NUMBER for value in whole[0]) if whole else ()


def after(facts: Facts, change: Transaction) -> Facts:
    """The facts once a transaction is done."""
    none: tuple[set[Row], set[Row]] = (set(), set())
    return {name: rows - change.get(name, none)[1] | change.get(name, none)[0] for name, rows in facts.items()}
