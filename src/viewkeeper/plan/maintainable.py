"""What can only be recomputed: reported at CREATE, and refused under refresh = 'incremental'."""

from __future__ import annotations

from collections.abc import Iterator

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.printing import title
from viewkeeper.delta.exists import asks_for_any_row
from viewkeeper.plan.counted_values import follows_values
from viewkeeper.sql.functions import SKETCHES

_UNSTEADY = """
    approx_percentile approx_top_k corr covar_pop covar_samp histogram_numeric kurtosis percentile_approx
    regr_avgx regr_avgy regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
    skewness std stddev stddev_pop stddev_samp try_avg try_sum var_pop var_samp variance
"""

UNSTEADY = SKETCHES | frozenset(_UNSTEADY.split())
"""Aggregates whose last digits, or choice of values, may depend on the order in which an engine reads the rows."""


def unbound(node: n.Node) -> list[tuple[str, str]]:
    """The operators of a query whose change may read all of their input: the reason, and what to write instead."""
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


def unsteady(node: n.Node) -> Iterator[n.Call]:
    """The aggregates whose last digits may differ when they are recomputed from the same rows."""
    for part in node.walk():
        if isinstance(part, n.Aggregate):
            yield from (call for call in part.calls if call.text is not None and call.function in UNSTEADY)
