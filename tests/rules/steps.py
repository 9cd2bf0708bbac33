"""The steps of the rule machine as hypothesis strategies: each is SQL, and what it does to the model."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from tests.rules.actions import CONDITIONS, EFFECTS, Refused, added, kept, replaced
from tests.rules.model import Model, Rule
from tests.rules.world import ASSERTIONS, KEYED, LIMITS, MATERIALIZED, QUERIES, SOURCES, Row, redefined

CHECK, PREVIEW, DETACHED = "CHECK", "PREVIEW", "DETACHED"


@dataclass(frozen=True)
class Step:
    """One statement, or CHECK or PREVIEW, or that other sessions run detached rules."""

    text: str
    modelled: Callable[[Model], None] = field(default=lambda model: None, repr=False)


# rows ---------------------------------------------------------------------------------------------

IDS = st.sampled_from([1, 2, 3, 4])
NEW_IDS = st.sampled_from([4, 5, 6, 7, 8, 3])
GROUPS = st.sampled_from(["a", "b", None])
VALUES = st.one_of(st.none(), st.integers(0, 6))


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else str(value)


def insert(name: str, rows: list[Row]) -> Step:
    values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
    return Step(f"INSERT INTO {name} VALUES {values}", lambda model: added(model.rows, name, rows))


def inserting(name: str, *columns: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    apart = (lambda row: row[0]) if name in KEYED else None
    rows = st.lists(st.tuples(*columns), min_size=1, max_size=3, unique_by=apart)
    return st.builds(insert, st.just(name), rows)


def update(name: str, target: str, value: Any, where: str, wanted: Any) -> Step:
    """UPDATE name SET target = value WHERE where = wanted."""
    columns = SOURCES[name].columns
    position, compared = columns.index(target), columns.index(where)

    def change(row: Row) -> Row:
        return (*row[:position], value, *row[position + 1 :]) if row[compared] == wanted else row

    text = f"UPDATE {name} SET {target} = {literal(value)} WHERE {where} = {literal(wanted)}"
    return Step(text, lambda model: replaced(model.rows, name, change))


def updating(name: str, target: str, value: st.SearchStrategy[Any], where: str) -> st.SearchStrategy[Step]:
    return st.builds(update, st.just(name), st.just(target), value, st.just(where), IDS)


def deleting(name: str, column: str, position: int) -> st.SearchStrategy[Step]:
    def step(wanted: int) -> Step:
        text = f"DELETE FROM {name} WHERE {column} = {wanted}"
        return Step(text, lambda model: kept(model.rows, name, lambda row: row[position] != wanted))

    return IDS.map(step)


def shifted(row: Row) -> Row:
    return (None if row[0] is None else row[0] + 1, *row[1:])


FIXED = [
    Step("UPDATE item SET id = id + 1", lambda model: replaced(model.rows, "item", shifted)),
    Step("UPDATE item SET v = v", lambda model: None),
    Step("UPDATE bag SET a = a + 1", lambda model: replaced(model.rows, "bag", shifted)),
    Step("TRUNCATE TABLE bag", lambda model: kept(model.rows, "bag", lambda row: False)),
    Step("DELETE FROM item", lambda model: kept(model.rows, "item", lambda row: False)),
    Step("DELETE FROM bag WHERE a IS NULL", lambda model: kept(model.rows, "bag", lambda row: row[0] is not None)),
]

ROWS: st.SearchStrategy[Step] = st.one_of(
    inserting("item", NEW_IDS, GROUPS, VALUES),
    inserting("part", NEW_IDS, st.one_of(st.none(), IDS), st.integers(-1, 3)),
    inserting("bag", VALUES, GROUPS),
    inserting("edge", st.one_of(st.none(), IDS), IDS),
    updating("item", "v", VALUES, "id"),
    updating("item", "g", GROUPS, "id"),
    updating("item", "id", IDS, "id"),
    updating("part", "item", st.one_of(st.none(), IDS), "id"),
    updating("part", "q", st.integers(-1, 3), "item"),
    deleting("item", "id", 0),
    deleting("part", "id", 0),
    deleting("part", "item", 1),
    deleting("bag", "a", 0),
    deleting("edge", "x", 0),
    st.sampled_from(FIXED),
)


# rules --------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["r1", "r2", "r3", "r4"])
EVENTS = ("inserted", "deleted", "updated")
WITHIN = ("deferred", "immediate")
COUPLINGS = (*WITHIN * 2, "detached")


def subsets(events: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All of some events, more often than fewer."""
    fewer = [found for size in range(1, len(events)) for found in itertools.combinations(events, size)]
    return [events] * len(fewer) + fewer


@st.composite
def rules(draw: Callable[..., Any], couplings: tuple[str, ...] = COUPLINGS) -> Rule:
    """A rule of any kind."""
    source = draw(st.sampled_from([*SOURCES, *QUERIES]))
    watched = SOURCES.get(source) or QUERIES[source]
    nervous = watched.touched is not None and draw(st.integers(0, 4)) == 0
    possible = EVENTS if watched.key is not None else EVENTS[:2]
    chosen = draw(st.sampled_from(subsets(possible)))
    events = chosen if not nervous else ("inserted",)
    return Rule(
        draw(NAMES),
        source,
        events,
        draw(st.sampled_from(couplings)),
        nervous,
        draw(st.integers(-1, 1)),
        draw(st.one_of(st.none(), st.none(), st.sampled_from(list(CONDITIONS)))),
        draw(st.integers(0, 3)) == 0,
        draw(st.sampled_from(list(EFFECTS))),
    )


def rule_text(rule: Rule, replacing: bool) -> str:
    """CREATE [OR REPLACE] RULE."""
    watched = rule.watched
    words = ["CREATE OR REPLACE RULE" if replacing else "CREATE RULE", rule.name]
    words += ["(p BIGINT)"] if rule.takes_parameter else []
    words += ["NERVOUS"] if rule.nervous else []
    words += [rule.coupling.upper(), f"PRIORITY {rule.priority}"]
    words += ["ON", rule.source if watched.query is None else f"({watched.query})"]
    words += ["WHEN", " OR ".join(event.upper() for event in rule.events)]
    words += [f"IF ({rule.condition})"] if rule.condition else []
    words += ["FOR EACH ROW"] if rule.each_row else []
    return " ".join([*words, "DO BEGIN", f"{audit_text(rule)};", f"{rule.effect};" if rule.effect else "", "END"])


def audit_text(rule: Rule) -> str:
    """The statement that notes the transition tables, or the row, in `audit`."""
    given = "CAST(:p AS STRING)" if rule.takes_parameter else "CAST(NULL AS STRING)"
    columns = rule.watched.columns

    def cells(kind: str, prefix: str) -> str:
        found = [f"CAST({prefix}{column} AS STRING)" for column in columns]
        found += ["CAST(NULL AS STRING)"] * (3 - len(columns))
        return ", ".join([f"'{rule.name}'", f"'{kind}'", given, *found])

    if rule.each_row:
        return f"INSERT INTO audit VALUES ({cells('new', 'new.')}), ({cells('old', 'old.')})"
    kinds = {"+": "inserted", "-": "deleted", "<": "old", ">": "new"}
    return "INSERT INTO audit " + " UNION ALL ".join(f"SELECT {cells(k, '')} FROM {t}" for k, t in kinds.items())


def creating(rule: Rule, replacing: bool = False) -> Step:
    def make(model: Model) -> None:
        if rule.name in model.rules and not replacing:
            raise Refused("AlreadyExists")
        if rule.name in model.rules:
            model.forget(rule.name)
        model.made += 1
        model.rules[rule.name] = replace(rule, number=model.made)

    return Step(rule_text(rule, replacing), make)


def altering(name: str, enabled: bool) -> Step:
    def alter(model: Model) -> None:
        if name not in model.rules:
            raise Refused("NotFound")
        model.rules[name] = replace(model.rules[name], enabled=enabled)

    return Step(f"ALTER RULE {name} {'ENABLE' if enabled else 'DISABLE'}", alter)


def dropping(name: str) -> Step:
    def drop(model: Model) -> None:
        if name not in model.rules:
            raise Refused("NotFound")
        model.forget(name)

    return Step(f"DROP RULE {name}", drop)


def retrying(name: str) -> Step:
    def retry(model: Model) -> None:
        if name not in model.rules:
            raise Refused("NotFound")
        model.waiting = [replace(firing, parked=False) if firing.rule == name else firing for firing in model.waiting]

    return Step(f"RETRY RULE {name}", retry)


def activating(name: str, value: int, active: bool) -> Step:
    def change(model: Model) -> None:
        if name not in model.rules:
            raise Refused("NotFound")
        if not model.rules[name].takes_parameter:
            raise Refused("SqlError")
        values = model.active.setdefault(name, set())
        (values.add if active else values.discard)(value)

    return Step(f"{'ACTIVATE' if active else 'DEACTIVATE'} RULE {name} ({value})", change)


# assertions ---------------------------------------------------------------------------------------


def asserting(name: str, violation: str, verb: str) -> Step:
    """CREATE, ALTER or DROP ASSERTION."""
    condition, query = ASSERTIONS[name]

    def change(model: Model) -> None:
        if (name in model.assertions) == (verb == "CREATE"):
            raise Refused("AlreadyExists" if verb == "CREATE" else "NotFound")
        if verb == "DROP":
            del model.assertions[name]
            return
        if verb == "ALTER" and model.assertions[name] == violation:
            return
        if violation == "abort" and query(model.rows):
            raise Refused("AssertionViolated")
        model.assertions[name] = violation
        model.fresh.add(name)

    text = {
        "CREATE": f"CREATE ASSERTION {name} ON VIOLATION {violation.upper()} CHECK ({condition})",
        "ALTER": f"ALTER ASSERTION {name} ON VIOLATION {violation.upper()}",
        "DROP": f"DROP ASSERTION {name}",
    }
    return Step(text[verb], change)


def redefining(name: str, number: int) -> Step:
    """ALTER VIEW."""
    kind = "MATERIALIZED VIEW" if name in MATERIALIZED else "VIEW"

    def change(model: Model) -> None:
        model.rows[f"limit of {name}"] = Counter({(number,): 1})

    return Step(f"ALTER {kind} {name} AS {redefined(name, number)}", change)


DEFINITIONS: st.SearchStrategy[Step] = st.one_of(
    st.builds(creating, rules(), st.booleans()),
    st.builds(creating, rules(WITHIN), st.just(True)),
    st.builds(altering, NAMES, st.booleans()),
    st.builds(dropping, NAMES),
    st.builds(retrying, NAMES),
    st.builds(redefining, st.sampled_from(LIMITS), st.integers(1, 3)),
    st.builds(activating, NAMES, IDS, st.sampled_from([True, True, False])),
    st.builds(
        asserting,
        st.sampled_from(list(ASSERTIONS)),
        st.sampled_from(["abort", "warn"]),
        st.sampled_from(["CREATE", "CREATE", "ALTER", "DROP"]),
    ),
)

WEIGHED = [ROWS] * 8 + [DEFINITIONS, st.sampled_from([Step(CHECK), Step(PREVIEW)])]
IN_TRANSACTION: st.SearchStrategy[Step] = st.integers(0, len(WEIGHED) - 1).flatmap(lambda index: WEIGHED[index])
