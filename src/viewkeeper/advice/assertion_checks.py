"""The check of an assertion, derived from its query: which changes cannot break it, and what the others lead to.

Griffin and Libkin (1995), section 7: a transaction is made safe by a test on its change, not on the whole database.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from viewkeeper.advice.change_paths import differential, filters_at_the_door, only_leads_to, unread_columns
from viewkeeper.algebra import nodes as n
from viewkeeper.analysis.polarity import Kinds


def check_lines(node: n.Node, key: str, name: str, columns: Sequence[str], kinds: Kinds) -> Iterator[str]:
    """What is checked when a relation changes; `kinds` are those of its changes that can add rows to the query."""
    if kinds == Kinds.REMOVALS:
        yield f"INSERT cannot break it: {only_leads_to(Kinds.ADDITIONS, name, _FEWER)}"
    if kinds == Kinds.ADDITIONS:
        yield f"DELETE cannot break it: {only_leads_to(Kinds.REMOVALS, name, _FEWER)}"
    unread = unread_columns(node, key, columns)
    if unread:
        them = "it" if len(unread) == 1 else "them"
        yield f"UPDATE of {', '.join(unread)} cannot break it: the query does not read {them}"
    operations = [word for word, kind in (("INSERT", Kinds.ADDITIONS), ("DELETE", Kinds.REMOVALS)) if kind in kinds]
    read = [column for column in columns if column not in unread]
    of = f" of {', '.join(read)}" if unread else ""
    yield f"{', '.join(operations)} and UPDATE{of} are checked:"
    condition = filters_at_the_door(node, key)
    if condition is not None:
        yield f"  only changed rows with {condition} are looked at"
    yield from (f"  {line}" for line in differential(node, key))


_FEWER = "delete rows of the query"
