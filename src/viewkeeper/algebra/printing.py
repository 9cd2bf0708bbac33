"""Expressions for display: as a tree, and as a formula in the notation of the papers.

δR is the net change of R, ΔR − ∇R: inserted rows minus deleted rows. R@old and R@new are R before and after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Expression

REPEATED = 400
"""A part of a formula that has more characters is written once."""


def formula(node: n.Node) -> str:
    """An expression on one line. A long part that occurs more than once is written once: ⟨1: ...⟩, and then ⟨1⟩."""
    uses = Counter(id(below) for part in node.walk() for below in part.inputs)
    numbers: dict[int, int] = {}

    def of(part: n.Node) -> str:
        if id(part) in numbers:
            return f"⟨{numbers[id(part)]}⟩"
        text = _line(part, [of(below) for below in part.inputs])
        if not isinstance(part, n.Once) or uses[id(part)] < 2 or len(text) <= REPEATED:
            return text
        numbers[id(part)] = len(numbers) + 1
        return f"⟨{numbers[id(part)]}: {text}⟩"

    return of(node)


def _line(node: n.Node, parts: list[str]) -> str:
    """An operator on one line with its inputs."""
    match node:
        case n.Scan():
            return _scan(node)
        case n.Rows():
            return f"{{{len(node.rows)} rows}}" if node.rows else "∅"
        case n.Join():
            return "(" + " ⋈ ".join(parts) + ")" + _conditions(node.equalities, node.conditions)
        case n.Union():
            return "(" + " ⊎ ".join(parts) + ")"
        case n.Outer():
            return f"({parts[0]} {'⟗' if node.full else '⟕'} {parts[1]})" + _conditions(
                node.equalities, node.conditions
            )
        case n.Exists():
            return f"({parts[0]} {'▷' if node.negated else '⋉'} {parts[1]})" + _conditions(
                node.equalities, node.conditions
            )
        case n.Restrict():
            return f"{parts[0]}⋉K[{', '.join(mine.name for mine, _ in node.on) or 'all'}]"
        case n.Monus():
            return f"({parts[0]} ∸ {parts[1]})"
        case n.Least():
            return f"({parts[0]} min {parts[1]})"
        case n.Both():
            return f"{parts[0]} | ⊎ {parts[1]}" if parts[1] != "∅" else parts[0]
        case n.Negate():
            return f"−{parts[0]}"
        case n.Once() | n.Unbalanced():
            return parts[0]
        case n.Fixpoint():
            return f"{title(node)}({', '.join(parts)})"
        case n.Rederived():
            return f"δ{title(node.recursion)}"
        case _:
            return f"{title(node)}({parts[0]})"


def _scan(node: n.Scan) -> str:
    return {n.NEW: f"{node.name}@new", n.OLD: f"{node.name}@old", n.CHANGE: f"δ{node.name}"}[node.state]


def _conditions(equalities: tuple[n.Equality, ...], conditions: tuple[Expression, ...]) -> str:
    listed = [str(equality) for equality in equalities] + [short(condition) for condition in conditions]
    return f"[{' ∧ '.join(listed)}]" if listed else ""


def title(node: n.Node) -> str:
    """An operator without its inputs."""
    match node:
        case n.Scan():
            return node.name
        case n.Rows():
            return f"{len(node.rows)} rows written in the query"
        case n.Project():
            return "π[" + ", ".join(a.name if e.attribute else f"{short(e)} → {a}" for a, e in node.columns) + "]"
        case n.Filter():
            return f"σ[{short(node.condition)}]"
        case n.Join():
            return "⋈" + _conditions(node.equalities, node.conditions)
        case n.Outer():
            return ("⟗" if node.full else "⟕") + _conditions(node.equalities, node.conditions)
        case n.Exists():
            return ("▷" if node.negated else "⋉") + _conditions(node.equalities, node.conditions)
        case n.Union():
            return "⊎"
        case n.Distinct():
            return "ε"
        case n.Monus():
            return "∸"
        case n.Least():
            return "min"
        case n.Aggregate():
            groups = ", ".join(group.name for group in node.groups) or "all"
            return f"γ[{groups}; {', '.join(_call(call) for call in node.calls)}]"
        case n.Window():
            return f"ω[{', '.join(str(call.text) for call in node.calls)} per {_names(node.partition)}]"
        case n.Top():
            keys = ", ".join(f"{key.attribute}{' desc' if key.descending else ''}" for key in node.order)
            limit = "" if node.limit is None else f" limit {node.limit}"
            return f"τ[{keys}{limit}{f' offset {node.offset}' if node.offset else ''}]"
        case n.Generate():
            return f"λ[{node.text}]"
        case n.Fixpoint():
            return f"μ[{node.shown}: {len(node.rules)} rules{', a bag' if node.bag else ''}]"
        case n.Signed():
            return "new−old "
        case n.Net():
            return "net"
        case _:
            return type(node).__name__


def contents(node: n.Node) -> str:
    """What a stored group-by, top-k or recursion holds, in a few words: 'counts per region'."""
    match node:
        case n.Aggregate():
            calls = [_call(call) for call in node.calls]
            shown = [call for call in calls if call != "count(*)"] or ["counts" if node.groups else "count"]
            fixed = isinstance(node.input, n.Project) and any(
                a in node.groups and not e.attributes for a, e in node.input.columns
            )
            return ", ".join(shown) + ("" if node.whole or fixed else f" per {_names(node.groups)}")
        case n.Top():
            per = f" per {_names(node.partition)}" if node.partition else ""
            return f"first {node.limit:,} rows{per}" if node.limit is not None else f"rows in order{per}"
        case n.Fixpoint():
            return f"rows of {node.shown}"
        case _:
            return title(node)


LONG = 80
"""Longer expressions are truncated when printed."""


def short(expression: Expression) -> str:
    """An expression that fits on a line."""
    shown = str(expression)
    return shown if len(shown) <= LONG else shown[: LONG - 1] + "…"


def _names(attributes: tuple[Attribute, ...]) -> str:
    return ", ".join(a.name for a in attributes) or "all rows"


def _call(call: n.Call) -> str:
    if call.share is not None:
        return call.share.shown(call.argument)
    if call.text is not None:
        return str(call.text)
    return f"{call.function}({call.argument or '*'})"


def tree(node: n.Node, depth: int = 0) -> Iterator[str]:
    """An expression as lines, inputs below and indented."""
    yield "  " * depth + title(node)
    for below in node.inputs:
        yield from tree(below, depth + 1)
