"""Viewkeeper beside its peers, transaction by transaction in one run: `python benchmarks/peers.py --engine sail`.

Five views over TPC-H: the bodies of Q3, Q5 and Q1, the customers without orders, and count, min and max of o_totalprice
per nation. Each transaction is given to every system in turn; who is first changes. What is timed is the change until
all views are up to date and all is durable:

- viewkeeper on the engines that --engine names;
- duckdb recomputes the five views, in a database on disk without keys; all ratios are to this;
- postgresql runs REFRESH MATERIALIZED VIEW for each (--postgresql);
- pg_ivm maintains what it can (--pg-ivm "host=... dbname=...", a server that has the extension);
- plain sail and spark run the five queries over Parquet files (--plain sail); the files are rewritten for free.

The changes are real TPC-H orders under new keys, and deletions of loaded ones, chosen so that every view changes in
every transaction; the reports of the commits are checked for that. At the end every view of every system is compared
with DuckDB's. Measures (--measure): change (sizes of changes), commits (1,000 commits of ten orders in a row), views
(200 more views that no row reaches), closure (one edge of 4,000).
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import random
import statistics
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from datalog_graphs import CLOSURE
from peer_systems import DuckDB, Peer, PgIvm, Plain, PostgreSQL, Row, Viewkeeper
from svg_plots import write_plot
from tpch_orders import ROOT, Change, OrderChanges, data_directory, generate, with_single_orders
from tpch_queries import QUERIES
from tpch_schema import ORDER

VIEWS = {
    "q3": QUERIES["q3"].split("ORDER BY")[0],
    "q5": QUERIES["q5"].split("ORDER BY")[0],
    "q1": QUERIES["q1"].split("ORDER BY")[0],
    "without_orders": "SELECT c_custkey, c_name, c_nationkey FROM customer "
    "WHERE NOT EXISTS (SELECT 1 FROM orders WHERE o_custkey = c_custkey)",
    "per_nation": "SELECT n_name, count(*) AS orders, min(o_totalprice) AS low, max(o_totalprice) AS high "
    "FROM orders JOIN customer ON o_custkey = c_custkey JOIN nation ON c_nationkey = n_nationkey GROUP BY n_name",
}
DIVIDED = {"q1": (6, 7, 8)}
"""Averages: the systems give them different numbers of digits."""

KINDS = {
    "10 in": (10, 0),
    "10 out": (0, 10),
    "1,000 out": (0, 1_000),
    "1,000 in and out": (1_000, 1_000),
    "15,000 in": (15_000, 0),
}
MEASURES = ("change", "commits", "views", "closure")

EDGES, NODES, PAIRS = 4_000, 4_700, 26_600
RECURSIVE = (
    "WITH RECURSIVE p(x, y) AS (SELECT x, y FROM edge UNION SELECT p.x, e.y FROM p JOIN edge e ON p.y = e.x) "
    "SELECT * FROM p"
)
NOT_REACHED = 200


class Printed:
    """What is printed, to be recorded too."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, text: str = "") -> None:
        print(text, flush=True)
        self.lines.append(text)


class Run:
    """Systems that hold the same tables, and the changes that all of them get."""

    def __init__(self, options: argparse.Namespace, scale: float, place: Path, say: Printed) -> None:
        self.options, self.scale, self.place, self.say = options, scale, place, say
        data = options.data or data_directory(scale)
        generate(scale, data)
        self.tables = {name: data / f"{name}.parquet" for name in ORDER} | {"orders": with_single_orders(data)}
        self.changes = OrderChanges(data)
        self.duckdb = Peer("duckdb", DuckDB, place / "duckdb")
        self.own = [Peer(f"viewkeeper {e}", Viewkeeper, place / f"viewkeeper-{e}", e) for e in options.engine]
        self.others: list[Peer] = []
        if options.postgresql:
            self.others.append(Peer("postgresql", PostgreSQL, place / "postgresql"))
        if options.pg_ivm:
            self.others.append(Peer("pg_ivm", PgIvm, place / "pg_ivm", options.pg_ivm))
        self.plain = [Peer(f"plain {e}", Plain, place / f"plain-{e}", e) for e in options.plain]
        self.transactions = 0
        self.refused: dict[str, set[str]] = {}
        for peer in self.all:
            peer.call("load", self.tables)
            refused = peer.call("create", VIEWS)
            self.refused[peer.name] = set(refused)
            for view, why in refused.items():
                say(f"  {peer.name} refuses {view}: {why}")

    @property
    def all(self) -> list[Peer]:
        """All systems."""
        return [self.duckdb, *self.own, *self.others, *self.plain]

    def transaction(self, change: Change, turn: int, *, others: bool = True, plain: bool = False) -> dict[str, float]:
        """Gives a change to every system; the seconds of each. `others` and `plain`: whether these compute views."""
        found = {}
        peers = [self.duckdb, *self.own, *(self.others if others else ())]
        for peer in peers[turn % len(peers) :] + peers[: turn % len(peers)]:
            found[peer.name], changed = peer.call("apply", change)
            if peer in self.own:
                self.see(peer, changed)
        for peer in self.others if not others else ():
            peer.call("apply", change, recompute=False)
        if plain and self.plain:
            changed_tables = self.duckdb.call("export", self.place)
            for peer in self.plain:
                found[peer.name], _ = peer.call("renew", changed_tables)
        return found

    def see(self, peer: Peer, changed: dict[str, int]) -> None:
        """Makes sure that a commit has changed every view."""
        same = [view for view in VIEWS if not changed.get(view)]
        if same:
            raise SystemExit(f"a transaction does not change {', '.join(same)} of {peer.name}")
        self.transactions += 1

    def check(self) -> None:
        """Compares every view of every system with DuckDB's."""
        for peer in [self.duckdb, *self.others]:
            peer.call("recompute")
        if self.plain:
            tables = self.duckdb.call("export", self.place)
            for peer in self.plain:
                peer.call("renew", tables)
        for view in VIEWS:
            wanted = self.duckdb.call("rows", view)
            for peer in [*self.own, *self.others, *self.plain]:
                if view not in self.refused[peer.name]:
                    compare(f"{view} of {peer.name}", peer.call("rows", view), wanted, DIVIDED.get(view, ()))
        self.say(f"  checked: {', '.join(VIEWS)} of every system equal DuckDB's (averages to six decimals)")
        self.say(f"  checked: every view changed in each of {self.transactions} transactions, as their reports say")

    def close(self) -> None:
        """Ends all systems."""
        for peer in self.all:
            peer.close()


def compare(what: str, rows: list[Row], wanted: list[Row], inexact: Iterable[int] = ()) -> None:
    """Raises unless two bags of rows are equal; columns made by a division need only be close."""

    def exact(row: Row) -> Row:
        return tuple(_plain(value) for place, value in enumerate(row) if place not in inexact)

    more, less = Counter(map(exact, rows)), Counter(map(exact, wanted))
    if more != less:
        raise SystemExit(
            f"{what} is wrong: {list((more - less).items())[:3]} instead of {list((less - more).items())[:3]}"
        )
    for one, other in zip(sorted(rows, key=exact), sorted(wanted, key=exact), strict=True):
        if not all(
            math.isclose(float(one[place]), float(other[place]), rel_tol=1e-9, abs_tol=1e-6) for place in inexact
        ):
            raise SystemExit(f"{what} is wrong: {one} instead of {other}")


def _plain(value: Any) -> Any:
    return value.normalize() if isinstance(value, Decimal) else value


# measures ---------------------------------------------------------------------------------------


def percentile(values: list[float], share: float) -> float:
    """The smallest value that so large a share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def show(say: Printed, label: str, found: dict[str, list[float]]) -> None:
    """p50, p99 and the ratio to DuckDB of each system."""
    base = statistics.median(found["duckdb"])
    for name, seconds in found.items():
        middle, high = statistics.median(seconds), percentile(seconds, 0.99)
        say(
            f"  {label:17} {name:17} p50 {middle * 1000:9,.1f} ms   p99 {high * 1000:9,.1f} ms   "
            f"{base / middle:6.2f} x   of {len(seconds)}"
        )


def say_memory(say: Printed, peers: list[Peer]) -> None:
    """Resident memory, and what holds it as far as that is known."""
    for peer in peers:
        parts = peer.memory()
        total = parts.pop("resident")
        shown = ", ".join(f"{name} {value:,.0f}" for name, value in parts.items() if value >= 1)
        say(f"  memory {peer.name:17} {total:7,.0f} MB resident ({shown})")


def rounds_of(kind: str, rounds: int) -> int:
    """Fewer rounds of larger changes."""
    size = max(KINDS[kind])
    return max(3, rounds if size <= 10 else rounds // 2 if size <= 1_000 else rounds // 4)


def measure_change(run: Run) -> dict[str, dict[str, float]]:
    """Sizes of changes: {kind: {system: median}}."""
    medians = {}
    for kind in KINDS:
        run.transaction(run.changes.draw(*KINDS[kind]), 0)  # warms up
        found: dict[str, list[float]] = {}
        for turn in range(rounds_of(kind, run.options.rounds)):
            took = run.transaction(run.changes.draw(*KINDS[kind]), turn, plain=turn < run.options.plain_rounds)
            for peer in run.all:
                if peer.name in took:
                    found.setdefault(peer.name, []).append(took[peer.name])
        show(run.say, kind, found)
        medians[kind] = {name: statistics.median(seconds) for name, seconds in found.items()}
    return medians


def measure_commits(run: Run) -> dict[str, list[tuple[float, float]]]:
    """Ten orders in, many times in a row; DuckDB recomputes only now and then."""
    lines = {}
    count = run.options.commits
    changes = [run.changes.draw(10, 0) for _ in range(count)]
    base = [run.duckdb.call("apply", change, recompute=i % 50 == 0)[0] for i, change in enumerate(changes)]
    for peer in run.own:
        before, files = peer.memory()["resident"], peer.call("size")
        seconds, halfway = [], 0.0
        for i, change in enumerate(changes):
            took, changed = peer.call("apply", change)
            run.see(peer, changed)
            seconds.append(took)
            if i == count // 2:
                halfway = peer.memory()["resident"]
        show(run.say, f"{count:,} commits", {"duckdb": base[::50], peer.name: seconds})
        tenth = max(1, count // 10)
        first, last = statistics.median(seconds[:tenth]), statistics.median(seconds[-tenth:])
        ratio = percentile(seconds, 0.99) / statistics.median(seconds)
        after, left = peer.memory()["resident"], peer.call("size")
        run.say(
            f"    p99 is {ratio:.1f} times p50; last tenth {last / first:.2f} times the first; memory {before:,.0f}, "
            f"halfway {halfway:,.0f}, at the end {after:,.0f} MB; files {files['files']} to {left['files']} in the "
            f"ledger, {files['on disk']} to {left['on disk']} on disk"
        )
        lines[peer.name] = [(i + 1, took * 1000) for i, took in enumerate(seconds)]
    for peer in run.others:
        for change in changes:
            peer.call("apply", change, recompute=False)
    return lines


def not_reached(number: int) -> str:
    """A view that no change reaches: half of them over the changed table, half over another."""
    if number % 2:
        return f"SELECT o_orderkey, o_totalprice FROM orders WHERE o_custkey = {-1 - number}"
    return f"SELECT p_size, count(*) AS n FROM part WHERE p_size > {number % 50} GROUP BY p_size"


def measure_views(run: Run) -> dict[str, list[tuple[float, float]]]:
    """Ten orders in, while more and more views exist that no row reaches."""
    lines: dict[str, list[tuple[float, float]]] = {peer.name: [] for peer in run.own}
    made = 0
    for wanted in (0, NOT_REACHED // 4, NOT_REACHED):
        for peer in run.own:
            peer.call("create", {f"unreached_{number}": not_reached(number) for number in range(made, wanted)})
        made = wanted
        found: dict[str, list[float]] = {}
        for turn in range(-1, run.options.rounds):
            took = run.transaction(run.changes.draw(10, 0), turn, others=False)
            for name in ["duckdb", *lines] if turn >= 0 else ():
                found.setdefault(name, []).append(took[name])
        show(run.say, f"5 + {wanted} views", found)
        for name, points in lines.items():
            points.append((5 + wanted, statistics.median(found[name]) * 1000))
    for name, points in lines.items():
        run.say(f"    {name}: {points[-1][1] / points[0][1]:.2f} times as long with {NOT_REACHED} more views")
    return lines


def graph() -> list[tuple[int, int]]:
    """A random graph whose closure has about so many pairs as wanted."""
    for seed in range(1_000):
        rng = random.Random(seed)
        found: set[tuple[int, int]] = set()
        while len(found) < EDGES:
            found.add((rng.randrange(NODES), rng.randrange(NODES)))
        edges = sorted(found)
        with duckdb.connect() as db:
            db.execute("CREATE TABLE edge (x BIGINT, y BIGINT)")
            db.execute(f"INSERT INTO edge VALUES {', '.join(map(str, edges))}")
            pairs = db.execute(f"SELECT count(*) FROM ({RECURSIVE})").fetchone()[0]
        if abs(pairs - PAIRS) <= PAIRS // 100:
            return edges
    raise SystemExit("no random graph has such a closure")


def measure_closure(options: argparse.Namespace, place: Path, say: Printed) -> None:
    """One edge in and out of a transitive closure."""
    edges = graph()
    base = Peer("duckdb", DuckDB, place / "closure-duckdb")
    own = [Peer(f"viewkeeper {e}", Viewkeeper, place / f"closure-{e}", e) for e in options.engine]
    base.call("graph", edges, RECURSIVE)
    for peer in own:
        peer.call("graph", edges, CLOSURE)
    say(f"closure of {len(edges):,} edges, {len(base.call('rows', 'derived')):,} pairs")
    rng = random.Random(5)
    found: dict[str, dict[str, list[float]]] = {"one edge in": {}, "one edge out": {}}
    there, derived = list(edges), set(base.call("rows", "derived"))
    for turn in range(-2, options.rounds):
        new = next(
            pair for pair in iter(lambda: (rng.randrange(NODES), rng.randrange(NODES)), None) if pair not in derived
        )
        old = there.pop(rng.randrange(len(there)))
        there.append(new)
        for kind, edge in (("one edge in", new), ("one edge out", old)):
            for peer in [base, *own]:
                took, changed = peer.call("edge", edge, arrives=kind == "one edge in")
                if peer in own and kind == "one edge in" and not changed.get("derived"):
                    raise SystemExit(f"an edge does not change the closure of {peer.name}")
                if turn >= 0:
                    found[kind].setdefault(peer.name, []).append(took)
        derived = set(base.call("rows", "derived"))
    for kind, times in found.items():
        show(say, kind, times)
    for peer in own:
        compare(f"closure of {peer.name}", peer.call("rows", "derived"), list(derived))
    say("  checked: the closure of every system equals DuckDB's")
    for peer in [base, *own]:
        peer.close()


# all of it --------------------------------------------------------------------------------------


def measure(options: argparse.Namespace, say: Printed, plot: Callable[..., None]) -> None:
    """All measures that are asked for."""
    sizes: dict[float, dict[str, dict[str, float]]] = {}
    wanted = [name for name in MEASURES if name in (options.measure or MEASURES)]
    for scale in options.scale if set(wanted) - {"closure"} else ():
        with tempfile.TemporaryDirectory(prefix="viewkeeper-peers-", dir=options.place) as name:
            say(f"TPC-H SF{scale:g}, {', '.join(VIEWS)}")
            run = Run(options, scale, Path(name), say)
            if "change" in wanted:
                sizes[scale] = measure_change(run)
                say_memory(say, run.all)
            if "commits" in wanted:
                commits = measure_commits(run)
                title = f"{options.commits:,} commits of ten orders in a row, SF{scale:g}"
                plot("commits", title, "commit", "ms", commits, log_across=False, log_upward=False, dots=False)
            if "views" in wanted:
                views = measure_views(run)
                plot(
                    "views",
                    f"ten orders in, five views reached, SF{scale:g}",
                    "views",
                    "ms",
                    views,
                    log_across=False,
                    log_upward=False,
                )
            run.check()
            say_memory(say, run.own)
            run.close()
    if "closure" in wanted:
        with tempfile.TemporaryDirectory(prefix="viewkeeper-peers-", dir=options.place) as name:
            measure_closure(options, Path(name), say)
    for scale, found in sizes.items():
        names = list(found["10 in"])
        kinds = [kind for kind in KINDS if KINDS[kind][0]]
        points = {name: [(max(KINDS[kind]), found[kind][name] * 1000) for kind in kinds] for name in names}
        plot("change", f"five views up to date, SF{scale:g}", "orders inserted", "ms", points)
    if len(sizes) > 1:
        for kind in ("10 in", "10 out", "1,000 out"):
            names = list(sizes[options.scale[0]][kind])
            points = {name: [(scale, found[kind][name] * 1000) for scale, found in sizes.items()] for name in names}
            name = kind.replace(" ", "_").replace(",", "")
            plot(f"table_{name}", f"{kind} of a growing table", "scale factor", "ms", points)
            least, most = min(sizes), max(sizes)
            for peer in names:
                ratio = sizes[most][kind][peer] / sizes[least][kind][peer]
                say(f"{kind}: {peer} takes {ratio:.2f} times as long at SF{most:g} as at SF{least:g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, action="append", help="TPC-H scale factor, 0.1 unless given")
    parser.add_argument("--engine", action="append", choices=["sail", "spark"], help="engines of Viewkeeper")
    parser.add_argument("--measure", action="append", choices=MEASURES, help="only these")
    parser.add_argument("--rounds", type=int, default=11, help="transactions of ten orders; fewer of larger ones")
    parser.add_argument("--commits", type=int, default=1_000, help="commits in a row")
    parser.add_argument("--postgresql", action="store_true", help="PostgreSQL from the package pgserver too")
    parser.add_argument("--pg-ivm", metavar="ADDRESS", help="a PostgreSQL server that has the extension pg_ivm")
    parser.add_argument("--plain", action="append", default=[], choices=["sail", "spark"], help="engines on their own")
    parser.add_argument("--plain-rounds", type=int, default=3, help="transactions that these compute")
    parser.add_argument("--data", type=Path, default=None, help="where TPC-H files are or go, for a single scale")
    parser.add_argument("--place", type=Path, default=None, help="where databases are made")
    parser.add_argument("--record", metavar="NAME", help="write NAME.txt and plots into benchmarks/results")
    options = parser.parse_args()
    options.scale = options.scale or [0.1]
    options.engine = options.engine or ["sail"]
    say = Printed()
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"], capture_output=True, text=True
    ).stdout.strip()
    say(f"{platform.machine()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}, commit {commit}")
    say("x is how many times faster than DuckDB recomputing, by medians")

    def plot(name: str, title: str, *given: Any, **named: Any) -> None:
        if options.record:
            write_plot(ROOT / "results" / f"{options.record}_{name}.svg", title, *given, **named)

    measure(options, say, plot)
    say(f"load average at the end {os.getloadavg()[0]:.1f}")
    if options.record:
        (ROOT / "results" / f"{options.record}.txt").write_text("\n".join(say.lines) + "\n")


if __name__ == "__main__":
    main()
