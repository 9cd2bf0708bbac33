"""Names in a text that stand for values: `:name` of a parameter, `new.column` and `old.column` of a row."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot.tokenizer_core import Token

from viewkeeper.sql.tokens import tokenize

ROW_NAMES = ("new", "old")
"""How the action of a rule FOR EACH ROW names its row, and the row that it replaces."""


def bound(text: str, values: Mapping[str, str]) -> str:
    """A text with SQL in the place of `:name` and `new.column`; `values` has it by lower-case name."""
    parts: list[str] = []
    position = 0
    for start, end, name in names_in(text):
        if name in values:
            parts += [text[position:start], values[name]]
            position = end
    return "".join([*parts, text[position:]])


def unbound(text: str, values: Mapping[str, str], start: int, end: int) -> tuple[int, int]:
    """The span of a text that is between two offsets of the bound text; of a value, the whole name it stands for."""
    longer = 0
    first, last = start, end
    for begin, stop, name in names_in(text):
        if name not in values:
            continue
        at, after = begin + longer, begin + longer + len(values[name])
        longer = after - stop
        if start >= at:
            first = begin if start < after else start - longer
        if end > at:
            last = stop if end <= after else end - longer
    return first, last


def names_in(text: str) -> list[tuple[int, int, str]]:
    """Where a text has `:name`, `new.column` and `old.column`: start, end, and the name in lower case."""
    tokens = tokenize(text)
    found: list[tuple[int, int, str]] = []
    for index, token in enumerate(tokens):
        following = tokens[index + 1 : index + 3]
        before = tokens[index - 1] if index else None
        if token.text == ":" and following and following[0].start == token.end + 1:
            if before is None or before.end + 1 < token.start or not _ends_value(before):
                found.append((token.start, following[0].end + 1, f":{str(following[0].text).lower()}"))
        elif _begins_row(token.text, before) and len(following) == 2 and following[0].text == ".":
            name = f"{str(token.text).lower()}.{str(following[1].text).lower()}"
            found.append((token.start, following[1].end + 1, name))
    return found


def _ends_value(token: Token) -> bool:
    """Whether a colon right after a token begins a path into a variant: after a name or a bracket."""
    return token.text in (")", "]") or token.text[-1:].isalnum() or token.text.endswith("_")


def _begins_row(text: str, before: Token | None) -> bool:
    return text.lower() in ROW_NAMES and (before is None or before.text != ".")
