"""What can only be kept by computing it anew: said at CREATE, and refused under refresh = 'incremental'."""

from __future__ import annotations

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.printing import title


def unbound(node: n.Node) -> list[tuple[str, str]]:
    """The operators of a query whose change may read all of their input: what each is, and what to write instead."""
    found = []
    for part in node.walk():
        match part:
            case n.Window() if not part.partition:
                found.append(("a window without PARTITION BY is computed over all rows", "add PARTITION BY"))
            case n.Aggregate() if part.whole and any(call.text is not None for call in part.calls):
                texts = ", ".join(str(call.text) for call in part.calls if call.text is not None)
                found.append((f"{texts} without GROUP BY is computed over all rows", "add GROUP BY"))
            case n.Top() if part.limit is None:
                found.append(("OFFSET without LIMIT is computed over all rows", "add LIMIT"))
            case n.Outer() if not part.equalities and not has_single_row(part.right):
                found.append((f"an outer join without an equality ({title(part)}) compares all rows", "join by a key"))
            case n.Exists() if not part.equalities and not has_single_row(part.right):
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
