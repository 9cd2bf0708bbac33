"""SUBSCRIBE as a statement, and EXPLAIN of it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from viewkeeper.advice.change_paths import LEGEND, differential, filters_at_the_door
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.schema import WEIGHT, Schema
from viewkeeper.catalog.relations import VirtualView
from viewkeeper.errors import Place, SqlError
from viewkeeper.feed.bound_rows import condition_on, read_condition
from viewkeeper.feed.epoch_frames import Frame
from viewkeeper.feed.feeds import Feeds
from viewkeeper.feed.subscription import DEMAND, MOST_FRAMES, Subscription
from viewkeeper.query.result import Result
from viewkeeper.sql import parsed_statements as sql

PROGRESS_SECONDS = 1.0
"""Seconds after which a subscription that is idle says up to which epoch it is."""


def subscribe(feeds: Feeds, statement: sql.Subscribe) -> Result:
    """The rows of frames as they come: _epoch, _progressed, _diff, and the columns."""
    made = feeds.subscribe(
        statement.what,
        where=statement.where,
        snapshot=statement.snapshot,
        every=statement.every,
        precision=statement.precision,
        begin=statement.begin,
        until=statement.until,
    )
    return Result(stream=_tables(made), endless=statement.until is None)


def _tables(subscription: Subscription) -> Iterator[pa.Table]:
    """The rows of each frame, then a row that says up to which epoch nothing else comes."""
    told = -1
    with subscription:
        while not subscription.closed:
            frame = subscription.next(PROGRESS_SECONDS)
            if frame is not None:
                yield _table(subscription.schema, frame)
            if subscription.epoch > told:
                told = subscription.epoch
                yield _progress(subscription.schema, told)


def _schema(schema: Schema) -> pa.Schema:
    first = [("_epoch", pa.int64()), ("_progressed", pa.bool_()), ("_diff", pa.int64())]
    return pa.schema([*first, *schema.arrow])


def _table(schema: Schema, frame: Frame) -> pa.Table:
    rows = frame.change.rows
    count = rows.num_rows
    first = [pa.array([frame.epoch] * count, pa.int64()), pa.array([False] * count), rows[WEIGHT]]
    return pa.table([*first, *(rows[name] for name in schema.names)], schema=_schema(schema))


def _progress(schema: Schema, epoch: int) -> pa.Table:
    made = _schema(schema)
    first = [pa.array([epoch], pa.int64()), pa.array([True])]
    return pa.table([*first, *(pa.nulls(1, field.type) for field in list(made)[2:])], schema=made)


# EXPLAIN ------------------------------------------------------------------------------------------


def explain_subscribe(feeds: Feeds, statement: sql.Subscribe) -> list[str]:
    """What a subscription derives, when, and how a condition bounds it, as lines."""
    followed = feeds.followed(statement.what)
    state = feeds.store.refresh()
    relation = followed.relation(state, state.epoch)
    kind = "a query" if followed.text else f"a {relation.kind_words}"
    lines = [f"follows {followed.name}: {kind}", *_frames(statement)]
    if statement.where is not None:
        condition = read_condition(statement.where, relation.schema, followed.name)
        if condition.columns:
            most = feeds.store.tuning.literal_keys
            named = ", ".join(condition.columns)
            lines.append(f"bound by {condition.text}: shares its derivation with all that are bound by {named}")
            lines.append(f"  up to {most} different values are part of the plan; of more, the change is split")
            text = condition_on(condition.columns, [condition.values])
        else:
            lines.append(f"bound by {condition.text}: shares its derivation with all that have this condition")
            text = condition.text
        if not followed.is_stored or not condition.columns:
            followed = followed.where(text)
            relation = followed.relation(state, state.epoch)
    if not isinstance(relation, VirtualView):
        return [*lines, "each frame is read from the files of its epoch; nothing is derived"]
    node = relation.definition.as_written
    lines.append("nothing of it is stored; a frame is derived from the changes of")
    for key in dict.fromkeys(scan.relation for scan in n.scans(node)):
        door = filters_at_the_door(node, key)
        lines.append(f"  {state.relations[key].name}" + (f", rows with {door} only" if door else ""))
        lines += [f"    {line}" for line in differential(node, key)]
    return [*lines, LEGEND]


def _frames(statement: sql.Subscribe) -> Iterator[str]:
    first = "a snapshot" if statement.snapshot else "no snapshot"
    begin = f" of epoch {statement.begin}" if statement.begin is not None else ""
    if statement.every == DEMAND:
        then = "the net change since then whenever it is asked for"
    elif statement.every is not None:
        then = f"every {statement.every} the net change of that time"
    else:
        then = f"a frame for each epoch in which it changes; the net of them where more than {MOST_FRAMES} wait"
    until = f", up to epoch {statement.until}" if statement.until is not None else ""
    yield f"{first}{begin}, then {then}{until}"


def refuse_in_transaction(place: Place | None) -> SqlError:
    """The error for SUBSCRIBE between BEGIN and COMMIT."""
    return SqlError(
        "SUBSCRIBE shows committed changes, so it cannot stand in a transaction", place=place, hint="COMMIT first"
    )
