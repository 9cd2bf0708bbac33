"""The page on lanes lists what the driver computes: the forms that a test compares with both engines."""

from __future__ import annotations

import re
from pathlib import Path

from tests.driver.forms import forms, legend, listed
from tests.property.test_both_lanes import AGGREGATES, RANKS, SHIFTED
from viewkeeper.algebra.function_types import RULES
from viewkeeper.driver.arrow_functions import FUNCTIONS
from viewkeeper.driver.arrow_windows import WINDOW_FUNCTIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lanes.md"


def test_the_table_is_what_is_compared() -> None:
    """`PYTHONPATH=src python -m tests.docs.test_lanes_page` prints it."""
    rows = re.findall(r"^\| .*`.* \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == listed()
    assert legend() in PAGE.read_text()


def test_every_function_is_compared_and_has_a_type() -> None:
    compared = {name.strip("`").lower() for name, _ in forms()}
    assert set(FUNCTIONS) <= compared
    assert set(FUNCTIONS) == set(RULES)


def test_the_window_functions_are_listed_and_compared() -> None:
    (listing,) = re.findall(r"^Window functions: (.*)\.$", PAGE.read_text(), re.MULTILINE)
    assert re.findall(r"`(\w+)`", listing) == sorted(WINDOW_FUNCTIONS)
    names = {re.match(r"\w+", text).group() for text in (*RANKS, *SHIFTED, *AGGREGATES)}  # type: ignore[union-attr]
    spelled_otherwise = {"first", "any_value", "last", "mean"}
    assert set(WINDOW_FUNCTIONS) - spelled_otherwise == names | {"sum", "avg"}


if __name__ == "__main__":
    print("\n".join([legend(), *listed()]))
