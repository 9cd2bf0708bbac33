"""The local servers behind the engines: Apache Spark in a JVM, Sail in this process. One of each per process."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

from viewkeeper.engine.sigint import keeping_python_sigint, keeping_sigint
from viewkeeper.errors import EngineError

SAIL_STACK = "268435456"
"""Sail overflows its stack on deep plans unless this is set before it starts."""

SAIL_THREADS = 16 + 4 * (os.cpu_count() or 2)
"""More than a query needs: an interrupted cross join goes on, and holds a thread for each partition until it ends.
All servers of a process share these threads, so another server would not help. Not many more, because each keeps the
pages that it has allocated last."""

SAIL_ALLOCATOR = {"MIMALLOC_PURGE_DELAY": "0", "MIMALLOC_PAGE_FULL_RETAIN": "0"}
"""Sail's allocator gives free memory back at once. It would do so when its threads allocate again, and they are idle
after a large query: that kept gigabytes. It reads these when Sail is imported."""

_ATTEMPTS = 2
"""How often starting Apache Spark is tried: the free port may be taken before it listens."""

_lock = threading.Lock()
_addresses: dict[str, str] = {}


DEBUGGING = "spark.python.sql.dataFrameDebugging.enabled"
"""Whether PySpark records the call site of every frame operation, which takes a tenth of a small commit."""


def local_server(kind: str, conf: dict[str, str], storage: dict[str, str]) -> str:
    """The Spark Connect address of the local server of a kind; starts it if it does not run."""
    with _lock:
        if kind not in _addresses or not (kind == "spark" or _listens(_addresses[kind])):
            _addresses[kind] = _start_sail(storage) if kind == "sail" else _start_spark(conf)
        return _addresses[kind]


def _listens(address: str) -> bool:
    host, port = address.removeprefix("sc://").split(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError:
        return False
    return True


def _start_sail(storage: dict[str, str]) -> str:
    os.environ.setdefault("SAIL_RUNTIME__STACK_SIZE", SAIL_STACK)
    os.environ.setdefault("RUST_LOG", "off")
    for name, value in storage.items():
        os.environ.setdefault(name.upper(), value)
    with contextlib.ExitStack() as settings:
        for name, value in {**SAIL_ALLOCATOR, "TOKIO_WORKER_THREADS": str(SAIL_THREADS)}.items():
            settings.enter_context(_with(name, value))
        from pysail.spark import SparkConnectServer

        settings.enter_context(keeping_sigint())
        server = SparkConnectServer("127.0.0.1", 0)
        server.start(background=True)
    host, port = server.listening_address
    atexit.register(_quietly(server.stop))
    return f"sc://{host}:{port}"


def _start_spark(conf: dict[str, str]) -> str:
    """Starts Apache Spark with a Spark Connect endpoint on a port of its own, its log not on the terminal.

    The JVM is PySpark's own gateway: it ends when this process ends, however that happens.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession as Classic
    from pyspark.sql.connect.session import SparkSession as Remote

    options: dict[str, Any] = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        "spark.sql.warehouse.dir": os.path.join(tempfile.gettempdir(), "viewkeeper-warehouse"),
        "spark.sql.debug.maxToStringFields": "200",
        "spark.connect.session.manager.defaultSessionTimeout": "24h",
        DEBUGGING: "false",
        **conf,
    }
    log = os.path.join(tempfile.gettempdir(), f"viewkeeper-spark-{os.getpid()}.log")
    for attempt in range(_ATTEMPTS):
        port = _free_port()
        try:
            with _output_to(log), _without("SPARK_CONNECT_MODE_ENABLED"), keeping_python_sigint():
                Remote._start_connect_server("local[*]", {**options, "spark.connect.grpc.binding.port": str(port)})
            break
        except Exception as problem:
            if attempt == _ATTEMPTS - 1:
                raise EngineError(
                    "Apache Spark did not start",
                    detail=f"{problem}; its log is {log}",
                    hint="run `viewkeeper doctor`, or use engine='sail', which needs no Java",
                ) from problem
    classic = Classic._instantiatedSession

    def stop() -> None:
        if classic is not None:
            classic.stop()
        with contextlib.suppress(OSError):
            os.unlink(log)

    atexit.register(_quietly(stop))
    # In the environment the token would also be used for other endpoints, and turn TLS on for them. In the address
    # it goes to this server only; unencrypted, because that is localhost.
    token = os.environ.pop("SPARK_CONNECT_AUTHENTICATE_TOKEN", None)
    return f"sc://localhost:{port}" + (f"/;token={token}" if token else "")


@contextlib.contextmanager
def _without(name: str) -> Iterator[None]:
    """Removes an environment variable for a while."""
    kept = os.environ.pop(name, None)
    try:
        yield
    finally:
        if kept is not None:
            os.environ[name] = kept


@contextlib.contextmanager
def _with(name: str, value: str) -> Iterator[None]:
    """Sets an environment variable for a while, unless the user has set it."""
    if name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _output_to(path: str) -> Iterator[None]:
    """Sends the output of child processes that are started inside to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        for handle in (*kept, target):
            os.close(handle)


def _quietly(action: Any) -> Any:
    """Runs an action at exit without output: messages of stopping servers do not help a user."""

    def run() -> None:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere), contextlib.suppress(Exception):
            action()

    return run
