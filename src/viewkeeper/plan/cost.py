"""The cost of an incremental and of a full refresh, in seconds: a rough model of rows and queries.

    full         a query per large relation, all rows of its inputs, and its own stored rows compared
    incremental  its queries, the changed rows, what they make the plan read, and the inserted and deleted rows

Where the driver looks up what a small change makes the plan read, that read is no query; if it can do so for all reads
and few rows are found, most plans stay on the driver.

Only the ratio of the two matters. What a query and a row cost is measured on each machine by `viewkeeper bench
calibrate`, or built in. `benchmarks/regret.py` prints what following it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from viewkeeper.algebra.tuning import Tuning


@dataclass(frozen=True)
class Rates:
    """Seconds on one kind of engine. `of` says for what."""

    query: float = field(metadata={"of": "a query, whatever it reads"})
    row: float = field(metadata={"of": "a row that is read"})
    passed: float = field(metadata={"of": "a row that is read only because its file has other rows with the keys"})
    worked: float = field(metadata={"of": "a row that is joined, grouped or sorted as well"})
    changed: float = field(metadata={"of": "a changed row of an input, on the driver"})
    staged: float = field(metadata={"of": "a changed row of an input, in a file because there are many"})
    written: float = field(metadata={"of": "an inserted or deleted row of the relation"})
    compared: float = field(metadata={"of": "a stored row that is compared with the recomputed one"})
    on_driver: float = field(default=1.5e-6, metadata={"of": "a row that a recursion joins on the driver"})
    step: float = field(default=60e-6, metadata={"of": "a step of a recursion on the driver: a rule on new rows"})
    look_up: float = field(default=1e-3, metadata={"of": "a look-up of keys on the driver, however many"})
    found: float = field(default=0.5e-6, metadata={"of": "a row that it finds"})


RATES = {
    "sail": Rates(5e-3, 0.1e-6, 0.03e-6, 0.1e-6, 0.15e-6, 0.5e-6, 0.2e-6, 0.4e-6),
    "spark": Rates(100e-3, 0.4e-6, 0.1e-6, 0.4e-6, 0.15e-6, 2.5e-6, 8e-6, 5e-6),
}
"""The built-in rates: those of a machine with two cores. `viewkeeper bench calibrate` measures them elsewhere."""


@dataclass(frozen=True)
class Reading:
    """A relation that an incremental plan reads: in which state, and by which columns (all of it if by none).

    `sorted`: it is sorted by one of those columns, so that the keys pick files. `local`: it is so small that the driver
    reads it without a query. `per_key`: the expected number of rows of a key. `share`: the keys read per changed row.
    """

    relation: str
    name: str
    state: str
    columns: tuple[str, ...] = ()
    sorted: bool = False
    rows: int = 0
    files: int = 0
    local: bool = False
    per_key: float = 1.0
    share: float = 1.0

    def rows_for(self, keys: int) -> int:
        """How many rows are read for so many distinct keys, each in another file."""
        if not (self.columns and self.sorted):
            return self.rows
        return min(self.rows, keys * -(-self.rows // max(self.files, 1)))

    def __str__(self) -> str:
        if not self.rows:
            return f"{self.name}@{self.state}: holds nothing"
        if not self.columns:
            return f"{self.name}@{self.state}: reads all {self.rows:,} rows"
        how = "files picked by it" if self.sorted else "all files, rows picked by it"
        return f"{self.name}@{self.state}: by {', '.join(self.columns)} ({how})"


@dataclass(frozen=True)
class Plan:
    """The plan for a change of one input: what it reads, and its queries other than those reads.

    `waiting`: those of them that remain if the driver finds all that it reads. `lane` is that of a small change; `left`
    says what keeps it from the driver. `again`: what is read of groups that lose an extremum. `passes`: how often the
    engine groups or sorts the changed rows of a relation that does so at all.
    """

    readings: tuple[Reading, ...]
    queries: int = 1
    waiting: int = 1
    lane: str = "driver"
    left: tuple[str, ...] = ()
    again: tuple[Reading, ...] = ()
    passes: int = 1


@dataclass(frozen=True)
class Lane:
    """The most that the driver takes: keys of a look-up, rows found by it, and rows of a plan. By default nothing."""

    keys: int = 0
    found: int = 0
    rows: int = 0


@dataclass(frozen=True)
class Changed:
    """The number of changed rows of an input, and the plan for them.

    `known`: their keys are on the driver. `deletes`: some of them may be deleted.
    """

    rows: int
    plan: Plan
    known: bool = True
    lane: Lane = Lane()
    deletes: bool = True

    def lost(self, reading: Reading) -> float:
        """How many groups are expected to lose an extremum, and to be read again."""
        return min(self.rows * reading.share, reading.rows / reading.per_key) if self.deletes else 0.0

    def found(self, reading: Reading) -> int | None:
        """How many rows of a relation the driver finds; None if it is left to the engine."""
        if not (reading.columns and self.known):
            return reading.rows if reading.local else None
        rows = int(min(self.rows * reading.per_key, reading.rows))
        return rows if reading.local or (self.rows <= self.lane.keys and rows <= self.lane.found) else None

    @property
    def queries(self) -> int:
        """The queries other than reads: fewer if the driver has all rows, and they are few."""
        found = [self.found(reading) for reading in self.plan.readings]
        rows = [number for number in found if number is not None]
        stays = self.known and len(rows) == len(found) and 0 < self.rows + sum(rows) <= self.lane.rows
        return self.plan.waiting if stays else self.plan.queries


@dataclass(frozen=True)
class Stored:
    """The relation to refresh: its rows, and those of each input, the changed ones included.

    `heavy`: its rows come from joins, group-bys or sorts. `queries`: those of a full refresh.
    """

    rows: int
    inputs: tuple[int, ...]
    heavy: bool
    queries: int = 1

    @property
    def total(self) -> int:
        """The rows of all inputs."""
        return sum(self.inputs)

    def moved(self, changed: int) -> float:
        """How many of its rows change with so many changed ones: in proportion to its largest input."""
        return changed * self.rows / max((1, *self.inputs))

    def work(self, rates: Rates, passes: int = 1) -> float:
        """Seconds to read and process a row."""
        return rates.row + (passes * rates.worked if self.heavy else 0.0)


ROUNDS, FEW_QUERIES = 10, 3
"""Expected rounds of a recursion, each a query; and the queries of one that is evaluated on the driver."""


def full_recursion_seconds(stored: Stored, rates: Rates, tuning: Tuning) -> float:
    """Seconds for a full refresh of a recursive relation.

    Up to `small_rows` rows it is expected to be evaluated on the driver, and to be compared there if it takes no query.
    """
    rows = stored.total + stored.rows
    if not stored.queries:
        return ROUNDS * rates.step + (rows + stored.rows) * rates.on_driver
    if rows <= tuning.small_rows:
        return FEW_QUERIES * rates.query + rows * (rates.on_driver + rates.compared)
    return ROUNDS * rates.query + rows * (rates.worked + rates.compared)


def full_seconds(stored: Stored, changed: int, rates: Rates) -> float:
    """Seconds for a full refresh, after so many changed rows."""
    compared = (2 * stored.rows + stored.moved(changed)) * rates.compared
    return stored.queries * rates.query + stored.total * stored.work(rates) + compared


def incremental_seconds(stored: Stored, changes: Sequence[Changed], rates: Rates) -> float:
    """Seconds for an incremental refresh."""
    seconds = 0.0
    for change in changes:
        passed_on = rates.changed if change.known else rates.staged + stored.work(rates, change.plan.passes)
        seconds += change.queries * rates.query + change.rows * passed_on
        seconds += stored.moved(change.rows) * rates.written
        seconds += sum(_read(reading, change, stored, rates) for reading in change.plan.readings)
        seconds += sum(_read_again(reading, change, stored, rates) for reading in change.plan.again)
    return seconds


def _read_again(reading: Reading, change: Changed, stored: Stored, rates: Rates) -> float:
    """Seconds to read the groups that lose an extremum; less than one is a probability. Their keys are known."""
    groups = change.lost(reading)
    lost = replace(change, rows=max(round(groups), 1), known=True)
    return min(groups, 1.0) * _read(reading, lost, stored, rates)


def _read(reading: Reading, change: Changed, stored: Stored, rates: Rates) -> float:
    """Seconds to read one relation: by key, only the matching rows are processed, others at most skipped."""
    here = change.found(reading)
    if here is not None and not reading.local:
        return rates.look_up + here * rates.found
    query = 0.0 if reading.local else rates.query
    if not reading.columns or not change.known:
        return query + reading.rows * stored.work(rates)
    rows = reading.rows_for(change.rows)
    found = min(change.rows * reading.per_key, rows)
    return query + (rows - found) * rates.passed + found * stored.work(rates)
