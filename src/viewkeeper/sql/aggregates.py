"""GROUP BY: group keys and arguments are computed below an Aggregate, the values of the calls above it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from viewkeeper.algebra.expressions import Attribute, Expression, column
from viewkeeper.algebra.expressions import Call as ExpressionCall
from viewkeeper.algebra.nodes import Aggregate, Call, Node, Project, map_attributes
from viewkeeper.algebra.types import Type
from viewkeeper.sql.aggregate_calls import inner_call, take_apart
from viewkeeper.sql.context import Context, passed_on, shown
from viewkeeper.sql.functions import EMPTY_VALUE
from viewkeeper.sql.placing import Placing
from viewkeeper.sql.recipes import Needed, Plan, recipe

BIGINT = Type("bigint")


class Aggregation:
    """One GROUP BY: `prepare` computes the keys and arguments per row, `aggregate` the groups."""

    def __init__(
        self, context: Context, placing: Placing, groups: Sequence[exp.Expr], calls: Sequence[exp.Expr]
    ) -> None:
        self.context = context
        self.placing = placing
        self.groups = list(groups)
        self.calls = list(calls)
        self.recipes = [recipe(context, take_apart(call)) for call in calls]
        self.keys: list[Attribute] = []
        self.plans: list[Plan] = []

    def prepare(self, node: Node) -> Node:
        """The input with the group keys and the arguments of the calls as columns."""
        wanted: list[tuple[str, Expression]] = []
        for bound in (*self.groups, *(value for one in self.recipes for value in one.values)):
            node, expression = self.placing.value(node, bound)
            wanted.append(("key" if len(wanted) < len(self.groups) else "value", expression))
        node, made = self.context.extend(node, wanted)
        self.keys = made[: len(self.groups)]
        for key, bound in zip(self.keys, self.groups, strict=True):
            if key.type.has_map():
                self.context.refuse(
                    "rows cannot be grouped by a MAP: it has no equality", bound, "group by map_entries"
                )
        rest = made[len(self.groups) :]
        for one in self.recipes:
            self.plans.append(one.plan(rest[: len(one.values)]))
            rest = rest[len(one.values) :]
        return node

    def aggregate(
        self,
        node: Node,
        keys: Sequence[Attribute],
        *,
        whole: bool,
        renamed: Mapping[Attribute, Attribute] | None = None,
    ) -> tuple[Node, list[Attribute]]:
        """The aggregate over prepared rows (or a renamed copy of them), and the attribute of each call's value."""
        made = self._calls()
        calls = tuple(map_attributes(tuple(made.values()), lambda a: (renamed or {}).get(a, a)))
        used = [a for call in calls for a in _attributes(call)]
        below = Project(node, passed_on((*keys, *used)))
        grouped = Aggregate(below, tuple(dict.fromkeys(keys)), calls, whole)
        inputs = [[made[need].output for need in plan.calls] for plan in self.plans]
        steps = [(p, kept) for p, kept in zip(self.plans, inputs, strict=True) if p.step is not None]
        node, found = self.context.extend(grouped, [("quotient", p.step(kept)) for p, kept in steps if p.step])
        for (_, kept), attribute in zip(steps, found, strict=True):
            kept.append(attribute)
        results = [plan.result(kept) for plan, kept in zip(self.plans, inputs, strict=True)]
        values = [result.attribute for result in results if result.attribute is not None]
        if len(values) < len(results):
            passed = [(key.name, column(key)) for key in grouped.groups]
            named = [(self._name(i), result) for i, result in enumerate(results)]
            node = self.context.project(node, [*passed, *named])
            values = list(node.outputs[len(passed) :])
        self._note_empty(values)
        return node, values

    def _note_empty(self, values: Sequence[Attribute]) -> None:
        """Records which values are NULL for empty input."""
        for plan, value in zip(self.plans, values, strict=True):
            if (
                all(need.function not in EMPTY_VALUE for need in plan.calls)
                or plan.step is not None
                or len(plan.calls) > 1
            ):
                self.context.null_for_none.add(value)

    def _name(self, index: int) -> str:
        call = inner_call(self.calls[index])
        name = call.name.lower() if call is not None else "aggregate"
        return shown(ExpressionCall(name, tuple(map(self.context.tree, self.recipes[index].values))), name)

    def _calls(self) -> dict[Needed, Call]:
        """The needed calls, equal ones only once."""
        needed = list(dict.fromkeys(need for plan in self.plans for need in plan.calls))
        places = {need: at for plan, at in zip(self.plans, self.calls, strict=True) for need in plan.calls}
        texts = [need for need in needed if need.text is not None]
        asked = [need.text for need in texts if need.text is not None]
        kinds = self.context.types(asked, [places[need] for need in texts]) if asked else []
        known = dict(zip(texts, kinds, strict=True))
        return {
            need: Call(self._output(need, known), need.function, need.argument, need.text, need.share)
            for need in needed
        }

    def _output(self, need: Needed, known: dict[Needed, Type]) -> Attribute:
        numbers = self.context.numbers
        name = f"{need.function}({need.argument or '*'})" if need.text is None else shown(need.text, need.function)
        if need.share is not None:
            name = need.share.shown(need.argument)
        if need.text is not None:
            return numbers.attribute(name, known[need])
        if need.function == "count":
            return numbers.attribute(name, BIGINT, nullable=False)
        assert need.argument is not None
        kind = need.argument.type
        if need.function == "sum":
            return numbers.attribute(name, Type("decimal", 38, 0 if kind.is_integer else kind.scale))
        return numbers.attribute(name, kind)


def _attributes(need: Call) -> list[Attribute]:
    found = list(need.text.attributes) if need.text is not None else []
    return [*found, need.argument] if need.argument is not None else found
