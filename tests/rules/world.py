"""The relations of the rule machine: tables, views and queries as SQL, and what they mean as plain Python over bags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]
Bag = Counter  # of Row
Contents = dict[str, Bag]
"""The rows of every table."""

TABLES = {
    "item": "CREATE TABLE item (id BIGINT PRIMARY KEY, g STRING, v BIGINT)",
    "part": "CREATE TABLE part (id BIGINT PRIMARY KEY, item BIGINT, q BIGINT)",
    "bag": "CREATE TABLE bag (a BIGINT, b STRING)",
    "edge": "CREATE TABLE edge (x BIGINT, y BIGINT)",
    "audit": "CREATE TABLE audit (r STRING, k STRING, p STRING, c1 STRING, c2 STRING, c3 STRING)",
}
ROWS: dict[str, list[Row]] = {
    "item": [(1, "a", 1), (2, "a", 5), (3, "b", None)],
    "part": [(1, 1, 2), (2, 1, 0), (3, 3, 1)],
    "bag": [(1, "a"), (1, "a"), (3, None)],
    "edge": [(1, 2), (2, 3), (2, 3)],
}
"""What stands in the tables at first."""

LIMITS = ("choosy", "picked")
"""Views that are redefined: the model has the number in their definition as the one row of a table of their name."""

KEYED = ("item", "part")
"""Tables whose first column is the primary key."""


@dataclass(frozen=True)
class Source:
    """Something that a rule watches: its columns, its rows, and the rows that a change touches (for nervous rules).

    `key` has the positions of its key. `query` is the text in brackets; one with a parameter is given its value.
    """

    columns: tuple[str, ...]
    rows: Callable[[Contents, Any], Bag]
    key: tuple[int, ...] | None = None
    touched: Callable[[Contents, Contents, Any], set[Row]] | None = None
    query: str | None = None
    parameter: bool = False


def each(bag: Bag) -> Iterator[Row]:
    return bag.elements()


def grown(name: str, before: Contents, after: Contents) -> Bag:
    """The inserted rows of a table."""
    return after[name] - before[name]


def changed(name: str, before: Contents, after: Contents) -> set[Row]:
    return {row for row in {*before[name], *after[name]} if before[name][row] != after[name][row]}


def table(name: str, columns: tuple[str, ...]) -> Source:
    return Source(
        columns,
        lambda db, _: Counter(db[name]),
        (0,) if name in KEYED else None,
        lambda before, after, _: set(grown(name, before, after)),
    )


def more(left: int | None, right: int) -> bool:
    """left > right, where NULL is not true."""
    return left is not None and left > right


# views --------------------------------------------------------------------------------------------


def supplied(parts: Bag, items: Bag) -> Bag:
    return Counter((p, g, q) for p, item, q in each(parts) for i, g, _ in each(items) if item == i)


def totals(items: Bag) -> Bag:
    groups: dict[str | None, list[Row]] = {}
    for row in each(items):
        groups.setdefault(row[1], []).append(row)
    found = Counter()
    for g, rows in groups.items():
        values = [v for _, _, v in rows if v is not None]
        found[(g, sum(values) if values else None, max(row[0] for row in rows))] += 1
    return found


def touched_totals(before: Contents, after: Contents, _: Any) -> set[Row]:
    groups = {row[1] for row in changed("item", before, after)}
    return {row for row in totals(after["item"]) if row[0] in groups}


def lonely(db: Contents) -> Bag:
    used = {row[1] for row in db["part"]}
    return Counter((i, v) for i, _, v in each(db["item"]) if i not in used)


def reach(edges: Bag) -> Bag:
    found = set(edges)
    while True:
        further = {(x, z) for x, y in found for start, z in edges if y is not None and y == start} - found
        if not further:
            return Counter(found)
        found |= further


def touched_supplied(before: Contents, after: Contents, _: Any) -> set[Row]:
    parts, items = grown("part", before, after), grown("item", before, after)
    return {*supplied(parts, after["item"]), *supplied(after["part"], items)}


def things(bag: Bag, items: Bag) -> Bag:
    return Counter(each(bag)) + Counter((v, g) for _, g, v in each(items))


def kinds(bag: Bag) -> Bag:
    return Counter((b,) for a, b in each(bag) if more(a, 1))


def limit(db: Contents, name: str) -> int:
    """The number in the definition of a view."""
    ((found,),) = db[f"limit of {name}"]
    return int(found)


def redefined(name: str, number: int) -> str:
    """The query of a view that is redefined."""
    queries = {"choosy": "SELECT id, v FROM item WHERE v > ", "picked": "SELECT b FROM bag WHERE a > "}
    return f"{queries[name]}{number}"


VIEWS = {
    "supplied": "CREATE VIEW supplied AS SELECT p.id, i.g, p.q FROM part p JOIN item i ON p.item = i.id",
    "totals": "CREATE MATERIALIZED VIEW totals AS SELECT g, sum(v) AS s, max(id) AS m FROM item GROUP BY g",
    "lonely": "CREATE VIEW lonely AS SELECT i.id, i.v FROM item i "
    "WHERE NOT EXISTS (SELECT 1 FROM part p WHERE p.item = i.id)",
    "alone": "CREATE MATERIALIZED VIEW alone AS SELECT * FROM lonely",
    "things": "CREATE VIEW things AS SELECT a AS n, b AS s FROM bag UNION ALL SELECT v, g FROM item",
    "rich": "CREATE VIEW rich AS SELECT g, s FROM totals WHERE s > 4",
    "kinds": "CREATE MATERIALIZED VIEW kinds AS SELECT b FROM bag WHERE a > 1",
    "counted": "CREATE VIEW counted AS SELECT count(*) AS n FROM bag",
    "choosy": f"CREATE VIEW choosy AS {redefined('choosy', 2)}",
    "picked": f"CREATE MATERIALIZED VIEW picked AS {redefined('picked', 2)}",
    "reach": "CREATE MATERIALIZED VIEW reach AS WITH RECURSIVE r(x, y) AS (SELECT x, y FROM edge UNION "
    "SELECT r.x, e.y FROM r JOIN edge e ON r.y = e.x) SELECT x, y FROM r",
}
MATERIALIZED = tuple(name for name, text in VIEWS.items() if "MATERIALIZED" in text)

DATALOG = """
.decl edge(x:number, y:number)
.input edge
.decl dead(x:number)
dead(y) :- edge(_, y), !edge(y, _).
"""


def dead(edges: Bag) -> Bag:
    starts = {x for x, _ in edges}
    return Counter({(y,): 1 for _, y in edges if y not in starts})


SOURCES: dict[str, Source] = {
    "item": table("item", ("id", "g", "v")),
    "part": table("part", ("id", "item", "q")),
    "bag": table("bag", ("a", "b")),
    "edge": table("edge", ("x", "y")),
    "supplied": Source(("id", "g", "q"), lambda db, _: supplied(db["part"], db["item"]), (0,), touched_supplied),
    "totals": Source(("g", "s", "m"), lambda db, _: totals(db["item"]), (0,), touched_totals),
    "lonely": Source(("id", "v"), lambda db, _: lonely(db), (0,)),
    "alone": Source(("id", "v"), lambda db, _: lonely(db), (0,)),
    "things": Source(
        ("n", "s"),
        lambda db, _: things(db["bag"], db["item"]),
        None,
        lambda before, after, _: set(things(grown("bag", before, after), grown("item", before, after))),
    ),
    "rich": Source(
        ("g", "s"),
        lambda db, _: Counter((g, s) for g, s, _ in each(totals(db["item"])) if more(s, 4)),
        (0,),
        lambda before, after, _: {(g, s) for g, s, _ in touched_totals(before, after, None) if more(s, 4)},
    ),
    "kinds": Source(
        ("b",),
        lambda db, _: kinds(db["bag"]),
        None,
        lambda before, after, _: set(kinds(grown("bag", before, after))),
    ),
    "counted": Source(("n",), lambda db, _: Counter({(db["bag"].total(),): 1}), ()),
    "choosy": Source(
        ("id", "v"),
        lambda db, _: Counter((i, v) for i, _, v in each(db["item"]) if more(v, limit(db, "choosy"))),
        (0,),
    ),
    "picked": Source(
        ("b",), lambda db, _: Counter((b,) for a, b in each(db["bag"]) if more(a, limit(db, "picked"))), None
    ),
    "reach": Source(("x", "y"), lambda db, _: reach(db["edge"])),
    "dead": Source(("x",), lambda db, _: dead(db["edge"])),
}
"""Tables and views by name."""

QUERIES: dict[str, Source] = {
    "worthy": Source(
        ("id", "v"),
        lambda db, _: Counter((i, v) for i, _, v in each(db["item"]) if more(v, 2)),
        (0,),
        lambda before, after, _: {(i, v) for i, _, v in grown("item", before, after) if more(v, 2)},
        "SELECT id, v FROM item WHERE v > 2",
    ),
    "parts_of": Source(
        ("id", "q"),
        lambda db, p: Counter((i, q) for i, item, q in each(db["part"]) if item == p),
        (0,),
        lambda before, after, p: {(i, q) for i, item, q in grown("part", before, after) if item == p},
        "SELECT id, q FROM part WHERE item = :p",
        True,
    ),
    "above": Source(
        ("n", "s"),
        lambda db, p: Counter(row for row in each(things(db["bag"], db["item"])) if more(row[0], p)),
        None,
        None,
        "SELECT n, s FROM things WHERE n > :p",
        True,
    ),
    "count_of": Source(
        ("n",),
        lambda db, p: Counter({(sum(1 for row in each(db["part"]) if row[1] == p),): 1}),
        (),
        None,
        "SELECT count(*) AS n FROM part WHERE item = :p",
        True,
    ),
}
"""Queries in brackets by the name that the machine has for them."""

ASSERTIONS: dict[str, tuple[str, Callable[[Contents], Bag]]] = {
    "enough": (
        "NOT EXISTS (SELECT id FROM part WHERE q < 0)",
        lambda db: Counter((i,) for i, _, q in each(db["part"]) if q is not None and q < 0),
    ),
    "parents": (
        "NOT EXISTS (SELECT id FROM part p WHERE item IS NOT NULL "
        "AND NOT EXISTS (SELECT 1 FROM item i WHERE i.id = p.item))",
        lambda db: Counter(
            (i,) for i, item, _ in each(db["part"]) if item is not None and item not in {r[0] for r in db["item"]}
        ),
    ),
    "acyclic": (
        "NOT EXISTS (SELECT x FROM reach WHERE x = y)",
        lambda db: Counter((x,) for x, y in reach(db["edge"]) if x is not None and x == y),
    ),
    "few": ("(SELECT count(*) FROM bag) < 5", lambda db: Counter({(True,): 1} if db["bag"].total() >= 5 else {})),
}
"""Conditions of assertions, and the rows that violate them."""
