"""Conditions and effects of the machine's rules: SQL, and the same as plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.rules.world import KEYED, Contents, Row, each, more, reach


class Refused(Exception):
    """A step that must fail: `kind` is the name of the error."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass(frozen=True)
class Transition:
    """The four transition tables."""

    inserted: tuple[Row, ...] = ()
    deleted: tuple[Row, ...] = ()
    old: tuple[Row, ...] = ()
    new: tuple[Row, ...] = ()

    @property
    def rows(self) -> int:
        return len(self.inserted) + len(self.deleted) + len(self.new)


@dataclass
class Scene:
    """What a condition or an action sees: the rows now, those before the transaction, and its transition tables."""

    now: Contents
    before: Contents
    transition: Transition = field(default_factory=Transition)


def replaced(db: Contents, name: str, change: Callable[[Row], Row]) -> None:
    """UPDATE of every row; keys are checked afterwards."""
    db[name] = Counter(change(row) for row in each(db[name]))
    check_keys(db, name)


def check_keys(db: Contents, name: str) -> None:
    if name not in KEYED:
        return
    keys = [row[0] for row in each(db[name])]
    if None in keys or len(keys) != len(set(keys)):
        raise Refused("ConstraintViolation")


def added(db: Contents, name: str, rows: list[Row]) -> None:
    """INSERT."""
    db[name] = db[name] + Counter(rows)
    check_keys(db, name)


def kept(db: Contents, name: str, stays: Callable[[Row], bool]) -> None:
    """DELETE of the rows that do not stay."""
    db[name] = Counter({row: count for row, count in db[name].items() if stays(row)})


# conditions ---------------------------------------------------------------------------------------


def total(db: Contents) -> int | None:
    values = [v for _, _, v in each(db["item"]) if v is not None]
    return sum(values) if values else None


def _risen(scene: Scene) -> bool:
    now, before = total(scene.now), total(scene.before)
    return now is not None and before is not None and now > before


CONDITIONS: dict[str, Callable[[Scene], bool]] = {
    "(SELECT count(*) FROM inserted) > 0": lambda scene: bool(scene.transition.inserted),
    "(SELECT count(*) FROM bag) < 3": lambda scene: scene.now["bag"].total() < 3,
    "EXISTS (SELECT 1 FROM item WHERE v > 3)": lambda scene: any(more(row[2], 3) for row in scene.now["item"]),
    "(SELECT sum(v) FROM item) > (SELECT sum(v) FROM item AS OF OLD)": _risen,
    "(SELECT count(*) FROM reach) > 1": lambda scene: len(reach(scene.now["edge"])) > 1,
}


# effects ------------------------------------------------------------------------------------------


def _cascade(scene: Scene) -> None:
    there = {row[0] for row in scene.now["item"]}
    kept(scene.now, "part", lambda row: bool(there) and (row[1] is None or row[1] in there))


def _link(scene: Scene) -> None:
    edges = scene.now["edge"]
    new = {(i, item) for i, item, _ in scene.now["part"] if item is not None and (i, item) not in edges}
    added(scene.now, "edge", sorted(new))


def _merge(scene: Scene) -> None:
    counts = Counter(item for _, item, _ in each(scene.now["part"]) if item is not None)
    there = {row[0] for row in scene.now["item"]}
    replaced(scene.now, "item", lambda row: (row[0], row[1], counts.get(row[0], row[2])))
    added(scene.now, "item", [(i, "m", n) for i, n in counts.items() if i not in there])


def _raised(row: Row) -> Row:
    return (row[0], row[1], row[2] + 1) if row[2] is not None and row[2] < 4 else row


def _first_raised(row: Row) -> Row:
    return (row[0], row[1], (row[2] or 0) + 1) if row[0] == 1 else row


EFFECTS: dict[str, Callable[[Scene], None]] = {
    "": lambda scene: None,
    "INSERT INTO bag SELECT count(*), 'more' FROM inserted": lambda scene: added(
        scene.now, "bag", [(len(scene.transition.inserted), "more")]
    ),
    "DELETE FROM bag WHERE a > 2 OR a IS NULL": lambda scene: kept(
        scene.now, "bag", lambda row: row[0] is not None and row[0] <= 2
    ),
    "DELETE FROM part WHERE item NOT IN (SELECT id FROM item)": _cascade,
    "UPDATE part SET q = 0 WHERE q < 0": lambda scene: replaced(
        scene.now, "part", lambda row: (row[0], row[1], 0) if row[2] is not None and row[2] < 0 else row
    ),
    "UPDATE item SET v = v + 1 WHERE v < 4": lambda scene: replaced(scene.now, "item", _raised),
    "UPDATE item SET v = coalesce(v, 0) + 1 WHERE id = 1": lambda scene: replaced(scene.now, "item", _first_raised),
    "INSERT INTO item VALUES (1, 'z', 1)": lambda scene: added(scene.now, "item", [(1, "z", 1)]),
    "INSERT INTO bag SELECT count(*), 'was' FROM item AS OF OLD": lambda scene: added(
        scene.now, "bag", [(scene.before["item"].total(), "was")]
    ),
    "INSERT INTO bag SELECT count(*), 'reach' FROM reach": lambda scene: added(
        scene.now, "bag", [(len(reach(scene.now["edge"])), "reach")]
    ),
    "INSERT INTO edge SELECT DISTINCT id, item FROM part p WHERE item IS NOT NULL "
    "AND NOT EXISTS (SELECT 1 FROM edge e WHERE e.x = p.id AND e.y = p.item)": _link,
    "MERGE INTO item t USING (SELECT item AS i, count(*) AS n FROM part WHERE item IS NOT NULL GROUP BY item) s "
    "ON t.id = s.i WHEN MATCHED THEN UPDATE SET v = s.n "
    "WHEN NOT MATCHED THEN INSERT (id, g, v) VALUES (s.i, 'm', s.n)": _merge,
}


def text_of(value: Any) -> str | None:
    return None if value is None else str(value)
