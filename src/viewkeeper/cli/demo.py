"""viewkeeper demo: a short story in a temporary directory."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import click

from viewkeeper.cli.narrator import Narrator
from viewkeeper.cli.output import note, stderr
from viewkeeper.cli.session import Options

if TYPE_CHECKING:
    from viewkeeper.api.database import Database


@click.command(short_help="See what it does, in a temporary directory.")
@click.option("--engine", type=click.Choice(["spark", "sail"]), help="The same as --engine before the verb.")
@click.pass_obj
def demo(options: Options, engine: str | None) -> None:
    """Tells what Viewkeeper does, with real tables in a temporary directory that is deleted at the end.

    Runs on Apache Spark if Java 17 or newer is there, else on Sail, which needs no Java. Takes well under a minute.
    """
    from viewkeeper.api.database import connect

    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="viewkeeper-demo-") as directory,
        connect(os.path.join(directory, "lake"), engine or options.engine) as db,
    ):
        name = {"spark": "Apache Spark", "sail": "Sail"}[db._store.engine.kind]
        _start(db, name)
        _tell(Narrator(db), directory, name)
    note(f"The story took {time.monotonic() - begun:.0f} seconds on {name}; its directory is deleted again.")


def _start(db: Database, name: str) -> None:
    """Starts the engine with a word on the terminal, because it can take some seconds."""
    if sys.stderr.isatty():
        stderr().print(f"Starting {name} ...", style="dim")
    db._store.engine.version()


def _tell(tell: Narrator, directory: str, engine: str) -> None:
    tell.title(f"Viewkeeper, on {engine}")
    _tables(tell)
    _load(tell, directory)
    _changes(tell)
    _net_effect(tell)
    _time_travel(tell)
    _constraint(tell)
    _compaction(tell)
    _ending(tell)


def _tables(tell: Narrator) -> None:
    tell.chapter("Tables", "A database is a directory. Every commit in it gets a number, its epoch.")
    tell.sql("CREATE TABLE items (item STRING PRIMARY KEY, quantity INT NOT NULL, min_stock INT NOT NULL)")
    tell.sql("INSERT INTO items VALUES ('shirt', 120, 100), ('shoe', 90, 80), ('hat', 15, 20)")
    tell.sql("SELECT * FROM items WHERE quantity < min_stock")


def _load(tell: Narrator, directory: str) -> None:
    tell.chapter("Loading a file", "Parquet, CSV and JSON. All rows come in as one commit, or none do.")
    path = os.path.join(directory, "sales.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.write("sale,item,pieces\n")
        file.writelines(f"{n},{('shirt', 'shoe', 'hat')[n % 3]},{n % 5 + 1}\n" for n in range(1, 5_001))
    tell.command("viewkeeper load sales sales.csv --create")
    result = tell.db.load("sales", path, create=True)
    tell.answer(f"{result.count:,} rows, epoch {result.commit.epoch if result.commit else '-'}")
    tell.sql("SELECT item, sum(pieces) AS pieces FROM sales GROUP BY item ORDER BY item")


def _changes(tell: Narrator) -> None:
    tell.chapter(
        "Changes", "A commit knows its exact net change: which rows went (-) and which came (+), and nothing else."
    )
    tell.sql("UPDATE items SET quantity = quantity - 30 WHERE item IN ('shirt', 'shoe')")
    tell.sql("MERGE INTO items USING (SELECT 'hat' AS item, 40 AS pieces) new ON items.item = new.item "
             "WHEN MATCHED THEN UPDATE SET quantity = items.quantity + new.pieces")  # fmt: skip


def _net_effect(tell: Narrator) -> None:
    tell.chapter(
        "Net effect",
        "Statements between BEGIN and COMMIT count as one. What is undone on the way never happened: the minimum stock "
        "of shirts goes to 150 and back to 100, so there is nothing to commit and no new epoch.",
    )
    tell.sql("BEGIN")
    tell.sql("UPDATE items SET min_stock = 150 WHERE item = 'shirt'")
    tell.sql("SELECT item, min_stock FROM items WHERE item = 'shirt'")
    tell.sql("UPDATE items SET min_stock = 100 WHERE item = 'shirt'")
    tell.sql("COMMIT")
    tell.words("ROLLBACK forgets a transaction altogether.")
    tell.sql("BEGIN")
    tell.sql("DELETE FROM sales")
    tell.sql("ROLLBACK")
    tell.sql("SELECT count(*) AS sales FROM sales")


def _time_travel(tell: Narrator) -> None:
    tell.chapter("Time travel", "Every kept epoch can be read as it was.")
    tell.sql("SELECT * FROM items ORDER BY item AS OF EPOCH 2")
    tell.sql("SELECT * FROM items ORDER BY item")


def _constraint(tell: Narrator) -> None:
    tell.chapter("Keys", "A change that would break a key is refused as a whole, and the message says what to do.")
    tell.refused("INSERT INTO items VALUES ('scarf', 10, 5), ('shoe', 1, 1)")
    tell.refused("SELECT quantity FROM itmes")


def _compaction(tell: Narrator) -> None:
    tell.chapter(
        "Compaction", "Many small commits leave many small files. Compaction merges them; contents and epochs stay."
    )
    for number in range(5):
        tell.db.sql(f"INSERT INTO items VALUES ('sock {number}', {number}, 10)")
    before = tell.db.epoch
    tell.words("Five more commits, one new item each.")
    tell.command("viewkeeper compact items")
    for done in tell.db.compact("items"):
        tell.answer(
            f"{done.files_before} files became {done.files_after}; epoch {before} before, epoch {tell.db.epoch} after"
        )
    tell.sql("SELECT count(*) AS items_at_epoch_2 FROM items AS OF EPOCH 2")


def _ending(tell: Narrator) -> None:
    tell.chapter("The history", "All of it, newest first; what was rolled back or undone is not there.")
    tell.command("viewkeeper history")
    columns = ("epoch", "changes")
    tell.table(columns, [[row[name] for name in columns] for row in tell.db.history()])
    tell.words('Now your own: viewkeeper sql "CREATE TABLE t (id BIGINT PRIMARY KEY, name STRING)"')
    tell.words("Everything there is: viewkeeper --help")
