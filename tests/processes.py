"""Child processes of tests: started with a clean environment, heard line by line, never left behind."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
"""Where `tests` is found by a child."""

OURS = ("VIEWKEEPER_", "SPARK_", "PYSPARK_")
"""What a process that has an engine running tells its children; a process of its own has to do without."""

KEPT = "PYSPARK_SUBMIT_ARGS"
"""How tests start Apache Spark, which their children do as well."""


QUICK_JVM = "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'"
"""A JVM for a minute: it optimises little. Over many rows its plans are still compiled, which is twice as fast."""


def clean_environment(**more: str) -> dict[str, str]:
    """The environment of a process that nobody has prepared."""
    kept = {name: value for name, value in os.environ.items() if name == KEPT or not name.startswith(OURS)}
    return kept | more


def command(program: ModuleType, *arguments: object) -> list[str]:
    """What starts a module of the tests as a program, in the directory `ROOT`."""
    return [sys.executable, "-m", program.__name__, *map(str, arguments)]


@contextlib.contextmanager
def child(program: ModuleType, *arguments: object, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Runs a module of the tests as a program; whatever happens, it is gone afterwards."""
    started = subprocess.Popen(
        command(program, *arguments),
        cwd=ROOT,
        env=clean_environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
            started.wait()
        for stream in (started.stdout, started.stderr):
            if stream is not None:
                stream.close()
