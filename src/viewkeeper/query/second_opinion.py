"""Second opinions: a view computed on another engine than the one that maintains it, to find an engine's mistakes.

Apache Spark runs the user's own text over the stored rows, if that can only have one answer; else, and on Sail, the
other engine runs the algebra that the view was translated to.
"""

from __future__ import annotations

import re

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Name, cast
from viewkeeper.catalog.relations import Derived
from viewkeeper.catalog.state import State
from viewkeeper.engine.canonical_frames import canonical_frame
from viewkeeper.engine.connect_columns import listed
from viewkeeper.engine.engine import Engine, Frame, open_engine
from viewkeeper.engine.java import NEEDED, has_java
from viewkeeper.engine.lowering import Lowering
from viewkeeper.errors import EngineError, NotFound, SqlError, StatementTimeout, TypeMismatch
from viewkeeper.maintain.state_reader import StateReader
from viewkeeper.query.frames import query_frame, read_at
from viewkeeper.query.select import TablesAt
from viewkeeper.sql.query_text import QueryText
from viewkeeper.store.store import Store

WRITTEN, ALGEBRA = "its query as written", "its algebra"
"""What the other engine computed."""

_ANY_ORDER = re.compile(
    r"\b(collect_list|array_agg|listagg|string_agg|first|first_value|last|last_value|any_value|max_by|min_by|mode)\s*\(",
    re.IGNORECASE,
)
"""Functions whose value may depend on an order that the text leaves open; the algebra fixes one."""


def other_engine(own: Engine, choice: str) -> Engine:
    """The engine that a user names for a second opinion, with the settings and functions of the database's own."""
    if choice.strip().lower() == "spark" and not has_java():
        raise EngineError(
            f"Apache Spark needs Java {NEEDED} or newer, and none was found",
            hint="install it and set JAVA_HOME, or verify with engine = 'sail'",
        )
    engine = open_engine(choice, own.settings, own.conf, own.storage)
    engine.limits, engine.tuning = own.limits, own.tuning
    engine.share_functions(own)
    if not engine.is_local:
        engine.check()
    return engine


def computed(store: Store, state: State, relation: Derived, epoch: int, *, foreign: bool) -> tuple[Frame, str]:
    """The rows of a view's query in canonical form, and what was computed: its text or its algebra.

    `foreign`: as a second opinion, from its text where possible.
    """
    node = relation.definition.as_written
    if foreign and store.engine.kind == "spark" and relation.definition.language == "sql" and _has_one_answer(relation):
        frame = _as_written(store, state, relation, epoch)
        if frame is not None:
            return canonical_frame(store.engine, frame, relation.schema), WRITTEN
    reader = StateReader(store, state.relations.__getitem__, epoch, epoch)
    lowered = Lowering(store.engine, reader).lower(n.at(node, n.NEW))
    frame = lowered.frame.select(*listed(*lowered.columns)).toDF(*relation.schema.names)
    return canonical_frame(store.engine, frame, relation.schema), ALGEBRA


def _has_one_answer(relation: Derived) -> bool:
    """Whether the text has only one answer: no LIMIT, window or function that depends on the order of equal rows."""
    parts = relation.definition.as_written.walk()
    return not any(isinstance(part, (n.Top, n.Window)) for part in parts) and not _ANY_ORDER.search(
        relation.definition.sql
    )


def _as_written(store: Store, state: State, relation: Derived, epoch: int) -> Frame | None:
    """The user's text over the stored rows, in the view's types; None if the engine cannot run it."""
    tables = TablesAt(store, state, epoch)
    text, schema = relation.definition.sql, relation.schema
    try:
        frame = query_frame(store, QueryText.of(text), lambda name, place: read_at(tables, name, place))
        columns = store.engine.columns(frame)
    except StatementTimeout:
        raise
    except (EngineError, NotFound, SqlError, TypeMismatch):
        return None
    if len(columns) != len(schema.columns):
        return None
    named = frame.toDF(*schema.names)
    return named.select(*listed(*((cast(Name(c.name), c.type), c.name) for c in schema)))
