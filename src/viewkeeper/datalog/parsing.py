"""Parses a program."""

from __future__ import annotations

import functools
from importlib import resources

from lark import Lark, UnexpectedInput

from viewkeeper.datalog.building import Builder
from viewkeeper.datalog.mistakes import explain
from viewkeeper.datalog.program_tree import Program


def parse(text: str) -> Program:
    """The tree of a program."""
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as problem:
        raise explain(problem, text) from None
    return Builder(text).program(tree)


@functools.cache
def _parser() -> Lark:
    grammar = resources.files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True)
