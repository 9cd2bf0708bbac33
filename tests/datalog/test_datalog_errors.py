"""What a user reads when a program is refused, word for word: programs and their errors stand in errors.txt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.types import parse_type
from viewkeeper.datalog.functors import RESERVED
from viewkeeper.datalog.parsing import parse
from viewkeeper.datalog.refusals import REFUSALS
from viewkeeper.datalog.safety import check
from viewkeeper.datalog.strata import stratify
from viewkeeper.errors import DatalogError

COLUMNS = {"id": "bigint", "region": "string", "amount": "decimal(8,2)", "day": "date", "paid": "boolean"}
ORDERS = Schema(tuple(Column(name, parse_type(kind)) for name, kind in COLUMNS.items()))
OUTSIDE = {"orders": ORDERS, "node": None, "edge": None}

TABLE = [
    tuple(case.split("\n----\n"))
    for case in Path(__file__).with_name("errors.txt").read_text(encoding="utf-8").rstrip("\n").split("\n====\n")
]


@pytest.mark.parametrize(("program", "text"), TABLE)
def test_message(program: str, text: str) -> None:
    with pytest.raises(DatalogError) as found:
        stratify(check(parse(program), OUTSIDE).rules)
    assert str(found.value) == text


def test_no_program_stands_twice() -> None:
    assert len({program for program, _ in TABLE}) == len(TABLE)


def test_every_refusal_is_in_the_table() -> None:
    messages = [text.split("\n")[0] for _, text in TABLE]
    for refusal in REFUSALS:
        pattern = re.escape(refusal.message).replace(re.escape("{word}"), ".+")
        assert any(re.fullmatch(pattern, message) for message in messages), refusal.message


def test_every_word_that_a_refusal_names_is_in_the_table() -> None:
    texts = [text for _, text in TABLE]
    for refusal in REFUSALS:
        for part in (refusal.at, refusal.before):
            words = re.search(r"\(\?P<word>(?:\\\.)?\(?((?:[a-z_]+\|)+[a-z_]+)\)?\)", part)
            for word in words.group(1).split("|") if words else ():
                assert any(word in text.split("\n")[0] for text in texts), word


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_no_relation_has_a_reserved_word_for_a_name(word: str) -> None:
    with pytest.raises(DatalogError, match=f"'{word}' is a word of the language, not a name"):
        parse(f".decl {word}(x:number)")


def test_errors_say_what_to_type() -> None:
    assert all(text.rsplit("\n", 1)[1].startswith("hint: ") for _, text in TABLE)
