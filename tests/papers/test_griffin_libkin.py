"""Griffin and Libkin 1995, "Incremental Maintenance of Views with Duplicates": its example, its equations, its laws.

The equations are tested on bags in Python, then the product is asked for the same changes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

import viewkeeper as vk
from tests.marks import spark_long
from tests.papers.bag_algebra import (
    Bag,
    Changed,
    greatest,
    least,
    monus,
    plus,
    project,
    random_bag,
    random_change,
    select,
    times,
    unique,
)

CASES = 400


def first_is_small(row: tuple[int, ...]) -> bool:
    return row[0] < 2


# Figure 2 ----------------------------------------------------------------------------------------

Equation = Callable[[Bag, Bag, Bag, Bag], tuple[Bag, Bag]]

FIGURE_2: dict[str, Equation] = {
    # each takes S, T and a change bag d (∇ or Δ) of S, or of T in P8 and P10; nothing is assumed of d
    "P1": lambda s, t, d, _: (
        select(first_is_small, monus(s, d)),
        monus(select(first_is_small, s), select(first_is_small, d)),
    ),
    "P2": lambda s, t, d, _: (
        select(first_is_small, plus(s, d)),
        plus(select(first_is_small, s), select(first_is_small, d)),
    ),
    "P3": lambda s, t, d, _: (project([0], monus(s, d)), monus(project([0], s), project([0], least(d, s)))),
    "P4": lambda s, t, d, _: (project([0], plus(s, d)), plus(project([0], s), project([0], d))),
    "P5": lambda s, t, d, _: (plus(monus(s, d), t), monus(plus(s, t), least(d, s))),
    "P6": lambda s, t, d, _: (plus(plus(s, d), t), plus(plus(s, t), d)),
    "P7": lambda s, t, d, _: (monus(monus(s, d), t), monus(monus(s, t), d)),
    "P8": lambda s, t, d, _: (monus(s, monus(t, d)), plus(monus(s, t), monus(least(d, t), monus(t, s)))),
    "P9": lambda s, t, d, _: (monus(plus(s, d), t), plus(monus(s, t), monus(d, monus(t, s)))),
    "P10": lambda s, t, d, _: (monus(s, plus(t, d)), monus(monus(s, t), d)),
    "P11": lambda s, t, d, _: (least(monus(s, d), t), monus(least(s, t), monus(d, monus(s, t)))),
    "P12": lambda s, t, d, _: (least(plus(s, d), t), plus(least(s, t), least(d, monus(t, s)))),
    "P13": lambda s, t, d, _: (greatest(monus(s, d), t), monus(greatest(s, t), least(d, monus(s, t)))),
    "P14": lambda s, t, d, _: (greatest(plus(s, d), t), plus(greatest(s, t), monus(d, monus(t, s)))),
    "P15": lambda s, t, d, _: (unique(monus(s, d)), monus(unique(s), monus(unique(least(d, s)), monus(s, d)))),
    "P16": lambda s, t, d, _: (unique(plus(s, d)), plus(unique(s), monus(unique(d), s))),
    "P17": lambda s, t, d, _: (times(monus(s, d), t), monus(times(s, t), times(d, t))),
    "P18": lambda s, t, d, _: (times(plus(s, d), t), plus(times(s, t), times(d, t))),
    "G1": lambda s, t, d, w: (plus(plus(s, t), w), plus(s, plus(t, w))),
    "G2": lambda s, t, d, w: (monus(monus(s, t), w), monus(s, plus(t, w))),
}


@pytest.mark.parametrize("name", FIGURE_2)
def test_figure_2(name: str) -> None:
    rng = random.Random(name)
    for _ in range(CASES):
        s, t, d, w = (random_bag(rng, rng.randrange(9)) for _ in range(4))
        left, right = FIGURE_2[name](s, t, d, w)
        assert left == right, (s, t, d, w)


def test_theorem_2_makes_any_solution_strongly_minimal() -> None:
    rng = random.Random(2)
    for _ in range(CASES):
        q, deleted, inserted = (random_bag(rng, rng.randrange(9)) for _ in range(3))
        wanted = plus(monus(q, deleted), inserted)
        common = least(q, deleted)
        second = Changed(q, monus(common, inserted), monus(inserted, common))
        assert second.new == wanted
        assert second.is_strongly_minimal


# Figure 3 ----------------------------------------------------------------------------------------

Operator = Callable[[Bag, Bag], Bag]
Law = Callable[[Changed, Changed], Bag]

OPERATORS: dict[str, Operator] = {
    "select": lambda s, t: select(first_is_small, s),
    "project": lambda s, t: project([0], s),
    "union_all": plus,
    "monus": monus,
    "min": least,
    "max": greatest,
    "distinct": lambda s, t: unique(s),
    "product": times,
}

DELETED: dict[str, Law] = {
    "select": lambda s, t: select(first_is_small, s.deleted),
    "project": lambda s, t: monus(project([0], s.deleted), project([0], s.inserted)),
    "union_all": lambda s, t: plus(monus(s.deleted, t.inserted), monus(t.deleted, s.inserted)),
    # ∇5: ((∇S ∸ ∇T) ⊎ (ΔT ∸ ΔS)) min Q
    "monus": lambda s, t: least(plus(monus(s.deleted, t.deleted), monus(t.inserted, s.inserted)), monus(s.old, t.old)),
    # ∇6: (∇S ∸ (S ∸ T)) max (∇T ∸ (T ∸ S))
    "min": lambda s, t: greatest(monus(s.deleted, monus(s.old, t.old)), monus(t.deleted, monus(t.old, s.old))),
    # ∇7: (∇S ⊎ (∇T min (T ∸ add S))) min (∇T ⊎ (∇S min (S ∸ add T)))
    "max": lambda s, t: least(
        plus(s.deleted, least(t.deleted, monus(t.old, s.with_inserted))),
        plus(t.deleted, least(s.deleted, monus(s.old, t.with_inserted))),
    ),
    "distinct": lambda s, t: monus(unique(s.deleted), s.kept),
    # ∇9, where the scan reads "itherefore" for ⊎:
    # (∇S × ∇T) ⊎ ((del S × ∇T) ∸ (ΔS × del T)) ⊎ ((∇S × del T) ∸ (del S × ΔT))
    "product": lambda s, t: plus(
        times(s.deleted, t.deleted),
        monus(times(s.kept, t.deleted), times(s.inserted, t.kept)),
        monus(times(s.deleted, t.kept), times(s.kept, t.inserted)),
    ),
}

INSERTED: dict[str, Law] = {
    "select": lambda s, t: select(first_is_small, s.inserted),
    "project": lambda s, t: monus(project([0], s.inserted), project([0], s.deleted)),
    # Δ4, where the scan reads "it" for ⊎: (ΔS ∸ ∇T) ⊎ (ΔT ∸ ∇S)
    "union_all": lambda s, t: plus(monus(s.inserted, t.deleted), monus(t.inserted, s.deleted)),
    # Δ5: ((ΔS ∸ ΔT) ⊎ (∇T ∸ ∇S)) ∸ (T ∸ S)
    "monus": lambda s, t: monus(plus(monus(s.inserted, t.inserted), monus(t.deleted, s.deleted)), monus(t.old, s.old)),
    # Δ6: (ΔS ⊎ (ΔT min (del S ∸ T))) min (ΔT ⊎ (ΔS min (del T ∸ S)))
    "min": lambda s, t: least(
        plus(s.inserted, least(t.inserted, monus(s.kept, t.old))),
        plus(t.inserted, least(s.inserted, monus(t.kept, s.old))),
    ),
    # Δ7: (ΔS ∸ (T ∸ S)) max (ΔT ∸ (S ∸ T))
    "max": lambda s, t: greatest(monus(s.inserted, monus(t.old, s.old)), monus(t.inserted, monus(s.old, t.old))),
    "distinct": lambda s, t: monus(unique(s.inserted), s.old),
    # Δ9, where the scan has lost a parenthesis and a product:
    # (ΔS × ΔT) ⊎ ((del S × ΔT) ∸ (∇S × T)) ⊎ ((ΔS × del T) ∸ (S × ∇T))
    "product": lambda s, t: plus(
        times(s.inserted, t.inserted),
        monus(times(s.kept, t.inserted), times(s.deleted, t.old)),
        monus(times(s.inserted, t.kept), times(s.old, t.deleted)),
    ),
}


def solution(name: str, s: Changed, t: Changed) -> Changed:
    """What Figure 3 says of an operator."""
    return Changed(OPERATORS[name](s.old, t.old), DELETED[name](s, t), INSERTED[name](s, t))


@pytest.mark.parametrize("name", OPERATORS)
def test_figure_3_and_theorem_3(name: str) -> None:
    rng = random.Random(name)
    for _ in range(CASES):
        s, t = (random_change(rng, random_bag(rng, rng.randrange(9))) for _ in range(2))
        assert s.is_strongly_minimal
        q = solution(name, s, t)
        assert q.new == OPERATORS[name](s.new, t.new), (s, t)
        assert q.is_strongly_minimal, (s, t)


VIEWS = {
    "select": "SELECT a, b FROM s WHERE a < 2",
    "project": "SELECT a FROM s",
    "union_all": "SELECT a, b FROM s UNION ALL SELECT a, b FROM t",
    "monus": "SELECT a, b FROM s EXCEPT ALL SELECT a, b FROM t",
    "min": "SELECT a, b FROM s INTERSECT ALL SELECT a, b FROM t",
    "max": "(SELECT a, b FROM s EXCEPT ALL SELECT a, b FROM t) UNION ALL SELECT a, b FROM t",
    "distinct": "SELECT DISTINCT a, b FROM s",
    "product": "SELECT s.a, s.b, t.a AS c, t.b AS d FROM s CROSS JOIN t",
}


def parts(change: vk.transaction.change.Change | None) -> tuple[Bag, Bag]:
    """(∇, Δ) of a reported change."""
    told = {} if change is None else change.weights()
    return (
        Counter({row: -weight for row, weight in told.items() if weight < 0}),
        Counter({row: weight for row, weight in told.items() if weight > 0}),
    )


@pytest.mark.spark_long  # on Apache Spark, tests/laws/test_laws.py has all these operators
def test_figure_3_in_the_product(db: vk.Database, engine: str) -> None:
    """The change of every operator is the paper's, on random tables and random net transactions."""
    rng = random.Random(3)
    bags = {"s": random_bag(rng, 9), "t": random_bag(rng, 9)}
    db.sql("CREATE TABLE s (a INT, b INT); CREATE TABLE t (a INT, b INT)")
    with db.transaction() as tx:
        for name, rows in bags.items():
            tx.insert(name, list(rows.elements()))
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW v_{name} WITH (refresh = 'incremental') AS {query}")
    for number in range({"sail": 25, "spark": 4}[engine]):
        changed = {name: random_change(rng, rows) for name, rows in bags.items()}
        if number % 3 == 1:
            changed["t"] = Changed(bags["t"], Counter(), Counter())
        with db.transaction() as tx:
            for name, change in changed.items():
                tx.delete(name, list(change.deleted.elements()))
                tx.insert(name, list(change.inserted.elements()))
        told = tx.commit_info.changes if tx.commit_info else {}
        for name in VIEWS:
            wanted = solution(name, changed["s"], changed["t"])
            assert parts(told.get(f"v_{name}")) == (wanted.deleted, wanted.inserted), (name, changed)
        bags = {name: change.new for name, change in changed.items()}
    for name in VIEWS:
        assert Counter(db.view(f"v_{name}").read().rows()) == OPERATORS[name](bags["s"], bags["t"])


# the example: what is owed -----------------------------------------------------------------------

S1 = [("P1", 1200, "09/12"), ("P2", 2100, "08/27"), ("P3", 1300, "09/11"), ("P4", 1400, "08/25")]
S2 = [("P1", 1200, "09/05"), ("P4", 1400, "08/24"), ("P5", 4000, "09/03")]
PAID = [("P1", 1200, 1), ("P5", 4000, 2)]


@pytest.mark.parametrize("kind", spark_long("MATERIALIZED VIEW", "VIEW"))
def test_unpaid_and_owe(db: vk.Database, kind: str) -> None:
    """Figure 1 and section 1: 7,400 is owed (sets would say 4,800), then 10,100."""
    for name, rows in (("S1", S1), ("S2", S2)):
        db.sql(f"CREATE TABLE {name} (Pid STRING, Cost INT, Date STRING)")
        with db.transaction() as tx:
            tx.insert(name, rows)
    db.sql("CREATE TABLE Paid (Pid STRING, Cost INT, S INT)")
    with db.transaction() as tx:
        tx.insert("Paid", PAID)
    received = "(SELECT Pid, Cost FROM S1 {0} SELECT Pid, Cost FROM S2) {1} SELECT Pid, Cost FROM Paid"
    db.sql(f"CREATE {kind} Unpaid AS {received.format('UNION ALL', 'EXCEPT ALL')}")
    db.sql("CREATE MATERIALIZED VIEW Owe AS SELECT sum(Cost) AS total FROM Unpaid")
    db.sql(f"CREATE VIEW UnpaidSet AS {received.format('UNION', 'EXCEPT')}")

    assert Counter(db.view("Unpaid").read().rows()) == Counter(
        [("P1", 1200), ("P2", 2100), ("P3", 1300), ("P4", 1400), ("P4", 1400)]
    )
    assert db.view("Owe").read().rows() == [(7400,)]
    assert db.sql("SELECT sum(Cost) FROM UnpaidSet").rows() == [(4800,)]

    with db.transaction() as tx:
        tx.delete("Paid", [("P5", 4000, 2)])
        tx.insert("Paid", [("P3", 1300, 1)])
    changes = tx.commit_info.changes
    if kind == "MATERIALIZED VIEW":
        assert parts(changes["Unpaid"]) == (Counter([("P3", 1300)]), Counter([("P5", 4000)]))
    assert changes["Owe"].weights() == {(7400,): -1, (10100,): 1}
    assert db.view("Owe").read().rows() == [(10100,)]


# section 4: WellPaid -----------------------------------------------------------------------------


def employees(db: vk.Database) -> None:
    db.sql("CREATE TABLE Employees (Name STRING, Salary INT)")
    db.sql("INSERT INTO Employees VALUES ('Ann', 60000), ('Bob', 4000), ('Cid', 51000), ('Dan', 4999)")
    db.sql("CREATE MATERIALIZED VIEW WellPaid AS SELECT Name FROM Employees WHERE Salary > 50000")
    db.sql("CREATE MATERIALIZED VIEW Everyone AS SELECT Name FROM Employees")


@pytest.mark.spark_long
def test_well_paid_is_not_changed_by_a_deletion_of_the_poor(db: vk.Database) -> None:
    employees(db)
    commit = db.sql("DELETE FROM Employees WHERE Salary < 5000").commit
    assert "WellPaid" not in commit.changes
    assert commit.changes["Everyone"].weights() == {("Bob",): -1, ("Dan",): -1}


@pytest.mark.spark_long
def test_well_paid_is_pruned(db: vk.Database) -> None:
    """σ(Salary > 50,000) of a deletion with Salary < 5,000 is empty: no computation needs to be done."""
    employees(db)
    told = "\n".join(str(row[0]) for row in db.sql("EXPLAIN DELETE FROM Employees WHERE Salary < 5000").rows())
    reached = [line for line in told.splitlines() if "reaches" in line]
    assert any("Everyone" in line for line in reached), told
    assert not any("WellPaid" in line for line in reached), told


# section 5: aggregates ---------------------------------------------------------------------------


@pytest.mark.spark_long
def test_sums_are_kept_by_their_changes(db: vk.Database) -> None:
    """Σf((S ∸ ∇S) ⊎ ΔS) = (Σf(S) - Σf(∇S)) + Σf(ΔS): no base table is read for COUNT, TOTAL and AVG."""
    db.sql("CREATE TABLE S (g INT, x INT)")
    with db.transaction() as tx:
        tx.insert("S", [(n % 3, n) for n in range(60)])
    db.sql(
        "CREATE MATERIALIZED VIEW v WITH (refresh = 'incremental') AS "
        "SELECT g, count(*) AS n, sum(x) AS total, avg(x) AS mean FROM S GROUP BY g"
    )
    with db.transaction() as tx:
        tx.delete("S", [(0, 0), (0, 3)])
        tx.insert("S", [(0, 100), (0, 3), (7, 7)])
    commit = tx.commit_info
    assert commit.changes["v"].weights() == {
        (0, 20, 570, 28.5): -1,
        (0, 20, 670, 33.5): 1,
        (7, 1, 7, 7.0): 1,
    }
    assert base_files_read(commit) == 0


def base_files_read(commit: vk.transaction.change.Commit) -> int:
    """How many files were read for the view beyond its own state."""
    return commit.report["v"].files_read


MINIMUM = [
    # what is deleted, what is inserted, MIN before and after, whether S must be read; S = {5, 5, 7, 9}, n = 5
    pytest.param([], [3], 3, False, id="k < n"),
    pytest.param([5], [5, 5], 5, False, id="k = n, n deleted and reinserted: net +1"),
    pytest.param([], [8], 5, False, id="k > n"),
    pytest.param([7], [], 5, False, id="m > n"),
    pytest.param([7], [6], 5, False, id="m > n, k > n"),
    pytest.param([9], [2], 2, False, id="m > n, k < n"),
    pytest.param([5, 5], [4], 4, False, id="m = n, k < n"),
    pytest.param([5, 5], [6], 6, True, id="m = n, k > n: all copies gone"),
    pytest.param([5], [6], 5, True, id="m = n, k > n: one copy is left"),
    pytest.param([5, 5], [], 7, True, id="m = n, nothing inserted"),
]


@pytest.mark.spark_long
@pytest.mark.parametrize(("deleted", "inserted", "after", "must_read"), MINIMUM)
def test_minimum_by_cases(
    db: vk.Database, deleted: list[int], inserted: list[int], after: int, must_read: bool
) -> None:
    check_extremum(db, "min", 1, deleted, inserted, after, must_read)


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize(("deleted", "inserted", "after", "must_read"), MINIMUM)
def test_maximum_by_cases(
    db: vk.Database, deleted: list[int], inserted: list[int], after: int, must_read: bool
) -> None:
    check_extremum(db, "max", -1, deleted, inserted, after, must_read)


def check_extremum(
    db: vk.Database, aggregate: str, sign: int, deleted: list[int], inserted: list[int], after: int, must_read: bool
) -> None:
    """Only if the extremum was deleted and no inserted value reaches it (n = m and k > n) is S read again."""
    db.sql("CREATE TABLE S (g INT, x INT)")
    with db.transaction() as tx:
        tx.insert("S", [(1, sign * x) for x in (5, 5, 7, 9)] + [(2, n) for n in range(20)])
    db.sql(
        "CREATE MATERIALIZED VIEW v WITH (refresh = 'incremental') AS "
        f"SELECT g, {aggregate}(x) AS e, sum(x) AS total FROM S GROUP BY g"
    )
    with db.transaction() as tx:
        tx.delete("S", [(1, sign * x) for x in deleted])
        tx.insert("S", [(1, sign * x) for x in inserted])
    commit = tx.commit_info
    total = sign * (26 - sum(deleted) + sum(inserted))
    assert commit.changes["v"].weights() == {(1, sign * 5, sign * 26): -1, (1, sign * after, total): 1}
    assert (base_files_read(commit) > 0) == must_read, commit.report["v"]
