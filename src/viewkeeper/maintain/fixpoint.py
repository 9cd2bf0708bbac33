"""Fixpoint: recursive relations, maintained by the package `recursion`.

∇P, then ΔP, round by round        sets: deletions by EPF or DRed, insertions semi-naively
Δ(i+1) = step@new[Δi]              bags (UNION ALL): signed, step by step
"""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.catalog.relations import Derived
from viewkeeper.delta.compile import differentiate
from viewkeeper.errors import InternalError
from viewkeeper.maintain.attempts import attempts_of
from viewkeeper.maintain.net_changes import join_change
from viewkeeper.maintain.recompute import recompute
from viewkeeper.maintain.recursions import bag_change, signed
from viewkeeper.maintain.redefining import former_node
from viewkeeper.maintain.strategy import Task
from viewkeeper.plan.choice import Choice, span
from viewkeeper.plan.strategy_names import FIXPOINT


class Fixpoint:
    """Stored recursive relations."""

    name = FIXPOINT
    passes = 1

    def maintain(self, task: Task, choice: Choice) -> Choice:
        """Propagates the change round by round; recomputes once that has cost more than a full refresh."""
        tx, relation, reader, node = task.tx, task.relation, task.reader, task.node
        if not isinstance(node, n.Fixpoint):
            raise InternalError(f"{relation.name} is not a recursion")
        engine = tx.store.engine
        shown = next(predicate for predicate in node.predicates if predicate.name == node.shown)
        own = n.Scan(relation.id, relation.name, shown.attributes, n.OLD, tuple(relation.schema.names))
        if node.bag:
            join_change(tx, relation, bag_change(engine, reader, node, own, task.changed), check=True)
            return choice
        stored = node.stored or ((node.shown, own),)
        node = replace(node, stored=tuple((name, replace(scan, state=n.OLD)) for name, scan in stored))
        before = former_node(tx, relation) if relation.id in tx.redefined else node
        if not isinstance(before, n.Fixpoint):
            raise InternalError(f"{relation.name} was not a recursion before")
        found = reader.recursions.change(engine, reader, before, node, task.changed, choice.limit)
        if relation.id not in tx.redefined:
            attempts_of(relation, reader, task.changed).ended(given_up=isinstance(found, str))
        if isinstance(found, str):
            recompute(replace(task, node=node))
            limit = "" if choice.limit is None else f": a full refresh costs about {span(choice.limit)}"
            return replace(choice, strategy="full", note=f"{found}{limit}")
        net, how = found
        join_change(tx, relation, signed(engine, reader, net, node.shown, node.outputs), check=True)
        return replace(choice, note=f"{how.name}: {net.trace}")

    def computed(self, relation: Derived, node: n.Fixpoint, key: str, follows: bool) -> tuple[n.Node, ...]:
        """δ as if the recursion were not stored: its reads are an upper bound."""
        change = differentiate(node, {key})
        return () if change is None else (change,)

    def again(self, relation: Derived, node: n.Fixpoint, key: str) -> tuple[n.Node, ...]:
        """Nothing."""
        return ()

    def formula(self, node: n.Fixpoint, key: str) -> tuple[str, list[str]]:
        """The rounds, and the Datalog rules whose bodies read the changed input."""
        entered = []
        for rule in node.rules:
            for literal in rule.body:
                source = node.inputs[literal.source] if isinstance(literal.source, int) else None
                if source is not None and key in {scan.relation for scan in n.scans(source)}:
                    turned = " (negated: insertions delete, deletions insert)" if literal.negated else ""
                    entered.append(f"enters {rule.text}{turned}")
        change = "signed, step by step: Δ(i+1) = step@new[Δi]" if node.bag else "∇ then Δ, round by round"
        return change, list(dict.fromkeys(entered))
