"""The bag algebra of Griffin and Libkin 1995, section 2.1, on plain Python bags; and its net transactions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]
Bag = Counter[Row]


def select(p: Callable[[Row], bool], s: Bag) -> Bag:
    """σ."""
    return Counter({row: count for row, count in s.items() if p(row)})


def project(columns: Sequence[int], s: Bag) -> Bag:
    """Π: multiplicities of rows with the same image add up."""
    image: Bag = Counter()
    for row, count in s.items():
        image[tuple(row[column] for column in columns)] += count
    return image


def plus(*bags: Bag) -> Bag:
    """⊎, the additive union."""
    total: Bag = Counter()
    for one in bags:
        total.update(one)
    return total


def monus(s: Bag, t: Bag) -> Bag:
    """∸."""
    return Counter({row: count - t[row] for row, count in s.items() if count > t[row]})


def least(s: Bag, t: Bag) -> Bag:
    """The minimum intersection."""
    return Counter({row: min(count, t[row]) for row, count in s.items() if t[row]})


def greatest(s: Bag, t: Bag) -> Bag:
    """The maximum union."""
    return Counter({row: max(s[row], t[row]) for row in {*s, *t}})


def unique(s: Bag) -> Bag:
    """ε."""
    return Counter(dict.fromkeys(s, 1))


def times(s: Bag, t: Bag) -> Bag:
    """×."""
    return Counter({(*x, *y): m * n for x, m in s.items() for y, n in t.items()})


@dataclass(frozen=True)
class Changed:
    """A relation with what a transaction deletes from it and inserts into it."""

    old: Bag
    deleted: Bag
    inserted: Bag

    @property
    def new(self) -> Bag:
        """(R ∸ ∇R) ⊎ ΔR."""
        return plus(self.kept, self.inserted)

    @property
    def kept(self) -> Bag:
        """The paper's del(t, R)."""
        return monus(self.old, self.deleted)

    @property
    def with_inserted(self) -> Bag:
        """The paper's add(t, R)."""
        return plus(self.old, self.inserted)

    @property
    def is_strongly_minimal(self) -> bool:
        return not monus(self.deleted, self.old) and not least(self.deleted, self.inserted)


def random_bag(rng: random.Random, rows: int, span: int = 3) -> Bag:
    """Rows of two columns over a small domain, so that they repeat."""
    return Counter((rng.randrange(span), rng.randrange(span)) for _ in range(rows))


def random_change(rng: random.Random, old: Bag) -> Changed:
    """A net transaction on a relation: nothing is deleted that is not there, nothing both deleted and inserted."""
    deleted = least(random_bag(rng, rng.randrange(6)), old)
    return Changed(old, deleted, monus(random_bag(rng, rng.randrange(5)), Counter(dict.fromkeys(deleted, 99))))
