"""Values in the place of parameters and of columns of a row."""

from __future__ import annotations

import pytest

from viewkeeper.rules.bound_texts import bound, parameters_in, unbound


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


def test_spans_of_a_bound_text_are_found_in_the_text() -> None:
    text, values = "f(:x, a) > new.b AND b = :x", {":x": "CAST(NULL AS INT)", "new.b": "1"}
    made = bound(text, values)
    for word in ("f", "a)", "AND", "b =", "f(", "> "):
        at = made.index(word)
        start, end = unbound(text, values, at, at + len(word))
        assert (start, text[start:end]) == (text.index(word), word)
    for part, name in (("NULL", ":x"), ("CAST(NULL AS INT)", ":x"), ("1", "new.b"), (", a) > 1", ", a) > new.b")):
        at = made.index(part)
        start, end = unbound(text, values, at, at + len(part))
        assert text[start:end] == name
    assert unbound(text, values, 0, len(made)) == (0, len(text))
