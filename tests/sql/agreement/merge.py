"""Verdicts on many calls as few lines: one for each function and classes of arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tests.sql.agreement.calls import Case
from tests.sql.agreement.compare import Verdict
from tests.sql.agreement.nasty import POOLS
from viewkeeper.algebra.types import INTEGERS, parse_type
from viewkeeper.sql.sail_agreement import (
    AGREES,
    CONSTANT,
    DIFFERS,
    FAILS,
    INTEGER,
    MISSING,
    NEARLY,
    Compared,
    class_of,
)
from viewkeeper.sql.sail_calls import UNITS

_WORST = (AGREES, NEARLY, FAILS, MISSING, DIFFERS)
LONGEST = 160

Key = tuple[str, ...]
Verdicts = dict[Key, Verdict]


def lines(verdicts: Iterable[tuple[Case, Verdict]]) -> list[Compared]:
    """The lines of the table, sorted."""
    found: dict[tuple[str, str], Verdicts] = {}
    for case, verdict in verdicts:
        key = tuple(_argument(kind.upper() if case.name in UNITS else kind) for kind in case.types)
        known = found.setdefault((case.kind, case.name), {})
        known[key] = worse(known.get(key), verdict)
    made = [
        Compared(kind, name, key, verdict.outcome, _shown(verdict))
        for (kind, name), known in found.items()
        for key, verdict in _merged(known).items()
    ]
    return sorted(made, key=lambda line: (line.kind, line.name, line.arguments))


def _argument(given: str) -> str:
    if given in POOLS:
        return class_of(parse_type(given))
    return given if given.startswith("#") else f"={given}"


def worse(one: Verdict | None, other: Verdict) -> Verdict:
    """The worse of two verdicts, the first if they are alike."""
    if one is None:
        return other
    return other if _WORST.index(other.outcome) > _WORST.index(one.outcome) else one


def _merged(known: Verdicts) -> Verdicts:
    """Constants that make no difference as one, then integer types that make none."""
    for place in range(max(map(len, known), default=0)):
        known = _together(known, place, CONSTANT, lambda part: part.startswith("="))
    for place in range(max(map(len, known), default=0)):
        known = _together(known, place, INTEGER, lambda part: part in INTEGERS)
    return known


def _together(known: Verdicts, place: int, name: str, belongs: Callable[[str], bool]) -> Verdicts:
    groups: dict[Key, list[Key]] = {}
    result: Verdicts = {}
    for key in known:
        if len(key) > place and belongs(key[place]) and not is_constant(key):
            groups.setdefault((*key[:place], name, *key[place + 1 :]), []).append(key)
        else:
            result[key] = known[key]
    for merged, keys in groups.items():
        refused = {known[key].outcome in (DIFFERS, MISSING) for key in keys}
        if len(refused) == 1:
            for key in keys:
                result[merged] = worse(result.get(merged), known[key])
        else:
            result.update({key: known[key] for key in keys})
    return result


def is_constant(key: Key) -> bool:
    """Whether a call has constants only: then it says nothing about others."""
    return all(part.startswith("=") for part in key)


def _shown(verdict: Verdict) -> str:
    if verdict.outcome not in (DIFFERS, FAILS):
        return ""
    text = " ".join(verdict.example.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def as_text(made: Iterable[Compared]) -> Iterator[str]:
    """The table as a file has it."""
    yield "# kind\tname\targuments\toutcome\texample: what is computed: Apache Spark | Sail"
    for line in made:
        yield "\t".join((line.kind, line.name, "; ".join(line.arguments), line.outcome, line.example))
