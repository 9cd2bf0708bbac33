"""Engine exceptions as Viewkeeper errors: one sentence, without stack traces and plans."""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.errors.exceptions import connect

from viewkeeper.errors import (
    EngineError,
    NotFound,
    SessionLost,
    SqlError,
    StorageError,
    TypeMismatch,
    ViewkeeperError,
)

UNREADABLE = "a file of the database could not be read"
ASK_DOCTOR = "run `viewkeeper doctor --db DIR`: it names damaged and missing files"

_LOST = (
    "SESSION_NOT_FOUND",
    "SESSION_CLOSED",
    "SESSION_CHANGED",
    "NO_ACTIVE_SESSION",
    "SESSION_NOT_SAME",
    "session not found",
    "StatusCode.UNAVAILABLE",
)
_STOPPED = re.compile(r"session \S+ is not running")
_FULL = ("No space left on device", "File too large", "Disk quota exceeded")
_MISSING = ("FILE_NOT_EXIST", "FAILED_READ_FILE", "PATH_NOT_FOUND", "No such file", "not found: No such")
_CORRUPT = ("CANNOT_READ_FILE_FOOTER", "is not a Parquet file", "Invalid Parquet", "Corrupt footer", "Parquet error")
_CASTS = (
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "ARITHMETIC_OVERFLOW",
    "Cannot cast",
    "Can't cast",
)
_SAIL_WORDS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"Division by zero|Divide by zero", re.IGNORECASE), "[DIVIDE_BY_ZERO] Division by zero"),
    (re.compile(r"Remainder by zero", re.IGNORECASE), "[REMAINDER_BY_ZERO] Remainder by zero"),
    (re.compile(r"Can't cast value (\S+) to type (Int\d+)"), "[ARITHMETIC_OVERFLOW] {} does not fit {}"),
    (re.compile(r"value of (\S+) is out of range (Int\d+)"), "[ARITHMETIC_OVERFLOW] {} does not fit {}"),
    (
        re.compile(r"(Int\d+) overflow on negative\((\S+)\)"),
        "[ARITHMETIC_OVERFLOW] the negative of {1} does not fit {0}",
    ),
    (
        re.compile(r"(\S+) is too large to store in a Decimal\d+ of precision (\d+)"),
        "[NUMERIC_VALUE_OUT_OF_RANGE] {} has more digits than a DECIMAL of {} holds",
    ),
    (
        re.compile(r"Cannot cast to Decimal\d+\((\d+), (\d+)\)\. Overflowing on \S+|Overflow happened on: "),
        "[NUMERIC_VALUE_OUT_OF_RANGE] a result has more digits than a DECIMAL holds",
    ),
)
"""Sail's messages about values, and the same in Apache Spark's words."""
_INTEGERS = {"Int8": "TINYINT", "Int16": "SMALLINT", "Int32": "INT", "Int64": "BIGINT"}


_OF_VALUES = (
    connect.ArithmeticException,
    connect.ArrayIndexOutOfBoundsException,
    connect.DateTimeException,
    connect.NumberFormatException,
    connect.SparkRuntimeException,
    connect.PythonException,
)
_OF_PLANS = (
    connect.ParseException,
    connect.UnsupportedOperationException,
    connect.QueryExecutionException,
)
_VALUE_TEXTS = re.compile(
    r"by zero|overflow|out of (?:range|bounds)|cannot cast|can't cast|invalid (?:timestamp|input|date|time|index)"
    r"|is not true!|more than one row|does not match|Illegal sequence|negative count|datetime (?:field|literal)"
    r"|\[(?:DIVIDE_BY_ZERO|REMAINDER_BY_ZERO|\w*ARITHMETIC_OVERFLOW|CAST_\w+|NUMERIC_VALUE_OUT_OF_RANGE|DATETIME_\w+"
    r"|INVALID_ARRAY_INDEX\w*|DUPLICATED_MAP_KEY|NULL_MAP_KEY|USER_RAISED_EXCEPTION|CANNOT_PARSE_\w+)",
    re.IGNORECASE,
)
"""Sail's messages about values that an expression cannot take; Sail has one class for almost all errors."""


class Endless(Exception):
    """A recursion was stopped. `column` names one that grows; `rounds` and `rows` are limits that were reached."""

    def __init__(self, *, column: str | None = None, rounds: int | None = None, rows: int | None = None) -> None:
        super().__init__("a recursion was given up")
        self.column = column
        self.rounds = rounds
        self.rows = rows


def depends_on_values(problem: BaseException) -> bool | None:
    """Whether a plan failed because of the values of its rows; None if that is not known.

    True for division by zero, overflow, a bad cast, or a user-defined function that raised; False for a plan that the
    engine refuses, or an internal error.
    """
    cause = _root(problem)
    if isinstance(cause, (Endless, *_OF_VALUES)):
        return True
    if isinstance(cause, PySparkException):
        if isinstance(cause, _OF_PLANS) or _error_condition(cause):
            return False
        return True if _VALUE_TEXTS.search(str(cause)) else None
    if isinstance(cause, TypeMismatch):
        return None
    return isinstance(cause, EngineError)  # one that is missing


def _root(problem: BaseException) -> BaseException:
    """The exception that PySpark or the code raised first."""
    while problem.__cause__ is not None and not isinstance(problem, PySparkException):
        problem = problem.__cause__
    return problem


def _error_condition(problem: PySparkException) -> bool:
    """Whether an exception has an error condition of Apache Spark; Sail has names in its texts alone."""
    return isinstance(problem, AnalysisException) and bool(problem.getCondition())


_NO_FUNCTION = ("UNRESOLVED_ROUTINE", "unknown function")


def lacks_function(problem: ViewkeeperError) -> bool:
    """Whether the engine does not have a function that was called."""
    return any(mark in f"{problem.message} {problem.detail}" for mark in _NO_FUNCTION)


def translate(problem: Exception) -> ViewkeeperError:
    """The Viewkeeper error for an exception of PySpark or gRPC."""
    text = str(problem)
    raised = re.search(r"viewkeeper\.errors\.(TypeMismatch|NotFound): (.+)", text)
    if raised:  # by a Viewkeeper function that ran on a worker
        kind = TypeMismatch if raised.group(1) == "TypeMismatch" else NotFound
        return kind(raised.group(2).strip())
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
    line = _in_sparks_words(line)
    if any(mark in line or mark in text for mark in _CASTS):
        return TypeMismatch(line)
    if line.startswith(("[DIVIDE_BY_ZERO]", "[REMAINDER_BY_ZERO]")):
        return EngineError(line)
    if isinstance(problem, (ParseException, AnalysisException)):
        return SqlError(line)
    if isinstance(problem, PySparkException):
        return EngineError(line)
    return EngineError(f"the engine failed: {line}", detail=type(problem).__name__)


def _in_sparks_words(line: str) -> str:
    """Sail's message about a value, in Apache Spark's words."""
    for pattern, words in _SAIL_WORDS:
        found = pattern.search(line)
        if found is not None and not line.startswith("["):
            return words.format(*(_INTEGERS.get(part, part) for part in found.groups()))
    return line


def _first_line(text: str) -> str:
    text = re.split(r"\n\s*(?:JVM stacktrace|== SQL|Driver stacktrace|;\s*$)", text, maxsplit=1)[0]
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    line = lines[0] if lines else "no message"
    line = re.sub(r"\s*SQLSTATE: \w+;?", "", line)
    return line[:600]
