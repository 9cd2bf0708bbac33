"""Where something is wrong: the mark stands under it on a screen."""

from __future__ import annotations

import pytest

from viewkeeper.errors import Place
from viewkeeper.sql.dialect import SourceText, place_in


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT x", "line 1, column 8:\n  SELECT x\n         ^"),
        ("a\n\tx\n", "line 2, column 2:\n      x\n      ^"),
        ("'日本' x", "line 1, column 6:\n  '日本' x\n         ^"),
        ("'e\u0301' x", "line 1, column 6:\n  'e\u0301' x\n      ^"),
    ],
)
def test_the_mark_stands_under_it(text: str, shown: str) -> None:
    assert str(Place.at(text, text.index("x"))) == shown


def test_wide_letters_are_marked_as_wide_as_they_are() -> None:
    assert str(Place.at("日本", 0, 2)).endswith("\n  ^^^^")


def test_a_piece_of_text_knows_where_it_was_cut_from() -> None:
    whole = "SELECT 1; SELECT 1"
    second = SourceText.of(whole, 10, 18)
    assert place_in(second, 7, 1, whole).column == 18
    assert place_in("SELECT 1", 7, 1, whole).column == 8
    assert place_in(second, 7, 1, "SELECT 1").column == 8
    assert second == "SELECT 1"
