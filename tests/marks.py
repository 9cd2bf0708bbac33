"""Parameters that belong to the long form of a test, on every engine or on Apache Spark."""

from __future__ import annotations

from typing import Any

import pytest


def long(*values: Any) -> list[Any]:
    """Parameters of one argument that run in the long form alone."""
    return [pytest.param(value, marks=pytest.mark.long) for value in values]


def spark_long(*values: Any) -> list[Any]:
    """Parameters of one argument that run on Sail in the normal run and on Apache Spark in the long form."""
    return [pytest.param(value, marks=pytest.mark.spark_long) for value in values]
