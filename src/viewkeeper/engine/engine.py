"""The engine a database computes with: frames from files, Arrow and SQL, and their results.

A frame is a PySpark DataFrame; nothing outside this package looks inside one. No state lives in the session: SQL
text names its inputs as `{name}` and gets them as arguments.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import socket
import sys
import threading
import typing
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.connect.session import SparkSession as RemoteSession
from pyspark.sql.types import ArrayType, MapType, StructType

from viewkeeper.algebra.expressions import Name, comparison, conjunction
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.tuning import Tuning
from viewkeeper.algebra.types import quote, type_of_arrow
from viewkeeper.catalog.settings import Limits, Settings
from viewkeeper.engine import functions_on_sail
from viewkeeper.engine.arrow_transfer import fetched, local_frame, spark_struct
from viewkeeper.engine.connect_columns import listed, parsed
from viewkeeper.engine.java import has_java
from viewkeeper.engine.literals import cut_expression, distinct_column, literal_filter
from viewkeeper.engine.problems import lacks_function, translate
from viewkeeper.engine.running import Statement, statement
from viewkeeper.engine.servers import DEBUGGING, local_server
from viewkeeper.errors import EngineError, SessionLost, ViewkeeperError
from viewkeeper.plan.cost import RATES

Frame: TypeAlias = Any
T = TypeVar("T")

logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # errors are raised, not printed twice

COMPRESSION = "lz4_raw"
"""The compression of files. Arrow needs a sixth of the time that it needs for a page compressed with zstd."""

_PAGE_OPTIONS = {
    "sail": ("data_page_row_count_limit", "dictionary_page_size_limit"),
    "spark": ("parquet.page.row.count.limit", "parquet.dictionary.page.size"),
}
"""The engines' options for the rows of a page and the size of a dictionary."""

_EMPTY_FRAMES = 1_000
"""Most empty frames that an engine holds."""

_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""Settings with which Apache Spark interprets plans instead of compiling them, for few rows."""

_sessions: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}
_lock = threading.Lock()


def open_engine(
    choice: object, settings: Settings | None, spark_conf: dict[str, str], storage: dict[str, str]
) -> Engine:
    """The engine a user asked for: "spark", "sail", "sc://host:port", or a SparkSession."""
    if isinstance(choice, str):
        kind = choice.strip()
        lowered = kind.lower()
        if lowered == "spark" and not has_java():
            print(
                "viewkeeper: no Java 17 or newer was found, so the Sail engine is used instead of Apache Spark",
                file=sys.stderr,
            )
            lowered = "sail"
        if lowered in ("spark", "sail"):
            return Engine(lowered, lowered, settings, spark_conf, storage)
        if lowered.startswith("sc://"):
            return Engine("spark", kind, settings, spark_conf, storage)
        raise EngineError(
            f"there is no engine '{choice}'", hint="use 'spark', 'sail', 'sc://host:port' or a SparkSession"
        )
    if hasattr(choice, "createDataFrame") and hasattr(choice, "sql"):
        engine = Engine("spark", "given", settings, spark_conf, storage)
        engine.given = choice
        return engine
    raise EngineError(
        f"a {type(choice).__name__} is not an engine", hint="use 'spark', 'sail', 'sc://host:port' or a SparkSession"
    )


_counted: contextvars.ContextVar[list[None] | None] = contextvars.ContextVar("_counted", default=None)
"""The calls of the engine that are counted."""


class Engine:
    """A PySpark session under pinned settings. `kind` is "spark" or "sail", also at a remote endpoint."""

    def __init__(
        self, kind: str, where: str, settings: Settings | None, conf: dict[str, str], storage: dict[str, str]
    ) -> None:
        self.kind = kind
        self.where = where
        self.settings = settings or Settings(engine=kind)
        self.conf = conf
        self.storage = storage
        self.given: Any = None
        self.put_scratch: Callable[[pa.Table], str] | None = None
        self._given_is_set = False
        self.limits = Limits()
        self.tuning = Tuning()
        self.rates = RATES[kind]
        self.functions: dict[str, tuple[Any, str]] = {}
        self._own = ""  # a session with user-defined functions is not shared
        self.supply: Callable[[ViewkeeperError], bool] | None = None
        self._empty: dict[object, Frame] = {}

    def declare(self, name: str, function: Any, returns: str) -> None:
        """Registers a Python or pandas function in this session and in every later one."""
        self._own = self._own or uuid.uuid4().hex
        self.functions[name.lower()] = (function, returns)
        self._guard(lambda: _register(self.session, name, function, returns))

    def share_functions(self, other: Engine) -> None:
        """Registers the functions of another engine in this one."""
        self.functions, self._own = other.functions, other._own

    def forget_function(self, name: str) -> None:
        """Removes a function; later sessions do not have it."""
        if self.functions.pop(name.lower(), None) is not None:
            self._own = uuid.uuid4().hex

    def for_few_rows(self) -> Engine:
        """This engine with a session for plans that run once, over a handful of rows.

        Apache Spark would spend most of the time compiling such a plan; this session interprets it.
        """
        if self.kind != "spark" or self.given is not None or self.functions:
            return self
        _ = self.session  # a server that starts now starts with the user's settings
        engine = Engine(self.kind, self.where, self.settings, {**self.conf, **_INTERPRETED}, self.storage)
        engine.limits, engine.tuning = self.limits, self.tuning
        return engine

    @property
    def is_local(self) -> bool:
        """Whether the engine runs on this machine and so sees its files."""
        return self.where in ("spark", "sail")

    def check(self) -> None:
        """Checks that a remote engine answers, and finds out which kind it is."""
        if self.given is None:
            _knock(self.where)
        session = self.given if self.given is not None else self.session
        version = self._guard(lambda: session.sql("SELECT version()").collect()[0][0])
        self.kind = "spark" if str(version).startswith(str(session.version)) else "sail"

    @property
    def session(self) -> Any:
        """The PySpark session; shared by all databases of this process with the same engine and settings."""
        conf = {**{name: value for name, value in self.conf.items() if _is_runtime(name)}, **self.settings.spark_conf()}
        if self.given is not None:
            if not self._given_is_set:
                for name, value in conf.items():
                    _set(self.given, name, value)
                self._given_is_set = True
            return self.given
        key = (self.where + self._own, tuple(sorted(conf.items())))
        with _lock:
            session = _sessions.get(key)
            if session is None:
                session = self._connect(conf)
                _sessions[key] = session
            return session

    def _connect(self, conf: dict[str, str]) -> Any:
        url = self.where
        if self.is_local:
            url = local_server(self.where, self.conf, self.storage)
        else:
            _knock(url)
        try:
            session = SparkSession.builder.remote(url).create()
            if self.is_local:  # a server of this process: retrying a lost connection is useless
                session.client.disable_reattachable_execute()
                session.client.set_retry_policies([])
            if self.where == "sail":
                _set(session, DEBUGGING, "false")  # Apache Spark reads it only at its start
            for name, value in conf.items():
                _set(session, name, value)
            session.range(1).collect()
            if self.kind == "sail":
                functions_on_sail.register(session)
            for name, (function, returns) in self.functions.items():
                _register(session, name, function, returns)
        except PySparkException as problem:
            raise translate(problem) from problem
        except Exception as problem:
            raise EngineError(
                f"the engine at {url.split('/;')[0]} did not answer",
                detail=str(problem).splitlines()[0][:300] if str(problem) else type(problem).__name__,
                hint="check that a Spark Connect server is running there",
            ) from problem
        return session

    def forget_session(self) -> None:
        """Drops a lost session; the next use starts a new one with the same settings."""
        with _lock:
            for key in [key for key in _sessions if key[0] == self.where + self._own]:
                _let_go(_sessions.pop(key))

    def surviving(self, action: Callable[[], T]) -> T:
        """Runs an idempotent action, and again in a new session if the engine has lost this one.

        Also runs it again if the engine lacked a user-defined function that `supply` then registered.
        """
        with self.running():
            while True:
                try:
                    return self._guard(action)
                except SessionLost:
                    if self.given is not None:
                        raise
                    self.forget_session()
                    return self._guard(action)
                except ViewkeeperError as problem:
                    if not self.supplied(problem):
                        raise

    def supplied(self, problem: ViewkeeperError) -> bool:
        """Whether the engine lacked a user-defined function, which is registered now."""
        return self.supply is not None and lacks_function(problem) and self.supply(problem)

    def running(self) -> contextlib.AbstractContextManager[Statement]:
        """The statement that all work inside belongs to: Ctrl-C and its time limit end it as a whole."""
        return statement(self.limits.statement_timeout)

    # frames --------------------------------------------------------------------------------------

    def files(self, paths: Sequence[str], schema: Schema, extra: str, *, late: bool = False) -> Frame:
        """The rows of Parquet files named one by one, with extra columns such as the weight.

        `late`: a row's other columns are decoded only if its key is wanted (late materialization).
        """
        struct, _ = spark_struct(schema, tuple(part.split()[0] for part in extra.split(", ") if part))
        reader = self.session.read.schema(struct).option("recursiveFileLookup", "true")
        if late and self.kind == "sail":  # not for a few literals: pages without them are not read anyway
            reader = reader.option("pushdown_filters", "true")
        if self.kind != "sail":
            reader = reader.option("parquet.page.verify-checksum.enabled", "true")
        return self._guard(lambda: reader.parquet(*paths).select(*[F.col(quote(name)) for name in struct.names]))

    def outside(self, paths: Sequence[str]) -> Frame:
        """The rows of a user's Parquet files, which all have the same columns."""
        return self._guard(lambda: self.session.read.parquet(*paths))

    def arrow(self, table: pa.Table, schema: Schema, extra: str = "", *, direct: bool = False) -> Frame:
        """Arrow rows as a frame: sent with the query when few (or `direct`), through a scratch file when many."""
        # Sail shows Arrow's values below a NULL struct that is sent with the query; read from a file, they are NULL.
        structs = self.kind == "sail" and any(p.fields for column in schema for p in column.type.parts())
        many = (table.num_rows > self.tuning.direct_rows and not direct) or (structs and table.num_rows)
        if many and self.put_scratch is not None:
            return self.files([self.put_scratch(table)], schema, extra)
        names = tuple(part.split()[0] for part in extra.split(", ") if part)
        return self._guard(lambda: local_frame(self.session, table, schema, names))

    def empty(self, schema: Schema, extra: str = "") -> Frame:
        """No rows as a frame, with the weight if it is `extra`; the same frame for the same columns."""
        key = (id(self.session), schema.columns, extra)
        if key not in self._empty:
            if len(self._empty) > _EMPTY_FRAMES:
                self._empty.clear()
            table = (schema.signed_arrow if extra else schema.arrow).empty_table()
            self._empty[key] = self.arrow(table, schema, extra)
        return self._empty[key]

    def sent(self, table: pa.Table) -> Frame:
        """Arrow rows as a frame that contains them, in the types they have."""
        schema = Schema(tuple(Column(field.name, type_of_arrow(field.type)) for field in table.schema))
        return self._call(lambda session: session.createDataFrame(table, schema=schema.ddl))

    def sql(self, text: str, **frames: Frame) -> Frame:
        """A query. The text names the given frames as {name}; the caller doubles all other braces."""
        return self._call(lambda session: session.sql(text, **frames))

    def bind(self, frame: Frame, keys: pa.Table, schema: Schema) -> Frame:
        """The rows whose key equals (as in GROUP BY) a row of `keys`: compared with literals if few, else broadcast."""
        filters = literal_filter(keys, schema, self.tuning.literal_keys)
        if filters is not None:
            return frame.filter(filters)
        first = literal_filter(distinct_column(keys), Schema(schema.columns[:1]), self.tuning.literal_keys)
        if first is not None:  # many keys, but few values of the first column: pages without them are not decoded
            frame = frame.filter(first)
        renamed = Schema(tuple(Column(f"_vk_k{i}", column.type) for i, column in enumerate(schema)))
        right = self.arrow(keys.rename_columns(renamed.names), renamed)
        pairs = zip(schema, renamed, keys.columns, strict=True)
        # by = Sail decodes only the matching rows of a file; without NULL and NaN, = is <=>
        signs = ["<=>" if values.null_count or column.type.is_float else "=" for column, _, values in pairs]
        names = zip(schema, renamed, signs if len(set(signs)) == 1 else ["<=>"] * len(signs), strict=True)
        condition = conjunction(comparison(sign, Name(column.name), Name(key.name)) for column, key, sign in names)
        return frame.join(F.broadcast(right), parsed(condition), "left_semi")

    def union(self, frames: Sequence[Frame]) -> Frame:
        """All rows of frames with the same columns, balanced so that plans stay shallow.

        Sail loses the columns of a union that is the right input of another union, unless a projection is between.
        """
        level = list(frames)
        while len(level) > 1:
            between = (
                [frame.select("*") for frame in level] if self.kind == "sail" and len(level) < len(frames) else level
            )
            level = [
                between[i].unionAll(between[i + 1]) if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)
            ]
        return level[0]

    # results -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def counted(self) -> Iterator[list[None]]:
        """One item for each call of the engine that is made inside, also by threads that are started there."""
        calls: list[None] = []
        token = _counted.set(calls)
        try:
            yield calls
        finally:
            _counted.reset(token)

    def collect(self, frame: Frame) -> pa.Table:
        """All rows of a frame, on the driver."""
        table: pa.Table = self._call(lambda _: frame.toArrow())
        return table

    def collect_small(self, frame: Frame) -> pa.Table | None:
        """All rows if they are few enough for the driver, else None."""
        limit = self.tuning.small_rows
        table = self.fetch(frame.limit(limit + 1))
        return table if table.num_rows <= limit else None

    def fetch(self, frame: Frame) -> pa.Table:
        """All rows of a frame, on the driver, in types that the caller still has to cast."""
        return self._call(lambda _: fetched(frame))

    def count(self, frame: Frame) -> int:
        """How many rows a frame has."""
        return int(self._call(lambda _: frame.count()))

    def columns(self, frame: Frame) -> list[tuple[str, str]]:
        """Names and types of a frame, without running it."""
        fields = self._call(lambda _: frame.schema.fields)
        return [(str(field.name), _type_text(field.dataType)) for field in fields]

    def write(self, frame: Frame, path: str, partition: str | None = None) -> None:
        """Writes a frame as Parquet files under a directory that must not exist yet, in parallel.

        Sail leaves NaN out of the statistics of floats and then skips files by them, so floats get no statistics. It
        cannot read files together whose embedded Arrow schemas spell a map or a time zone differently, so none is
        embedded.
        """
        page_rows, dictionary = _PAGE_OPTIONS[self.kind]
        writer = frame.write.option("compression", COMPRESSION).option(page_rows, str(self.tuning.page_rows))
        writer = writer.option(dictionary, str(self.tuning.dictionary_bytes))
        if self.kind == "sail":
            writer = writer.option("skip_arrow_metadata", "true")
            writer = writer.option("write_batch_size", str(self.tuning.page_rows))  # between two, it ends no page
            if any(word in kind for _, kind in self.columns(frame) for word in ("double", "float")):
                writer = writer.option("statistics_enabled", "none")
        if partition:
            writer = writer.partitionBy(partition)
        self._call(lambda _: writer.parquet(path))

    def write_in_key_ranges(
        self, frame: Frame, path: str, schema: Schema, names: Sequence[str], parts: int, rows: int
    ) -> None:
        """Writes a frame sorted by key, in about `parts` files of about equal key ranges, below a new directory.

        The range limits come from a sample of the first key column. The ranges are a partition column, because not
        every engine respects a range repartition when it writes. An engine that sorts in memory gets a slice at a time.
        """
        flat = [name for name in names if not schema.column(name).type.is_nested]
        first = schema.column(flat[0]) if flat else None
        comparable = cut_expression(first.name, first.type) if first is not None and parts > 1 else None
        cuts: list[Any] = []
        if comparable is not None:
            sample = frame.sample(min(1.0, 60.0 * parts / max(rows, 1)), 7)
            drawn = self.collect(sample.select(*listed((comparable, "_vk_cut"))))["_vk_cut"].drop_null().to_pylist()
            cuts = _cuts(drawn, parts)
        columns = [F.col("_vk_part"), *(F.col(quote(name)) for name in flat)]
        slices = -(-rows // self.tuning.sort_rows) if self.kind == "sail" else 1
        step = -(-(len(cuts) + 1) // max(slices, 1))
        for start in range(0, len(cuts) + 1, step):
            below, within, above = cuts[:start], cuts[start : start + step - 1], cuts[start + step - 1 :]
            piece = frame
            if comparable is not None and (below or above):
                piece = frame.filter(_between(parsed(comparable), below[-1:], above[:1]))
            part = _cut_tree(parsed(comparable), within, start) if comparable is not None else F.lit(0)
            ranged = piece.withColumn("_vk_part", part).sort(*columns)
            self.write(ranged, f"{path}/{start:06d}", partition="_vk_part")

    def in_python(self, frame: Frame, work: Any, ddl: str) -> Frame:
        """A frame mapped by a Python function over Arrow record batches, on the workers."""
        return self._guard(lambda: frame.mapInArrow(work, ddl))

    def version(self) -> str:
        """The engine's name and version, as it answers."""
        return str(self._call(lambda session: session.version))

    def _call(self, action: Callable[[Any], T]) -> T:
        """The result of a call of the engine, which Ctrl-C and the statement's time limit can abandon."""
        session = self.session
        calls = _counted.get()
        if calls is not None:
            calls.append(None)
        with self.running() as running:
            return self._guard(lambda: running.call(session, lambda: action(session)))

    def _guard(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except PySparkException as problem:
            raise translate(problem) from problem
        except Exception as problem:
            if type(problem).__module__.startswith("grpc"):
                raise translate(problem) from problem
            raise


def _register(session: Any, name: str, function: Any, returns: str) -> None:
    """Registers a function: on whole columns if its arguments are annotated as pandas Series, else on values."""
    hints = typing.get_type_hints(function) if hasattr(function, "__annotations__") else {}
    by_column = any("pandas" in str(getattr(hint, "__module__", "")) for hint in hints.values())
    made = F.pandas_udf(function, returns) if by_column else F.udf(function, returns)
    session.udf.register(name, made)


def _let_go(session: Any) -> None:
    """Keeps PySpark from asking a lost session for settings."""
    if RemoteSession._default_session is session:
        RemoteSession._default_session = None
    if getattr(RemoteSession._active_session, "session", None) is session:
        RemoteSession._active_session.session = None


def _knock(url: str) -> None:
    """Checks that something listens at an endpoint; PySpark itself would retry for minutes."""
    address = urllib.parse.urlparse(url.split("/;")[0])
    try:
        socket.create_connection((address.hostname or "localhost", address.port or 15002), timeout=10).close()
    except OSError as problem:
        raise EngineError(
            f"the engine at {url.split('/;')[0]} did not answer",
            detail=problem.strerror or str(problem),
            hint="check that a Spark Connect server is running there",
        ) from problem


def _type_text(kind: Any) -> str:
    """A PySpark type as DDL; unlike PySpark's own, with quoted field names."""
    if isinstance(kind, StructType):
        return f"struct<{','.join(f'{quote(field.name)}:{_type_text(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{_type_text(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{_type_text(kind.keyType)},{_type_text(kind.valueType)}>"
    return str(kind.simpleString())


def _set(session: Any, name: str, value: str) -> None:
    try:
        session.conf.set(name, value)
    except PySparkException as problem:
        raise EngineError(f"the engine refuses the setting {name} = {value}", detail=str(problem)[:300]) from problem


def _is_runtime(name: str) -> bool:
    """Whether a setting belongs to a session; the others are given to Apache Spark when it starts."""
    return name.startswith("spark.sql.") and not name.startswith(("spark.sql.warehouse", "spark.sql.extensions"))


def _cuts(drawn: list[Any], parts: int) -> list[Any]:
    """At most parts - 1 values that divide a sample into about equal parts."""
    drawn = sorted(drawn)
    if not drawn:
        return []
    return sorted({drawn[min(len(drawn) - 1, len(drawn) * i // parts)] for i in range(1, parts)})


def _between(column: Any, low: list[Any], high: list[Any]) -> Any:
    """Whether a column is at least `low` and below `high`, where given; NULL and NaN come after everything."""
    if not low:
        return column < F.lit(high[0])
    if not high:
        return (column >= F.lit(low[0])) | column.isNull()
    return (column >= F.lit(low[0])) & (column < F.lit(high[0]))


def _cut_tree(column: Any, cuts: list[Any], first: int = 0) -> Any:
    """How many of the cut values are at or below a column, as a balanced tree of comparisons."""
    if not cuts:
        return F.lit(first)
    middle = len(cuts) // 2
    return F.when(column < F.lit(cuts[middle]), _cut_tree(column, cuts[:middle], first)).otherwise(
        _cut_tree(column, cuts[middle + 1 :], first + middle + 1)
    )
