"""The systems that benchmarks/peers.py compares, each in a process of its own.

All get the same tables, views and changes. `apply` gives the seconds until all views are up to date and the change is
durable. Where a system cannot take a change as it is given, what it takes to convert it is not counted.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import viewkeeper as vk
from postgres_server import running_postgres
from tpch_orders import Change
from tpch_schema import COLUMNS, KEYS, create_statement

Row = tuple[Any, ...]


class System(Protocol):
    """What is measured."""

    def load(self, tables: dict[str, Path]) -> None:
        """Makes the tables of TPC-H."""

    def create(self, views: dict[str, str]) -> dict[str, str]:
        """Makes views; gives those that it refuses, with its words."""

    def apply(self, change: Change) -> tuple[float, dict[str, int]]:
        """Applies a change: the seconds it took, and how many rows of each view changed, where that is known."""

    def rows(self, view: str) -> list[Row]:
        """The rows of a view."""

    def close(self) -> None:
        """Ends it."""


class Viewkeeper:
    """This project, on one of its engines."""

    def __init__(self, where: Path, engine: str) -> None:
        self.where = where
        self.db = vk.connect(where / "lake", engine=engine)

    def load(self, tables: dict[str, Path]) -> None:
        for name, path in tables.items():
            self.db.sql(create_statement(name))
            self.db.load(name, str(path))

    def create(self, views: dict[str, str]) -> dict[str, str]:
        for name, text in views.items():
            self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        return {}

    def apply(self, change: Change) -> tuple[float, dict[str, int]]:
        began = time.perf_counter()
        with self.db.transaction() as tx:
            if change.gone.num_rows:
                tx.delete_by_key("lineitem", change.gone_lines)
                tx.delete_by_key("orders", change.gone)
            if change.orders.num_rows:
                tx.insert("orders", change.orders)
                tx.insert("lineitem", change.lines)
        took = time.perf_counter() - began
        assert tx.commit_info is not None
        return took, {name: report.rows_changed for name, report in tx.commit_info.report.items()}

    def graph(self, edges: list[tuple[int, int]], program: str) -> None:
        """Makes a table of edges and a recursive relation over it."""
        self.db.datalog(program)
        with self.db.transaction() as tx:
            columns = [pa.array(column, pa.int64()) for column in zip(*edges, strict=True)]
            tx.insert("edge", pa.table(columns, names=["x", "y"]))

    def edge(self, edge: tuple[int, int], *, arrives: bool) -> tuple[float, dict[str, int]]:
        """Inserts or deletes an edge."""
        began = time.perf_counter()
        with self.db.transaction() as tx:
            (tx.insert if arrives else tx.delete)("edge", [edge])
        took = time.perf_counter() - began
        assert tx.commit_info is not None
        return took, {name: report.rows_changed for name, report in tx.commit_info.report.items()}

    def rows(self, view: str) -> list[Row]:
        return [tuple(row) for row in self.db.sql(f"SELECT * FROM {view}").rows()]

    def size(self) -> dict[str, int]:
        """Files that the ledger names, and all files on disk."""
        named = sum(row["files"] for row in self.db.ls(hidden=True))
        stored = sum(len(names) for _, _, names in os.walk(self.where))
        return {"files": named, "on disk": stored}

    def caches(self) -> dict[str, float]:
        """Megabytes of the caches of data files and of ledger entries."""
        store = self.db._store
        return {"cached pages": store.lookups.cache.bytes / 1e6, "cached entries": store.storage.inlined.held / 1e6}

    def close(self) -> None:
        self.db.close()


class DuckDB:
    """Recomputes all views in the transaction of the change, in a database on disk."""

    def __init__(self, where: Path) -> None:
        self.where = where
        self.connection = duckdb.connect(str(where / "peers.duckdb"))
        self.connection.execute(f"SET threads = {os.cpu_count()}; SET enable_progress_bar = false")
        self.views: dict[str, str] = {}

    def load(self, tables: dict[str, Path]) -> None:
        for name, path in tables.items():
            self.connection.execute(f"CREATE TABLE {name} ({COLUMNS[name]})")
            self.connection.execute(f"INSERT INTO {name} SELECT * FROM '{path}'")

    def create(self, views: dict[str, str]) -> dict[str, str]:
        self.views |= views
        self.recompute()
        return {}

    def recompute(self) -> None:
        """Computes all views."""
        for name, text in self.views.items():
            self.connection.execute(f"CREATE OR REPLACE TABLE {name} AS {text}")

    def apply(self, change: Change, *, recompute: bool = True) -> tuple[float, dict[str, int]]:
        began = time.perf_counter()
        self.connection.begin()
        if change.gone.num_rows:
            self.connection.register("gone", change.gone)
            self.connection.execute("DELETE FROM lineitem WHERE l_orderkey IN (SELECT o_orderkey FROM gone)")
            self.connection.execute("DELETE FROM orders WHERE o_orderkey IN (SELECT o_orderkey FROM gone)")
        if change.orders.num_rows:
            self.connection.register("arriving", change.orders)
            self.connection.register("arriving_lines", change.lines)
            self.connection.execute("INSERT INTO orders SELECT * FROM arriving")
            self.connection.execute("INSERT INTO lineitem SELECT * FROM arriving_lines")
        if recompute:
            self.recompute()
        self.connection.commit()
        return time.perf_counter() - began, {}

    def graph(self, edges: list[tuple[int, int]], view: str) -> None:
        """Makes a table of edges and a recursive view over it."""
        self.connection.execute("CREATE TABLE edge (x BIGINT, y BIGINT)")
        self.connection.executemany("INSERT INTO edge VALUES (?, ?)", edges)
        self.create({"derived": view})

    def edge(self, edge: tuple[int, int], *, arrives: bool) -> tuple[float, dict[str, int]]:
        """Inserts or deletes an edge."""
        began = time.perf_counter()
        self.connection.begin()
        text = "INSERT INTO edge VALUES (?, ?)" if arrives else "DELETE FROM edge WHERE x = ? AND y = ?"
        self.connection.execute(text, edge)
        self.recompute()
        self.connection.commit()
        return time.perf_counter() - began, {}

    def export(self, place: Path) -> dict[str, Path]:
        """The tables that change, as Parquet files."""
        paths = {name: place / f"{name}.parquet" for name in ("orders", "lineitem")}
        for name, path in paths.items():
            self.connection.execute(f"COPY {name} TO '{path}' (FORMAT parquet)")
        return paths

    def rows(self, view: str) -> list[Row]:
        return self.connection.execute(f"SELECT * FROM {view}").fetchall()

    def close(self) -> None:
        self.connection.close()


class PostgreSQL:
    """REFRESH MATERIALIZED VIEW of all views in the transaction of the change."""

    def __init__(self, where: Path, server: str | None = None) -> None:
        self.stack = contextlib.ExitStack()
        address = server or self.stack.enter_context(running_postgres(shared_buffers="512MB", max_wal_size="4GB"))
        self.connection = psycopg.connect(address)
        self.views: list[str] = []

    def load(self, tables: dict[str, Path]) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute("DROP SCHEMA IF EXISTS viewkeeper_peers CASCADE")
            cursor.execute("CREATE SCHEMA viewkeeper_peers")
            cursor.execute("SET search_path = viewkeeper_peers, pgivm, public")
            for name, path in tables.items():
                cursor.execute(f"CREATE TABLE {name} ({COLUMNS[name].replace('STRING', 'TEXT')})")
                for batch in pq.ParquetFile(path).iter_batches():
                    self._copy(name, _csv(pa.Table.from_batches([batch])))
                cursor.execute(f"ALTER TABLE {name} ADD PRIMARY KEY ({KEYS[name]})")
            cursor.execute("CREATE INDEX ON orders (o_custkey)")
        self.connection.commit()
        self._analyze()

    def _analyze(self) -> None:
        self.connection.autocommit = True
        self.connection.execute("VACUUM ANALYZE")
        self.connection.autocommit = False

    def create(self, views: dict[str, str]) -> dict[str, str]:
        for name, text in views.items():
            self.connection.execute(f"CREATE MATERIALIZED VIEW {name} AS {text}")
            self.views.append(name)
        self.connection.commit()
        return {}

    def apply(self, change: Change, *, recompute: bool = True) -> tuple[float, dict[str, int]]:
        texts = {"orders": _csv(change.orders), "lineitem": _csv(change.lines)}
        keys = change.gone.column("o_orderkey").to_pylist()
        began = time.perf_counter()
        if keys:
            self.connection.execute("DELETE FROM lineitem WHERE l_orderkey = ANY(%s)", (keys,))
            self.connection.execute("DELETE FROM orders WHERE o_orderkey = ANY(%s)", (keys,))
        for name, text in texts.items():
            if text:
                self._copy(name, text)
        if recompute:
            self.recompute()
        self.connection.commit()
        return time.perf_counter() - began, {}

    def recompute(self) -> None:
        """Computes all views."""
        for name in self.views:
            self.connection.execute(f"REFRESH MATERIALIZED VIEW {name}")

    def _copy(self, table: str, text: bytes) -> None:
        with self.connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN (FORMAT csv)") as copy:
            copy.write(text)

    def rows(self, view: str) -> list[Row]:
        return self.connection.execute(f"SELECT * FROM {view}").fetchall()

    def close(self) -> None:
        self.connection.rollback()
        self.connection.execute("DROP SCHEMA IF EXISTS viewkeeper_peers CASCADE")
        self.connection.commit()
        self.connection.close()
        self.stack.close()


class PgIvm(PostgreSQL):
    """Views that the extension pg_ivm maintains; it is given the address of a server that has it."""

    def __init__(self, where: Path, server: str) -> None:
        super().__init__(where, server)
        self.connection.execute("CREATE EXTENSION IF NOT EXISTS pg_ivm")
        self.connection.commit()

    def create(self, views: dict[str, str]) -> dict[str, str]:
        refused = {}
        for name, text in views.items():
            try:
                self.connection.execute("SELECT create_immv(%s, %s)", (name, text))
                self.connection.commit()
            except psycopg.Error as problem:
                self.connection.rollback()
                self.connection.execute("SET search_path = viewkeeper_peers, pgivm, public")
                refused[name] = str(problem).splitlines()[0]
        self.connection.commit()
        self._analyze()
        return refused

    def recompute(self) -> None:
        """Nothing: the views are up to date after each statement."""


class Plain:
    """An engine without this project: runs the queries of all views over Parquet files and writes their results.

    How the files came to hold the change is not counted; an engine alone would have to rewrite them.
    """

    def __init__(self, where: Path, engine: str) -> None:
        from pyspark.sql.connect.session import SparkSession

        from viewkeeper.engine.servers import local_server

        self.where = where
        self.session = SparkSession.builder.remote(local_server(engine, {}, {})).getOrCreate()
        self.views: dict[str, str] = {}

    def load(self, tables: dict[str, Path]) -> None:
        for name, path in tables.items():
            self.session.read.parquet(str(path)).createOrReplaceTempView(name)

    def create(self, views: dict[str, str]) -> dict[str, str]:
        self.views |= views
        self._recompute()
        return {}

    def _recompute(self) -> None:
        for name, text in self.views.items():
            self.session.sql(text).write.mode("overwrite").parquet(str(self.where / name))

    def renew(self, tables: dict[str, Path]) -> tuple[float, dict[str, int]]:
        """The seconds to compute all views from tables that have changed."""
        began = time.perf_counter()
        self.load(tables)
        self._recompute()
        return time.perf_counter() - began, {}

    def rows(self, view: str) -> list[Row]:
        return [tuple(row) for row in self.session.read.parquet(str(self.where / view)).collect()]

    def close(self) -> None:
        self.session.stop()


def _csv(table: pa.Table) -> bytes:
    if not table.num_rows:
        return b""
    strings = [field.with_type(pa.string()) if field.type == pa.string_view() else field for field in table.schema]
    table = table.cast(pa.schema(strings))  # CSV cannot be written from views of strings
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(table, sink, pyarrow.csv.WriteOptions(include_header=False))
    return sink.getvalue().to_pybytes()


# processes --------------------------------------------------------------------------------------


class Peer:
    """A system in a process of its own; calls of its methods go there."""

    def __init__(self, name: str, kind: Callable[..., System], where: Path, *arguments: str) -> None:
        self.name = name
        where.mkdir(parents=True)
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, kind, where, arguments), name=name)
        self.process.start()
        theirs.close()
        self._answer()

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """What a method gives."""
        self.pipe.send((method, arguments, named))
        return self._answer()

    def memory(self) -> dict[str, float]:
        """Resident megabytes of the process and those that it started, and what is known of what holds them."""
        return self.call("memory")

    def _answer(self) -> Any:
        try:
            answer, problem = self.pipe.recv()
        except EOFError:
            raise SystemExit(f"{self.name} has ended") from None
        if problem:
            raise SystemExit(f"{self.name} failed:\n{problem}")
        return answer

    def close(self) -> None:
        """Ends the process."""
        self.pipe.send(None)
        self.process.join(120)


def _serve(pipe: Connection, kind: Callable[..., System], where: Path, arguments: tuple[str, ...]) -> None:
    system = None
    try:
        system = kind(where, *arguments)
        pipe.send((None, ""))
        while (call := pipe.recv()) is not None:
            method, given, named = call
            work = partial(memory, system) if method == "memory" else getattr(system, method)
            pipe.send((work(*given, **named), ""))
    except EOFError:
        pass  # the run has ended
    except Exception:
        pipe.send((None, traceback.format_exc()))
    finally:
        if system is not None:
            system.close()


def memory(system: System) -> dict[str, float]:
    """Megabytes: resident of this process and of those it started, and parts of the former where they are known."""
    own = _status(os.getpid())
    started = sum(_proportional(process) for process in _descendants(os.getpid()))
    pool = pa.default_memory_pool()
    return {
        "resident": own["VmRSS"] + started,
        "started processes": started,
        "anonymous": own["RssAnon"],
        "files": own["RssFile"],
        "Arrow": pool.bytes_allocated() / 1e6,
        "Arrow at most": (pool.max_memory() or 0) / 1e6,
        "engine's allocator": _arenas(),
        **_malloc(),
        **(system.caches() if isinstance(system, Viewkeeper) else {}),
    }


def _status(process: int) -> dict[str, float]:
    lines = (line.split() for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) / 1e3 for words in lines if words[-1] == "kB"}


def _arenas() -> float:
    """What is resident of the arenas of 1 GiB from which Sail's and Arrow's allocators take their memory."""
    held, large = 0.0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            low, high = words[0].split("-")
            large = len(words) == 5 and int(high, 16) - int(low, 16) >= 1 << 29
        elif large and words[0] == "Anonymous:":
            held += int(words[1]) / 1e3
    return held


def _proportional(process: int) -> float:
    """Memory of a process; what it shares with others counts in part."""
    with contextlib.suppress(OSError):
        lines = (line.split() for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines())
        return next(int(words[1]) / 1e3 for words in lines if words[0] == "Pss:")
    return 0.0


def _descendants(process: int) -> set[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended in the meantime
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    while more := {p for p, parent in parents.items() if parent == process or parent in found} - found:
        found |= more
    return found


class _MallInfo(ctypes.Structure):
    """struct mallinfo2 of the C library."""

    _NAMES = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = [(name, ctypes.c_size_t) for name in _NAMES]


def _malloc() -> dict[str, float]:
    """What the C library has given out, and what it keeps although it is free."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return {}
    library.mallinfo2.restype = _MallInfo
    found = library.mallinfo2()
    return {"malloc in use": (found.uordblks + found.hblkhd) / 1e6, "malloc free": found.fordblks / 1e6}
