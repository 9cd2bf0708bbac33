"""A PostgreSQL server of one's own, from the binaries of the `pgserver` package.

POSTGRES_BINARIES=/usr/lib/postgresql/15/bin takes another server's.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psycopg


@contextlib.contextmanager
def running_postgres(**settings: str) -> Iterator[str]:
    """A running server, as the text to connect by. It refuses to run as root, so root starts it as nobody."""
    spec = find_spec("pgserver")
    assert spec is not None
    assert spec.origin is not None
    packages = Path(spec.origin).parent.parent
    home = Path(tempfile.mkdtemp(prefix="vk-pg-", dir="/tmp"))  # a socket's path is short
    user = "nobody" if os.geteuid() == 0 else None
    if user is not None:
        for part in ("pgserver", "pgserver.libs"):  # nobody may not be able to read the place it is installed in
            shutil.copytree(packages / part, home / part)
        packages = home
        shutil.chown(home, user)
    binaries = Path(os.environ.get("POSTGRES_BINARIES") or packages / "pgserver" / "pginstall" / "bin")
    data = home / "data"
    running = None
    try:
        subprocess.run(
            [binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"],
            check=True, capture_output=True, user=user, cwd=home,
        )  # fmt: skip
        options = {"listen_addresses": "", "unix_socket_directories": str(home), "timezone": "UTC", **settings}
        flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        log = (home / "log").open("wb")
        running = subprocess.Popen(
            [binaries / "postgres", "-D", data, *flags], stdout=log, stderr=log, user=user, cwd=home
        )
        log.close()
        where = f"host={home} user=postgres dbname=postgres"
        _wait(where, running, home / "log")
        yield where
    finally:
        if running is not None:
            running.send_signal(signal.SIGINT)  # without waiting for connections
            running.wait(60)
        shutil.rmtree(home)


def _wait(where: str, running: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        assert running.poll() is None, log.read_text()
        try:
            psycopg.connect(where).close()
        except psycopg.OperationalError:
            try:
                running.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        else:
            return
    raise AssertionError(log.read_text())
