"""Engine exceptions as errors of ours: one sentence, without stack traces and plans."""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException, ParseException, PySparkException

from viewkeeper.errors import EngineError, SessionLost, SqlError, StorageError, TypeMismatch, ViewkeeperError

UNREADABLE = "a file of the database could not be read"
ASK_DOCTOR = "run `viewkeeper doctor --db DIR`: it names damaged and missing files"

_LOST = (
    "SESSION_NOT_FOUND",
    "SESSION_CLOSED",
    "SESSION_CHANGED",
    "NO_ACTIVE_SESSION",
    "session not found",
    "StatusCode.UNAVAILABLE",
)
_STOPPED = re.compile(r"session \S+ is not running")
_FULL = ("No space left on device", "File too large", "Disk quota exceeded")
_MISSING = ("FILE_NOT_EXIST", "FAILED_READ_FILE", "PATH_NOT_FOUND", "No such file", "not found: No such")
_CORRUPT = ("CANNOT_READ_FILE_FOOTER", "is not a Parquet file", "Invalid Parquet", "Corrupt footer", "Parquet error")
_CASTS = ("CAST_INVALID_INPUT", "CAST_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE", "Cannot cast", "Can't cast")


def translate(problem: Exception) -> ViewkeeperError:
    """The error of ours for an exception that PySpark or gRPC raised."""
    text = str(problem)
    raised = re.search(r"viewkeeper\.errors\.TypeMismatch: (.+)", text)
    if raised:  # by a function of ours that ran on a worker
        return TypeMismatch(raised.group(1).strip())
    line = _first_line(text)
    if any(mark in text for mark in _LOST) or _STOPPED.search(text):
        return SessionLost("the engine no longer knows this session", detail=line, hint="run the statement again")
    if any(mark in text for mark in _FULL):
        return StorageError(
            "the engine could not write a file: " + next(mark for mark in _FULL if mark in text).lower(),
            detail=line,
            hint="free some space, or run `viewkeeper vacuum`; nothing was changed",
        )
    if any(mark in text for mark in (*_MISSING, *_CORRUPT)):
        return StorageError(
            UNREADABLE,
            detail=line,
            hint=ASK_DOCTOR,
        )
    if any(mark in text for mark in _CASTS):
        return TypeMismatch(line)
    if isinstance(problem, (ParseException, AnalysisException)):
        return SqlError(line)
    if isinstance(problem, PySparkException):
        return EngineError(line)
    return EngineError(f"the engine failed: {line}", detail=type(problem).__name__)


def _first_line(text: str) -> str:
    text = re.split(r"\n\s*(?:JVM stacktrace|== SQL|Driver stacktrace|;\s*$)", text, maxsplit=1)[0]
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    line = lines[0] if lines else "no message"
    line = re.sub(r"\s*SQLSTATE: \w+;?", "", line)
    return line[:600]
