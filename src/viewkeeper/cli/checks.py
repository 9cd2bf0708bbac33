"""The checks of `doctor` on this machine: Python, Java, packages, disk space and the engines."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from importlib.metadata import version as installed

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from viewkeeper.cli.output import size
from viewkeeper.errors import ViewkeeperError

PYTHON = (3, 11)
PACKAGES = ("pyspark", "pysail", "pyarrow", "sqlglot")
LITTLE_SPACE = 1_000_000_000
TOO_LITTLE_SPACE = 100_000_000


@dataclass(frozen=True)
class Finding:
    """What one check found. Status "ok", "note" (works, but worth knowing) or "problem"; `todo` says what to do."""

    check: str
    status: str
    found: str
    todo: str = ""


def check_python() -> Finding:
    """Python is new enough."""
    found = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info >= PYTHON:
        return Finding("Python", "ok", found)
    return Finding("Python", "problem", found, "install Python 3.11 or newer")


def check_java(*, needed: bool) -> Finding:
    """There is a Java that Apache Spark can run on."""
    from viewkeeper.engine.java import NEEDED, find_java

    java = find_java()
    if java is not None and java.version >= NEEDED:
        return Finding("Java", "ok", f"{java.version} ({java.path})")
    found = "not found" if java is None else f"{java.version} ({java.path}), which is too old"
    if not needed:
        return Finding("Java", "ok", f"{found}; this engine does not need it")
    todo = f"install Java {NEEDED} or newer and set JAVA_HOME, or use --engine sail, which needs none"
    return Finding("Java", "problem", found, todo)


def check_packages() -> Iterator[Finding]:
    """The main packages are installed, in versions that this release supports."""
    wanted: dict[str, str] = {canonicalize_name(each.name): str(each) for each in _wanted()}
    for name in PACKAGES:
        text = wanted.get(name, name)
        todo = f"pip install '{text}'"
        try:
            found = installed(name)
        except PackageNotFoundError:
            yield Finding(name, "problem", "not installed", todo)
            continue
        if fits(found, text):
            yield Finding(name, "ok", found)
        else:
            yield Finding(name, "problem", f"{found}, which does not fit {text}", todo)


def _wanted() -> Iterator[Requirement]:
    """The requirements of this release here, without optional ones."""
    for text in requires("viewkeeper") or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement


def fits(version: str, requirement: str) -> bool:
    """Whether a version is one that a requirement allows."""
    return Requirement(requirement).specifier.contains(version, prereleases=True)


def check_space(path: str, what: str) -> Finding:
    """There is room on the disk of a path, which need not exist yet."""
    there = os.path.abspath(path)
    while not os.path.exists(there):
        there = os.path.dirname(there)
    free = shutil.disk_usage(there).free
    found = f"{size(free)} free at {there}"
    todo = "free some space; `viewkeeper vacuum` deletes files that are no longer needed"
    if free < TOO_LITTLE_SPACE:
        return Finding(what, "problem", found, todo)
    return Finding(what, "note", found, todo) if free < LITTLE_SPACE else Finding(what, "ok", found)


def check_temporary_space() -> Finding:
    """There is room for the engines' own files."""
    return check_space(tempfile.gettempdir(), "Temporary space")


def check_engine(engine: str) -> Finding:
    """An engine starts and answers a query."""
    from viewkeeper.engine.engine import open_engine

    name = {"spark": "Apache Spark", "sail": "Sail"}.get(engine.lower(), engine)
    begun = time.monotonic()
    try:
        opened = open_engine(engine, None, {}, {})
        answer = opened.collect(opened.sql("SELECT sum(id) AS total FROM range(1000)"))["total"].to_pylist()
        version = opened.version()
    except ViewkeeperError as problem:
        found = problem.message if problem.detail is None else f"{problem.message}: {problem.detail}"
        other = "spark" if engine.lower() == "sail" else "sail"
        return Finding(name, "problem", found, f"use --engine {other} meanwhile, and read the message")
    if answer != [499500]:
        return Finding(name, "problem", f"a query gave {answer}, not 499500", "install pyspark and pysail again")
    return Finding(name, "ok", f"answers as Spark {version}, after {time.monotonic() - begun:.1f} s")
