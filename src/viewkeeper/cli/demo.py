"""viewkeeper demo: a short tour in a temporary directory."""

from __future__ import annotations

import os
import sys
import tempfile
import textwrap
import time
from typing import TYPE_CHECKING

import click

from viewkeeper.cli.demo_data import CUSTOMERS, LARGEST, ORDERS, write_files
from viewkeeper.cli.narrator import INDENT, Narrator
from viewkeeper.cli.output import count_of, note, stderr
from viewkeeper.cli.progress import of_views
from viewkeeper.cli.session import Options

if TYPE_CHECKING:
    from viewkeeper.api.database import Database
    from viewkeeper.transaction.change import Commit

TABLES = (
    "CREATE TABLE customers (customer INT PRIMARY KEY, region STRING NOT NULL)",
    "CREATE TABLE orders (id INT PRIMARY KEY, customer INT NOT NULL REFERENCES customers,\n"
    "  amount DECIMAL(8,2) NOT NULL)",
    "CREATE TABLE parts (whole STRING, part STRING, PRIMARY KEY (whole, part))",
)

REVENUE = """\
SELECT c.region, count(*) AS orders, sum(o.amount) AS total
FROM orders o JOIN customers c ON o.customer = c.customer
WHERE o.amount >= {least} GROUP BY c.region"""

SQL_VIEWS = (
    f"CREATE MATERIALIZED VIEW revenue AS\n{REVENUE.format(least=10)}",
    "CREATE MATERIALIZED VIEW no_orders AS\nSELECT customer, region FROM customers c\n"
    "WHERE NOT EXISTS (SELECT * FROM orders o WHERE o.customer = c.customer)",
    "CREATE MATERIALIZED VIEW top_orders AS\nSELECT id, customer, amount FROM orders ORDER BY amount DESC LIMIT 3",
)

RULES = """\
.decl needs(whole: symbol, part: symbol)
.output needs
needs(w, p) :- parts(w, p).
needs(w, p) :- needs(w, m), parts(m, p)."""

VIEWS = ("revenue", "no_orders", "top_orders", "needs")

CHANGES = (
    f"INSERT INTO customers VALUES ({CUSTOMERS + 1}, 'Europe')",
    f"INSERT INTO orders VALUES ({ORDERS + 1}, {CUSTOMERS}, 75)",
    f"DELETE FROM orders WHERE id = {LARGEST}",
    "DELETE FROM parts WHERE whole = 'wheel 17' AND part = 'hub 17'",
)

RULE = (
    "CREATE TABLE reminders (customer INT, region STRING)",
    "CREATE RULE remind ON no_orders WHEN INSERTED\nDO INSERT INTO reminders SELECT customer, region FROM inserted",
)

ASSERTION = "CREATE ASSERTION no_part_of_itself CHECK (NOT EXISTS (SELECT * FROM needs WHERE whole = part))"

CYCLE = "INSERT INTO parts VALUES ('spoke 17', 'bike 17')"


@click.command(short_help="See what it does, in a temporary directory.")
@click.option("--engine", type=click.Choice(["spark", "sail"]), help="The same as --engine before the verb.")
@click.option(
    "--serve", "serves", is_flag=True, help="Change a shop and a network all the time, and show it on a page."
)
@click.option("--port", type=click.IntRange(0, 65535), default=8780, show_default=True, help="The port of the page.")
@click.pass_obj
def demo(options: Options, engine: str | None, serves: bool, port: int) -> None:
    """Shows what Viewkeeper does, with real views in a temporary directory that is deleted at the end.

    Runs on Apache Spark if Java 17 or newer is installed, else on Sail, which needs no Java. Takes a minute or two
    on Spark, and seconds on Sail. With --serve it goes on until Ctrl-C: transactions stream through a shop and a
    network of flights, rules fire, and a page shows the views change.
    """
    from viewkeeper.api.database import connect

    if serves:
        from viewkeeper.cli.demo_stream import stream

        stream(engine or options.engine, port)
        return

    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="viewkeeper-demo-") as directory,
        connect(os.path.join(directory, "lake"), engine or options.engine) as db,
    ):
        name = {"spark": "Apache Spark", "sail": "Sail"}[db._store.engine.kind]
        _start(db, name)
        _tell(Narrator(db), directory, name)
    note(f"The demo took {time.monotonic() - begun:.0f} seconds on {name}; its directory is deleted again.")
    note("See it live on a page, with a stream of changes: viewkeeper demo --serve")


def _start(db: Database, name: str) -> None:
    """Starts the engine, with a message on a terminal because it can take some seconds."""
    if sys.stderr.isatty():
        stderr().print(f"Starting {name} ...", style="dim")
    db._store.engine.version()


def _tell(tell: Narrator, directory: str, engine: str) -> None:
    tell.title(f"Viewkeeper, on {engine}")
    _tables(tell, directory)
    _views(tell)
    before = tell.db.epoch
    _commit(tell)
    _rule(tell)
    _assertion(tell)
    _subscription(tell)
    _explain(tell)
    _another_query(tell)
    _time_travel(tell, before)
    _net_effect(tell)
    _keys(tell)
    _history(tell)
    _compaction(tell)
    tell.words('Now your own: viewkeeper sql "CREATE TABLE t (id BIGINT PRIMARY KEY, name STRING)"')
    tell.words("Everything there is: viewkeeper --help")


def _tables(tell: Narrator, directory: str) -> None:
    tell.chapter(
        "Tables",
        "A shop for bicycles: who orders, what they order, and which parts a bicycle is made of. A database is a "
        "directory; every commit in it has a number, its epoch.",
    )
    for statement in TABLES:
        tell.sql(statement)
    for table, path in write_files(directory).items():
        tell.load(table, path)


def _views(tell: Narrator) -> None:
    tell.chapter(
        "Views",
        "Four views: revenue per region (a join and an aggregate), customers without an order (NOT EXISTS), the three "
        "largest orders (ORDER BY ... LIMIT), and in Datalog everything that a bicycle needs, parts of parts included.",
    )
    for statement in SQL_VIEWS:
        tell.sql(statement)
    tell.datalog(RULES)
    tell.sql("SELECT part FROM needs WHERE whole = 'bike 17'")


def _commit(tell: Narrator) -> None:
    tell.chapter(
        "A change, and exactly what it changes",
        "One transaction: a new customer, a first order, the largest order is canceled, and a wheel loses its hub.",
    )
    statements = ";\n".join(CHANGES)
    with tell.db.transaction() as tx:
        tell.python(f'tx = db.transaction()\ntx.sql("""\n{statements}\n""")')
        with of_views(tell.db):
            tx.sql(statements)
        tell.python("commit = tx.commit()")
        begun = time.monotonic()
        with of_views(tell.db):
            commit = tx.commit()
        seconds = time.monotonic() - begun
    assert commit is not None, "the transaction has a net effect"
    tell.answer(f"epoch {commit.epoch}: three tables and four views, at once")
    tell.words("commit.changes has exactly the rows that were deleted (-) and inserted (+):")
    tell.changes({name: commit.changes[name] for name in VIEWS})
    _times(tell, commit, seconds)


def _times(tell: Narrator, commit: Commit, seconds: float) -> None:
    """The strategy and the time of each view in the commit, beside what recomputing it takes."""
    tell.words("VERIFY recomputes a view from its tables and compares it with what is stored:")
    recomputed = {name: tell.verify(name) for name in VIEWS}
    tell.words(
        "commit.report has the strategy of each view and the time it took. Here it stands beside the time of VERIFY, "
        "which is what a full refresh computes. Views are maintained in parallel; the last line is the whole commit, "
        "with its tables."
    )
    done = [(name, commit.report[name]) for name in VIEWS]
    rows = [
        (name, report.rows_changed, report.strategy, _duration(report.seconds), _duration(recomputed[name]))
        for name, report in done
    ]
    whole = ("all four", sum(row[1] for row in rows), "", _duration(seconds), _duration(sum(recomputed.values())))
    tell.line()
    tell.table(("view", "rows changed", "strategy", "in the commit", "recomputed by VERIFY"), [*rows, whole])
    tell.words("The reasons, from commit.report:")
    for name, report in done:
        tell.paragraph(f"{name}: {report.reason}")


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _rule(tell: Narrator) -> None:
    tell.chapter(
        "A rule that fires",
        "A rule does something when rows appear in a table, a view or a query, or leave it. This one is on a view with "
        "NOT EXISTS: a customer whose last order is deleted is reminded, in the same commit.",
    )
    for statement in RULE:
        tell.sql(statement)
    tell.python(f'commit = db.sql("DELETE FROM orders WHERE id = {ORDERS + 1}").commit')
    with of_views(tell.db):
        commit = tell.db.sql(f"DELETE FROM orders WHERE id = {ORDERS + 1}").commit
    assert commit is not None, "the order was there"
    tell.answer(f"epoch {commit.epoch}; fired: {', '.join(commit.rules)}")
    tell.changes({name: commit.changes[name] for name in ("no_orders", "reminders")})


def _assertion(tell: Narrator) -> None:
    tell.chapter(
        "An assertion that refuses",
        "An assertion is a query that must stay empty, here over the recursion: nothing is a part of itself. It is "
        "checked by the change of that query. preview() says what would change, and what would be violated.",
    )
    tell.sql(ASSERTION)
    tell.python(f'tx = db.transaction()\ntx.sql("{CYCLE}")\npreview = tx.preview()')
    with tell.db.transaction() as tx, of_views(tell.db):
        tx.sql(CYCLE)
        preview = tx.preview()
        tx.rollback()
    tell.answer(f"needs: {count_of(preview['needs'].inserted.num_rows, 'row')} would be inserted")
    for text in preview.assertions:
        tell.paragraph(text)
    tell.refused(CYCLE)


def _subscription(tell: Narrator) -> None:
    tell.chapter(
        "A subscription",
        "Whoever holds a copy of a view is told exactly what changes in it, one frame per epoch, and goes on after any "
        "of them. This one is bound to a part of a virtual view: of the others nothing is derived.",
    )
    joined = "orders o JOIN customers c ON o.customer = c.customer"
    tell.sql(f"CREATE VIEW largest AS\nSELECT region, max(amount) AS largest FROM {joined}\nGROUP BY region")
    where, change = "region = 'Asia'", f"INSERT INTO orders VALUES ({ORDERS + 7}, {CUSTOMERS}, 12000)"
    tell.python(f'subscription = db.subscribe("largest", where="{where}", snapshot=False)')
    with tell.db.subscribe("largest", where=where, snapshot=False) as subscription:
        tell.sql(change)
        tell.python("frame = subscription.next()")
        frame = subscription.next()
    assert frame is not None, "the order is the largest of its region"
    tell.answer(f"epoch {frame.epoch}")
    tell.changes({"largest": frame.change})
    tell.words(
        "The same for clients far away, with a page to watch it: viewkeeper serve; here: viewkeeper demo --serve"
    )


def _explain(tell: Narrator) -> None:
    tell.chapter(
        "How a view is maintained", "EXPLAIN VIEW has the algebra, and for each table what a change of it reads."
    )
    tell.statement("EXPLAIN VIEW revenue")
    lines = tell.db.explain("revenue").splitlines()
    tell.excerpt(lines, "query:")
    tell.answer("...", style="")
    tell.excerpt(lines, "when orders changes")
    tell.answer("...", style="")
    tell.excerpt(lines, "δR")


def _another_query(tell: Narrator) -> None:
    tell.chapter(
        "Another query",
        "A view that is given another query is maintained, too: the rows that pass one condition and not the other are "
        "a change like any other. EXPLAIN ALTER says so beforehand.",
    )
    statement = f"ALTER MATERIALIZED VIEW revenue AS\n{REVENUE.format(least=5)}"
    tell.statement(f"EXPLAIN {statement}")
    for line in tell.db.sql(f"EXPLAIN {statement}").rows():
        tell.paragraph(line[0])
    tell.sql(statement)


def _time_travel(tell: Narrator, before: int) -> None:
    tell.chapter("Time travel", "Tables and views can be read as they were, and their changes followed.")
    tell.sql(f"SELECT * FROM top_orders ORDER BY amount DESC AS OF EPOCH {before}")
    tell.python(f'db.view("no_orders").changes(since={before})')
    for epoch, change in tell.db.view("no_orders").changes(since=before):
        tell.changes({f"epoch {epoch}": change})


def _net_effect(tell: Narrator) -> None:
    tell.chapter("Net effect", "What a transaction undoes never happened: nothing to commit, and no new epoch.")
    tell.sql("BEGIN")
    tell.sql("UPDATE customers SET region = 'Asia' WHERE customer = 1")
    tell.sql("UPDATE customers SET region = 'Europe' WHERE customer = 1")
    tell.sql("COMMIT")


def _keys(tell: Narrator) -> None:
    tell.chapter("Keys", "A change that would break a key is refused as a whole, and the message says what to do.")
    tell.refused("INSERT INTO customers VALUES (1, 'Asia')")
    tell.refused(f"INSERT INTO orders VALUES ({ORDERS + 2}, 0, 10)")
    tell.refused("SELECT amount FROM oders")


def _history(tell: Narrator) -> None:
    from viewkeeper.log.listing import history

    tell.chapter("History", "All commits, newest first; long lines are cut here.")
    tell.command("viewkeeper history")
    room = tell.width - INDENT - len("epoch | ")
    store = tell.db._store
    commits = history(store.ledger, store.refresh(), separators=True)
    rows = [(row["epoch"], textwrap.shorten(row["changes"], room, placeholder=" ...")) for row in commits]
    tell.table(("epoch", "changes"), rows)


def _compaction(tell: Narrator) -> None:
    tell.chapter("Compaction", "Small commits leave small files. Compaction merges them; contents and epochs stay.")
    tell.sql("CREATE TABLE visits (day INT PRIMARY KEY, visitors INT)")
    for day in range(1, 9):
        tell.db.sql(f"INSERT INTO visits VALUES ({day}, {100 + day})")
    before = tell.db.epoch
    tell.words("Eight commits to the new table, one row each.")
    tell.command("viewkeeper compact visits")
    for done in tell.db.compact("visits"):
        tell.answer(
            f"{done.files_before} files became {done.files_after}; epoch {before} before, epoch {tell.db.epoch} after"
        )
