"""Values in the place of parameters and of columns of a row."""

from __future__ import annotations

import pytest

from viewkeeper.rules.bound_texts import bound, parameters_in


@pytest.mark.parametrize(
    "text", ["a > :x", "a >:x", "a>:x", "-:x", "f(:x)", "f(1,:x)", "a = :x", "1+:x", "(a):: INT > :x"]
)
def test_a_parameter_after_anything_but_a_value(text: str) -> None:
    assert parameters_in(text) == {"x"}
    assert bound(text, {":x": "7"}) == text.replace(":x", "7")


@pytest.mark.parametrize("text", ["a:x", "a_:x", "f(a):x", "a[1]:x", "`a b`:x", "'y: :x'"])
def test_a_path_into_a_variant_is_no_parameter(text: str) -> None:
    assert parameters_in(text) == set()
    assert bound(text, {":x": "7"}) == text
