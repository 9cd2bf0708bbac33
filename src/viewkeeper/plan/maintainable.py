"""What can only be maintained by a full refresh: said at CREATE, and refused under refresh = 'incremental'."""

from __future__ import annotations

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.printing import title
from viewkeeper.delta.exists import asks_for_any_row
from viewkeeper.plan.counted_values import follows_values


def unbound(node: n.Node) -> list[tuple[str, str]]:
    """The operators of a query whose change may read all of their input: what each is, and what to write instead."""
    found = []
    for part in node.walk():
        match part:
            case n.Window() if not part.partition:
                found.append(("a window without PARTITION BY is computed over all rows", "add PARTITION BY"))
            case n.Aggregate() if part.whole and not follows_values(part):
                for call in part.calls:
                    if call.text is not None and any(a.type.has_map() for a in call.text.attributes):
                        what = "a scalar subquery" if call.function == "single" else str(call.text)
                        reason = f"{what} without GROUP BY, of a MAP, is computed over all rows"
                        found.append((reason, "take map_entries of it"))
            case n.Top() if part.limit is None:
                found.append(("OFFSET without LIMIT is computed over all rows", "add LIMIT"))
            case n.Outer() if not part.equalities and not has_single_row(part.right):
                found.append((f"an outer join without an equality ({title(part)}) compares all rows", "join by a key"))
            case n.Exists() if not (part.equalities or asks_for_any_row(part) or has_single_row(part.right)):
                what = "NOT EXISTS, NOT IN or ALL" if part.negated else "EXISTS, IN or ANY"
                found.append((f"{what} without an equality ({title(part)}) compares all rows", "correlate by a key"))
    return found


def has_single_row(node: n.Node) -> bool:
    """Whether an expression has at most one row."""
    match node:
        case n.Aggregate():
            return node.whole
        case n.Rows():
            return len(node.rows) <= 1
        case n.Project() | n.Filter():
            return has_single_row(node.input)
        case n.Top():
            return node.limit is not None and node.limit <= 1 and not node.partition
        case n.Join():
            return all(has_single_row(part) for part in node.inputs)
        case _:
            return False
