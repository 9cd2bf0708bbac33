"""What Souffle has and this language does not: why, and what to write instead."""

from __future__ import annotations

import re
from dataclasses import dataclass

from viewkeeper.datalog.column_types import NESTED, TAKE_APART
from viewkeeper.datalog.functors import FUNCTORS
from viewkeeper.errors import DatalogError, Place


@dataclass(frozen=True)
class Refusal:
    """A construct that is refused: `at` matches the text where parsing stopped, `before` the text right before it.

    The group `word` of one of them is underlined, and replaces {word} in the message.
    """

    at: str
    message: str
    hint: str
    before: str = ""


_NAMES = r"[\w?]+(\s*,\s*[\w?]+)*"
_STORED = "'{word}' is not supported: how a relation is stored is chosen for you"
_PLANNED = "'{word}' is not supported: how a rule is evaluated is chosen for you"
_LEAVE = "leave the word out"
_PARTS = "are not supported: values have no parts"
_TABLE = "give each part a column of its own: instead of point([1, 2]) write point(1, 2)"
_OWN_LINE = "write it on a line of its own: .{word} name"
_TYPES = "'{word}' is not supported: columns have Souffle's four types and those of SQL"
_WRITE_TYPE = "write the type itself, for instance .decl edge(x:symbol, y:number)"
_WHOLE = "'{word}' is not supported: a relation has one name in the whole database"
_WRITE_OUT = "write the rules out, once for each use, with relations of their own"
_LOGICAL = "'{word}' is not supported: numbers are not truth values"


def _qualifier(words: str, message: str, hint: str) -> Refusal:
    """The refusal of a word after `.decl name(...)`, which is parsed as the head of a clause."""
    return Refusal(
        "", message, hint, before=rf"\.decl\s+{_NAMES}\s*\([^()]*(\([^()]*\)[^()]*)*\)\s*(?P<word>{words})\s*$"
    )


def _directive(words: str, message: str, hint: str) -> Refusal:
    return Refusal(rf"(?P<word>\.({words}))\b", message, hint)


REFUSALS = (
    _directive(
        "limitsize",
        "'{word}' is not supported: a view holds all its rows",
        "leave it out, and read with SELECT * FROM name LIMIT 100",
    ),
    _directive(
        "printsize",
        "'{word}' is not supported: results are views, nothing is printed",
        "write .output name, and read with SELECT count(*) FROM name",
    ),
    _directive("type|number_type|symbol_type", _TYPES, _WRITE_TYPE),
    _directive(
        "functor",
        "'{word}' is not supported: functions are declared in Python",
        'declare it with db.function("f", fn, returns="INT") and write @f(x) in a rule',
    ),
    _directive("pragma", "'{word}' is not supported: it sets options of Souffle's compiler", "leave the line out"),
    _directive("lattice", "'{word}' is not supported: values are those of SQL", "use min or max over a relation"),
    _directive("component|comp|init|override", _WHOLE, _WRITE_OUT),
    _directive("plan", _PLANNED, "leave the line out; EXPLAIN VIEW name shows the plan"),
    _directive("include|once", "'{word}' is not supported: a program is one text", "put the texts together first"),
    Refusal(
        r"(?P<word>\.(?!(decl|input|output)\b)[A-Za-z_]\w*)",
        "there is no directive '{word}'",
        "the directives are .decl, .input and .output",
        before=r"(^|[.)\w?]\s*\n\s*|\.\s*)$",
    ),
    Refusal(r"(?P<word>#\w*)", "'{word}' is not supported: there is no preprocessor", "write out what it stands for"),
    Refusal(
        r"\(",
        "'{word}' takes no parameters: rows come from tables and go to views",
        "write {word} name alone; files are read with viewkeeper load TABLE FILE",
        before=rf"(?P<word>\.(input|output))\s+{_NAMES}\s*$",
    ),
    _qualifier("inline|no_inline|magic|no_magic", _PLANNED, _LEAVE),
    _qualifier("brie|btree|btree_delete", _STORED, _LEAVE),
    _qualifier(
        "eqrel",
        "'{word}' is not supported: rules say what makes a relation an equivalence",
        "leave the word out and add eq(x, x) :- eq(x, _). eq(y, x) :- eq(x, y). eq(x, z) :- eq(x, y), eq(y, z).",
    ),
    _qualifier("overridable", _WHOLE, _LEAVE),
    _qualifier("input|output", "'{word}' is not a word of a declaration", _OWN_LINE),
    _qualifier("printsize", "'{word}' is not supported: results are views, nothing is printed", _LEAVE),
    Refusal(
        r"-domain",
        "'{word}-domain' is not supported: which row stays would depend on the order of the work",
        "say which row stays, for instance the least: one(x, y) :- a(x, _), y = min z : { a(x, z) }.",
        before=r"\)\s*(?P<word>choice)$",
    ),
    Refusal(
        r"(?P<word><=)",
        "'{word}' between heads (subsumption) is not supported: a relation cannot take out its own rows",
        "keep the best in a relation of its own: best(x, y) :- a(x, _), y = max z : { a(x, z) }.",
        before=r"(^|\.)((?!:-)[^.])*\)\s*$",
    ),
    Refusal(
        r"\(",
        "'{word}' before a bracket is not supported: it stands before one atom",
        "give the bracket a name: found(x) :- a(x), b(x). and write !found(x)",
        before=r"(?P<word>!)\s*$",
    ),
    Refusal(
        r"(?P<word>!)", "'!' after '!' is not supported: it stands before one atom", "leave both out", before=r"!\s*$"
    ),
    Refusal(
        r"!=|<=|>=|=|<|>|\+|-|\*|/|%|\^",
        "'{word}' before a comparison is not supported: it stands before one atom",
        "turn the comparison round: instead of !x = y write x != y",
        before=r"(?P<word>!)\s*[\w?\"]+\s*$",
    ),
    Refusal(r"\[", f"records {_PARTS}", _TABLE),
    Refusal(r"\$[A-Za-z_]\w*", f"algebraic data types {_PARTS}", _TABLE),
    Refusal(
        r"\$",
        "'$' is not supported: a counter is not deterministic",
        "number the rows in a table or view, and use that",
    ),
    Refusal(
        r"\(",
        "'{word}' is not supported: a counter is not deterministic",
        "number the rows in a table or view, and use that",
        before=r"\b(?P<word>autoinc)\s*$",
    ),
    Refusal(
        r"\(",
        "'{word}' is not supported: it makes rows from nothing",
        "make a table of the numbers, and use that",
        before=r"\b(?P<word>range)\s*$",
    ),
    Refusal(
        r"\(",
        "'{word}' is not supported: types are not cast in a term",
        "use to_number(x), to_float(x) or to_string(x)",
        before=r"\b(?P<word>as)\s*$",
    ),
    Refusal(r"(?P<word>land|lor|lxor|lnot)\b", _LOGICAL, "use ',' for and, ';' for or, '!' for not"),
    Refusal(r"", _LOGICAL, "use ',' for and, ';' for or, '!' for not", before=r"\b(?P<word>lnot)\s*$"),
    Refusal(r"(?P<word>bshru)\b", "'{word}' is not supported: numbers have a sign", "use bshr, or / by a power of two"),
    Refusal(
        r"<",
        NESTED,
        TAKE_APART,
        before=r":\s*(?P<word>(?i:array|map|struct))\s*$",
    ),
    Refusal(r"(?P<word>')", "strings stand in double quotes", 'write "..."'),
    Refusal(r"(?P<word>\")", "a quote is not closed", 'end the string with " on the same line'),
    Refusal(r"(?P<word>/\*)", "a comment is not closed", "end it with */"),
    Refusal(
        r"\.[A-Za-z_]",
        "the name '{word}' has a dot after it: names have no parts",
        "every relation has one name; end a clause with '.' and a space",
        before=r"(?P<word>[A-Za-z_]\w*)$",
    ),
    Refusal(
        r"(?P<word>(?!((0x[0-9a-fA-F]+|0b[01]+|[0-9]+)u?|[0-9]+\.[0-9]+)(?![\w?]))[0-9][\w?]*)",
        "'{word}' is not a number",
        "numbers are written 42, 1.5, 0x2a or 0b101010",
    ),
    Refusal(
        r"\(",
        "'{word}' is an aggregate, not a functor",
        "write for instance n = count : { edge(x, _) }",
        before=r"\b(?P<word>count)\s*$",
    ),
    Refusal(
        r"\(",
        "'{word}' is not a functor",
        f"functors are {', '.join(FUNCTORS)}; a function of your own is @{{word}}(...)",
        before=r"(?P<word>[A-Za-z_?][\w?]*)\s*$",
    ),
)
"""All refusals in order: the first that matches is reported."""

_FAR = 2000
"""How far back to look for what `before` matches."""

_WORDS = {"nil": ("'nil' is not supported: values have no parts, and no reference is empty", "use a value of your own")}


def find_refusal(text: str, offset: int) -> DatalogError | None:
    """The refusal of the construct at an offset of a text whose comments are blank, if it is a known one."""
    for refusal in REFUSALS:
        at = re.compile(refusal.at).match(text, offset)
        if at is None:
            continue
        before = re.compile(refusal.before).search(text, max(0, offset - _FAR), offset) if refusal.before else None
        if refusal.before and before is None:
            continue
        start, end = at.span()
        word = at.group()
        for found in (before, at):
            if found is not None and "word" in found.re.groupindex:
                (start, end), word = found.span("word"), found.group("word")
        return DatalogError(
            refusal.message.replace("{word}", word),
            hint=refusal.hint.replace("{word}", word),
            place=Place.at(text, start, end - start),
        )
    return None


def refused_word(word: str, place: Place) -> DatalogError | None:
    """The refusal of a word that reads like a name."""
    if word not in _WORDS:
        return None
    message, hint = _WORDS[word]
    return DatalogError(message, hint=hint, place=place)
