"""Functions of Apache Spark in Python, over Arrow columns: those that Sail computes differently and SQL cannot repair.

Every session on Sail has them registered; `sql/sail_rewrites.py` puts calls of them into expressions. A function
returns NULL where an argument is NULL.
"""

from __future__ import annotations

import decimal
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import functions as F

_WIDE = decimal.Context(prec=800)
_PLACES = 40
"""Digits after the point that are enough for every DECIMAL, also to round it."""
_LEAST, _MOST = 1e-3, 1e7
"""The range in which Java writes a float without an exponent."""


def double_text(value: float) -> str:
    """A DOUBLE as Java writes it, with the fewest digits that identify it."""
    return _float_text(value, repr(abs(value)))


def float_text(value: float) -> str:
    """A FLOAT as Java writes it."""
    return _float_text(value, str(np.float32(abs(value))))


def _float_text(value: float, digits: str) -> str:
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0.0"
    exact = decimal.Decimal(digits)
    if _LEAST <= abs(value) < _MOST:
        shown = f"{exact:f}"
        return sign + (shown if "." in shown else f"{shown}.0")
    figures = exact.normalize(_WIDE).as_tuple().digits
    if len(figures) == 1:  # Java writes two digits at least, the nearest ones
        exact = decimal.Decimal(f"{abs(value):.1e}")
        figures = exact.as_tuple().digits
    rest = "".join(map(str, figures[1:]))
    return f"{sign}{figures[0]}.{rest}E{exact.adjusted()}"


def _rounded(mode: str) -> Callable[[float, int], float]:
    def rounded(value: float, digits: int) -> float:
        if not math.isfinite(value):
            return value
        unit = decimal.Decimal(1).scaleb(-max(-400, min(400, digits)))
        return float(decimal.Decimal(repr(value)).quantize(unit, rounding=mode, context=_WIDE))

    return rounded


def digits(value: float) -> str | None:
    """A DOUBLE in its shortest digits, without an exponent; NULL if it is not finite, as when cast to DECIMAL."""
    if not math.isfinite(value):
        return None
    exact = decimal.Decimal(repr(value))
    exponent = exact.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -_PLACES:
        exact = exact.quantize(decimal.Decimal(1).scaleb(-_PLACES), rounding=decimal.ROUND_DOWN, context=_WIDE)
    return f"{exact:f}"


def initcap(value: str) -> str:
    """The first letter of each word in upper case, the others in lower case; only blanks separate words."""
    return " ".join(word[:1].title() + word[1:] for word in value.lower().split(" "))


def rint(value: float) -> float:
    """The nearest whole number; the even one of two."""
    return float(np.rint(value))


FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "vk_double_text": (double_text, "string"),
    "vk_float_text": (float_text, "string"),
    "vk_round": (_rounded(decimal.ROUND_HALF_UP), "double"),
    "vk_bround": (_rounded(decimal.ROUND_HALF_EVEN), "double"),
    "vk_rint": (rint, "double"),
    "vk_digits": (digits, "string"),
    "vk_initcap": (initcap, "string"),
}
"""The functions, and the types they return."""

_ARROW = {"string": pa.string(), "double": pa.float64(), "int": pa.int32()}


def register(session: Any) -> None:
    """Registers the functions in a session."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # a server elsewhere has no viewkeeper
    for name, (function, returns) in FUNCTIONS.items():
        session.udf.register(name, F.arrow_udf(_by_column(function, returns), returns))


def _by_column(function: Callable[..., Any], returns: str) -> Callable[..., Any]:
    kind = _ARROW[returns]

    def mapped(*columns: pa.Array) -> pa.Array:
        rows = zip(*[column.to_pylist() for column in columns], strict=True)
        return pa.array([None if None in row else function(*row) for row in rows], type=kind)

    return mapped
