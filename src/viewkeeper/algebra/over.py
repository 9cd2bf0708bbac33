"""A window function with its partition, order and frame, as an expression."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.algebra.expressions import Expression, Opaque, opaque

Key = tuple[Expression, bool, bool]
"""A sort key: a value, whether it is descending, and whether NULLs come first."""


def over(call: Expression, partition: Sequence[Expression], order: Sequence[Key], frame: str) -> Opaque:
    """call OVER (PARTITION BY ... ORDER BY ... frame)."""
    keys = [f"{{}} {'DESC' if down else 'ASC'} NULLS {'FIRST' if first else 'LAST'}" for _, down, first in order]
    words = [f"PARTITION BY {', '.join('{}' for _ in partition)}"] if partition else []
    words += [f"ORDER BY {', '.join(keys)}"] if keys else []
    words += [frame] if frame else []
    window = opaque(f" OVER ({' '.join(words)})", *partition, *(value for value, _, _ in order))
    if not isinstance(call, Opaque):
        return Opaque(("", *window.pieces), (call, *window.parts))
    joint = call.pieces[-1] + window.pieces[0]
    return Opaque((*call.pieces[:-1], joint, *window.pieces[1:]), (*call.parts, *window.parts))
