"""Frames of windows: ROWS and RANGE BETWEEN, and the direction of sort keys."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.sql.clauses import only
from viewkeeper.sql.context import Context

UNBOUNDED = float("inf")


@dataclass(frozen=True)
class Bound:
    """One end of a frame: its text, and its distance from the current row where that is a plain number."""

    text: str
    distance: float | None


@dataclass(frozen=True)
class Frame:
    """ROWS or RANGE between two bounds."""

    kind: str
    start: Bound
    end: Bound

    @property
    def text(self) -> str:
        """The frame as SQL."""
        return f"{self.kind} BETWEEN {self.start.text} AND {self.end.text}"

    @property
    def is_whole(self) -> bool:
        """Whether every row sees the whole partition."""
        return self.start.distance == -UNBOUNDED and self.end.distance == UNBOUNDED

    @property
    def is_so_far(self) -> bool:
        """Whether a row sees all rows up to itself or its peers."""
        return self.start.distance == -UNBOUNDED and self.end.distance == 0


FIRST, HERE, LAST = (
    Bound("UNBOUNDED PRECEDING", -UNBOUNDED),
    Bound("CURRENT ROW", 0),
    Bound("UNBOUNDED FOLLOWING", UNBOUNDED),
)
WHOLE = Frame("ROWS", FIRST, LAST)
SO_FAR = Frame("ROWS", FIRST, HERE)


def frame_of(context: Context, window: exp.Window) -> Frame:
    """The frame of a window: as written, or Spark's default."""
    spec = window.args.get("spec")
    if spec is None:
        return Frame("RANGE", FIRST, HERE) if window.args.get("order") else WHOLE
    if spec.args.get("exclude"):
        context.refuse("EXCLUDE in a window frame is not supported", spec, None)
    only(context, spec, "kind", "start", "start_side", "end", "end_side")
    kind = str(spec.args.get("kind") or "ROWS").upper()
    if kind not in ("ROWS", "RANGE"):
        context.refuse(f"{kind} in a window frame is not supported", spec, "write ROWS or RANGE")
    start, end = _bound(context, spec, "start", kind), _bound(context, spec, "end", kind)
    empty = start.distance is not None and end.distance is not None and start.distance > end.distance
    if empty or start.distance == UNBOUNDED or end.distance == -UNBOUNDED:
        context.wrong(
            f"a frame between {start.text} and {end.text} ends before it begins",
            spec if context.place(spec) else window,
            f"write {kind} BETWEEN {end.text} AND {start.text}",
        )
    return Frame(kind, start, end)


def _bound(context: Context, spec: exp.Expr, which: str, kind: str) -> Bound:
    value, side = spec.args.get(which), str(spec.args.get(f"{which}_side") or "").upper()
    if value is None:
        return FIRST if which == "start" else HERE
    if isinstance(value, str):
        if value.upper() == "CURRENT ROW":
            return HERE
        return FIRST if side == "PRECEDING" else LAST
    number = _number(value)
    if kind == "ROWS" and (number is None or number != int(number)):
        context.wrong("ROWS takes whole numbers", value if context.place(value) else spec, None)
    if number is None:
        return Bound(f"{context.tree(value)} {side}", None)
    distance = -number if side == "PRECEDING" else number
    if kind == "RANGE" and number >= 0:  # the text says more than the number: 1.0 is a DECIMAL
        return Bound(f"{context.tree(value)} {side}", distance)
    if distance == 0:
        return HERE
    shown = int(abs(distance)) if distance == int(distance) else abs(distance)
    return Bound(f"{shown} {'PRECEDING' if distance < 0 else 'FOLLOWING'}", distance)


def _number(node: exp.Expr) -> float | None:
    """The value of a literal number, or of a sum, difference or product of such."""
    if isinstance(node, exp.Paren):
        return _number(node.this)
    if isinstance(node, exp.Literal) and not node.is_string:
        return float(node.name)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number(node.this)
    if isinstance(node, exp.Neg):
        inside = _number(node.this)
        return None if inside is None else -inside
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul)):
        left, right = _number(node.this), _number(node.expression)
        if left is None or right is None:
            return None
        return (
            left + right if isinstance(node, exp.Add) else left - right if isinstance(node, exp.Sub) else left * right
        )
    return None


def direction(key: exp.Ordered) -> tuple[bool, bool]:
    """Whether a sort key is descending, and whether NULLs come first (Spark: first in ascending order)."""
    descending = bool(key.args.get("desc"))
    first = key.args.get("nulls_first")
    return descending, (not descending) if first is None else bool(first)
