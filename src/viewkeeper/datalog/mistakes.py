"""Errors for text that cannot be parsed: what was found, what was expected, and what to type."""

from __future__ import annotations

import re
from dataclasses import replace

from lark import UnexpectedInput

from viewkeeper.datalog.refusals import find_refusal
from viewkeeper.errors import DatalogError, Place

_SKIPPED = re.compile(r'"(?:\\[^\n]|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)

_TOKEN = re.compile(r'[\w?]+|"(?:\\[^\n]|[^"\\\n])*"|:-|!=|<=|>=|\.[A-Za-z]+|.', re.DOTALL)

_EXPECTED = (
    ("_DECL", "a clause or a directive"),
    ("BANG", "a literal"),
    ("STRING", "a term"),
    ("COMPARISON", "a comparison"),
    ("NAME", "a name"),
    ("NUMBER", "a number"),
    ("LPAR", "'('"),
    ("LBRACE", "'{'"),
    ("COLON", "':'"),
    ("COMMA", "','"),
    ("SEMICOLON", "';'"),
    ("RPAR", "')'"),
    ("RBRACE", "'}'"),
    ("_IF", "':-'"),
    ("_END", "'.'"),
)
"""Descriptions of what may follow, the most general first."""

_WITHIN = {
    "a clause or a directive": {"NAME"},
    "a literal": {"STRING", "NAME", "NUMBER", "LPAR"},
    "a term": {"NAME", "NUMBER", "LPAR"},
}


def explain(problem: UnexpectedInput, text: str) -> DatalogError:
    """The error for a text that lark cannot read."""
    blank = _SKIPPED.sub(_blank, text)
    at_end = getattr(getattr(problem, "token", None), "type", "") == "$END"
    offset = len(blank.rstrip()) if at_end else int(problem.pos_in_stream or 0)
    refusal = find_refusal(blank, offset)
    if refusal is not None and refusal.place is not None:
        refusal.place = replace(refusal.place, text=text)
        return refusal
    found = _TOKEN.match(text, offset)
    token = found.group() if found and not at_end else ""
    wanted = _wanted(problem)
    return DatalogError(
        f"expected {_either(wanted)} before " + (f"'{token}'" if token else "the end of the text"),
        hint=_hint(wanted, blank[:offset]),
        place=Place.at(text, offset, len(token)),
    )


def _blank(skipped: re.Match[str]) -> str:
    """Comments as spaces, and strings without contents that could be mistaken for other tokens."""
    found = skipped.group()
    if found.startswith('"'):
        return '"' + "x" * (len(found) - 2) + '"'
    return re.sub(r"[^\n]", " ", found)


def _wanted(problem: UnexpectedInput) -> list[str]:
    parser = getattr(problem, "interactive_parser", None)
    accepted = set(parser.accepts()) if parser is not None else set()
    names: list[str] = []
    for token, name in _EXPECTED:
        if token in accepted:
            names.append(name)
            accepted -= _WITHIN.get(name, set())
    return names


def _either(names: list[str]) -> str:
    if len(names) < 2:
        return names[0] if names else "something else"
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _hint(wanted: list[str], before: str) -> str:
    if re.search(r"\.decl\b[^.]*$", before):
        return "a declaration looks like .decl edge(x:symbol, y:symbol)"
    if wanted == ["':'"] or re.search(r"\b(count|sum|min|max|mean)\s*:?\s*$", before):
        return (
            "an aggregate looks like n = count : { edge(x, _) } or m = min y : { cost(x, y) }, a functor like min(a, b)"
        )
    if "':-'" in wanted:
        return "a fact ends with '.', the head of a rule with ':-'"
    if "'.'" in wanted:
        return "literals have ',' between them, alternatives ';', and a clause ends with '.'"
    if "a comparison" in wanted:
        return "a literal is an atom such as edge(x, y) or a comparison such as x < y"
    return "a rule looks like path(x, z) :- path(x, y), edge(y, z)."
