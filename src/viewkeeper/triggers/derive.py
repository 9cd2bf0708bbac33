"""The production rules of a view, one per table reference and operation (Ceri and Widom 1991, sections 5 to 8).

Three rules differ from the paper's, which would be wrong:

- a row that is inserted because rows of a negatively nested table were deleted (section 7.2) is also tested against
  that table as it is now: an update, or inserting the key again, may have put another row there;
- a row that is deleted because rows of a negatively nested table were inserted (section 7.2) is tested against other
  negatively nested tables as they were: rows that exclude it may have been inserted into two at once;
- `<> any` is monotone, so it counts as positive (sections 6 and 7).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from viewkeeper.advice.advice import Analysis, analyze_each, analyze_view, no_stored_view
from viewkeeper.advice.named_relations import Known
from viewkeeper.algebra.types import spelled
from viewkeeper.analysis.safe_references import Nesting, Verdict
from viewkeeper.errors import NotMaintainable, SqlError
from viewkeeper.triggers.query_blocks import Block, Nested, Table, ViewText, read_view

DELETE, INSERT = "delete", "insert"
"""What the action of a rule does to the view."""

INSERTED, DELETED, UPDATED = "inserted into", "deleted from", "updated"
"""What triggers a rule."""


@dataclass(frozen=True)
class Rule:
    """A production rule. Each of `statements` is a list of lines; `kind` is what they do; `precedes` names rules."""

    name: str
    triggers: tuple[str, ...]
    kind: str
    statements: tuple[tuple[str, ...], ...]
    precedes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"create rule {self.name}", "when " + ",\n     ".join(self.triggers)]
        for number, statement in enumerate(self.statements):
            lead = "then " if number == 0 else "     "
            end = ";" if number < len(self.statements) - 1 else ""
            lines.append("\n".join([lead + statement[0], *(f"     {line}" for line in statement[1:])]) + end)
        if self.precedes:
            lines.append("precedes " + ",\n         ".join(self.precedes))
        return "\n".join(lines)


def derive(view: ViewText, known: Known, rematerialized: Collection[str] = ()) -> list[Rule]:
    """The rules of a view, merged: the one that recomputes it, those that delete, then those that insert."""
    analyses = [
        analyze_view(view.name, block.text, block.text, known, columns=view.columns, advise=False)
        for block in view.blocks
    ]
    _check_duplicates(view, analyses)
    found: list[Rule] = []
    recomputed: list[str] = []
    for block, analysis in zip(view.blocks, analyses, strict=True):
        maker = _Maker(view, block)
        for table, nested, verdict in _references(block, analysis):
            rules, more = maker.rules(table, nested, verdict)
            found += rules
            recomputed += more
    triggers = {trigger for rule in found for trigger in rule.triggers} | set(recomputed)
    asked = {_normal(one) for one in rematerialized}
    recomputed = list(
        dict.fromkeys([*recomputed, *(trigger for trigger in sorted(triggers) if _normal(trigger) in asked)])
    )
    kept = _merged([rule for rule in found if not set(rule.triggers) & set(recomputed)])
    inserting = tuple(rule.name for rule in kept if rule.kind == INSERT)
    ordered = [replace(rule, precedes=inserting) if rule.kind == DELETE else rule for rule in kept]
    ordered.sort(key=lambda rule: rule.kind != DELETE)
    return [*_rematerialize(view, recomputed, [rule.name for rule in ordered]), *ordered]


def _check_duplicates(view: ViewText, analyses: Sequence[Analysis]) -> None:
    for block, analysis in zip(view.blocks, analyses, strict=True):
        if analysis.duplicates and not block.distinct:
            raise NotMaintainable(
                f"no rules can be derived for {view.name}: a row may be there more than once",
                detail=str(analysis),
                hint="write SELECT DISTINCT; or use --target postgres, which counts rows",
            )


def _references(block: Block, analysis: Analysis) -> Iterator[tuple[Table, Nested | None, Verdict]]:
    """The tables of a block, each with the subquery it is in and its verdict."""
    by_place = {
        (verdict.reference.place.line, verdict.reference.place.column): verdict
        for verdict in analysis.findings.verdicts
        if verdict.reference.place is not None
    }
    listed: list[tuple[Table, Nested | None]] = [(table, None) for table in block.tables]
    listed += [(table, nested) for nested in block.nested for table in nested.tables]
    for table, nested in listed:
        before = block.text[: table.start]
        place = (before.count("\n") + 1, table.start - (before.rfind("\n") + 1) + 1)
        yield table, nested, by_place[place]


class _Maker:
    """Makes the rules of one block."""

    def __init__(self, view: ViewText, block: Block) -> None:
        self.view = view
        self.block = block
        self.others = [other for other in view.blocks if other is not block]

    def rules(self, table: Table, nested: Nested | None, verdict: Verdict) -> tuple[list[Rule], list[str]]:
        """The rules of one reference, and the operations for which the view is recomputed."""
        if verdict.nesting is Nesting.NEGATIVE:
            assert nested is not None
            return self._negative(table, nested, verdict)
        safe = verdict.is_safe
        found = [self._insert("ins", INSERTED, table, "inserted", checked=not safe)]
        if not safe:
            return found, [f"{DELETED} {table.text}", f"{UPDATED} {table.text}"]
        found.append(self._delete("del", DELETED, table, "deleted"))
        found.append(self._delete("old-upd", UPDATED, table, "old updated"))
        found.append(self._insert("new-upd", UPDATED, table, "new updated", checked=False))
        return found, []

    def _negative(self, table: Table, nested: Nested, verdict: Verdict) -> tuple[list[Rule], list[str]]:
        found: list[Rule] = []
        recomputed: list[str] = []
        if verdict.is_safe_for_insertions:
            found.append(self._taken("ins", INSERTED, table, nested, "inserted"))
        else:
            recomputed.append(f"{INSERTED} {table.text}")
        found.append(self._given("del", DELETED, table, nested, "deleted", checked=not verdict.is_safe))
        if verdict.is_safe:
            found.append(self._given("old-upd", UPDATED, table, nested, "old updated", checked=False))
            found.append(self._taken("new-upd", UPDATED, table, nested, "new updated"))
        else:
            recomputed.append(f"{UPDATED} {table.text}")
        return found, recomputed

    # actions -------------------------------------------------------------------------------------

    def _insert(self, prefix: str, trigger: str, table: Table, word: str, *, checked: bool) -> Rule:
        """Inserts rows of the view that need one of the inserted rows."""
        select = self._select(self.block, table, word, "", None)
        return self._inserting(prefix, trigger, table, select, checked=checked)

    def _delete(self, prefix: str, trigger: str, table: Table, word: str) -> Rule:
        """Deletes rows of the view that needed one of the deleted rows, in the old state of all tables."""
        return self._deleting(prefix, trigger, table, self._select(self.block, table, word, "old ", None))

    def _taken(self, prefix: str, trigger: str, table: Table, nested: Nested, word: str) -> Rule:
        """Deletes rows of the view that a negated subquery excludes now."""
        turned = (nested, replace(nested, negated=False), "")
        return self._deleting(prefix, trigger, table, self._select(self.block, table, word, "", turned, "old "))

    def _given(self, prefix: str, trigger: str, table: Table, nested: Nested, word: str, *, checked: bool) -> Rule:
        """Inserts rows that a negated subquery excluded before and does not exclude now."""
        positive = replace(nested, negated=False)
        select = self._select(self.block, table, word, "", (nested, positive, "old "))
        select.conditions.append(_conjunct(nested, lambda one: _named(one, "")))
        return self._inserting(prefix, trigger, table, select, checked=checked)

    def _inserting(self, prefix: str, trigger: str, table: Table, select: _Select, *, checked: bool) -> Rule:
        against = self.view.name if checked or self.view.operator == "union distinct" else f"inserted {self.view.name}"
        row = _row(self.block.row)
        select.conditions.append([f"{row} not in {against}"])
        if self.view.operator == "intersect":
            for other in self.others:
                select.conditions.append([f"{row} in", *_brackets(self._all(other))])
        statement = (f"insert into {self.view.name}", *_brackets(select.lines()))
        return Rule(f"{prefix}-{table.text}-{self.view.name}", (f"{trigger} {table.text}",), INSERT, (statement,))

    def _deleting(self, prefix: str, trigger: str, table: Table, select: _Select) -> Rule:
        more: list[str] = []
        row = _row([spelled(name) for name in self.view.columns])
        if self.view.operator == "union distinct":
            for other in self.others:
                more += [f"and {row} not in", *_brackets(self._all(other))]
        statement = (f"delete from {self.view.name}", f"where {row} in", *_brackets(select.lines()), *more)
        return Rule(f"{prefix}-{table.text}-{self.view.name}", (f"{trigger} {table.text}",), DELETE, (statement,))

    # text ----------------------------------------------------------------------------------------

    def _all(self, block: Block) -> list[str]:
        return self._select(block, None, "", "", None).lines()

    def _select(
        self,
        block: Block,
        table: Table | None,
        word: str,
        state: str,
        turned: tuple[Nested, Nested, str] | None,
        excluding: str = "",
    ) -> _Select:
        """A block with the change of one table instead of the table, and with one subquery replaced.

        `state` is "old " if all other tables are read in the old state; the last of `turned` is that for the subquery,
        and `excluding` for the other negated ones.
        """

        def named(one: Table, state: str = state) -> str:
            return f"{word} {one.text}{_alias(one)}" if one == table else _named(one, state)

        distinct = "distinct " if block.distinct else ""
        lines = [f"select {distinct}{', '.join(block.columns)}", f"from {', '.join(map(named, block.tables))}"]
        conditions = [[condition] for condition in block.conditions]
        for nested in block.nested:
            shown, read = nested, excluding if nested.negated and excluding else state
            if turned is not None and nested is turned[0]:
                _, shown, read = turned
            conditions.append(_conjunct(shown, partial(named, state=read)))
        return _Select(lines, conditions)


@dataclass
class _Select:
    """A SELECT as lines: its select list, its tables, and its conditions, each of one or more lines."""

    head: list[str]
    conditions: list[list[str]]

    def lines(self) -> list[str]:
        """The lines of the SELECT."""
        found = list(self.head)
        for number, condition in enumerate(self.conditions):
            found += [f"{'and' if number else 'where'} {condition[0]}", *condition[1:]]
        return found


def _conjunct(nested: Nested, named: Callable[[Table], str]) -> list[str]:
    """The lines of a condition with a subquery."""
    inner = [f"select {nested.columns}", f"from {', '.join(map(named, nested.tables))}"]
    inner += [f"{'where' if number == 0 else 'and'} {text}" for number, text in enumerate(nested.conditions)]
    return [f"{'not ' if nested.negated else ''}{nested.before}", *_brackets(inner)]


def _named(table: Table, state: str) -> str:
    return f"{state}{table.text}{_alias(table)}"


def _row(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"<{','.join(names)}>"


def _alias(table: Table) -> str:
    return f" {table.alias}" if table.alias else ""


def _brackets(lines: list[str]) -> list[str]:
    """Lines in parentheses, indented."""
    moved = [f"  ({lines[0]}", *(f"   {line}" for line in lines[1:])]
    return [*moved[:-1], moved[-1] + ")"]


def _merged(rules: Sequence[Rule]) -> list[Rule]:
    """Rules with the same trigger and kind merged into one that runs all their statements in order."""
    found: dict[tuple[str, str], Rule] = {}
    for rule in rules:
        key = (rule.name, rule.kind)
        known = found.get(key)
        statements = rule.statements if known is None else (*known.statements, *rule.statements)
        found[key] = replace(rule, statements=tuple(dict.fromkeys(statements)))
    twice = {name for name, kind in found if kind == DELETE} & {name for name, kind in found if kind == INSERT}
    return [replace(rule, name=f"{rule.name}-{rule.kind}") if rule.name in twice else rule for rule in found.values()]


def _rematerialize(view: ViewText, triggers: Sequence[str], others: Sequence[str]) -> list[Rule]:
    """The rule that recomputes the view, before all others, which it deactivates."""
    if not triggers:
        return []
    maker = _Maker(view, view.blocks[0])
    lines: list[str] = []
    for block in view.blocks:
        lines += [*([view.operator] if lines else []), *maker._all(block)]
    statements = (
        (f"delete from {view.name}",),
        (f"insert into {view.name}", *_brackets(lines)),
        (f"deactivate-rules({view.name})",),
    )
    return [Rule(f"rematerialize-{view.name}", tuple(triggers), DELETE, statements, tuple(others))]


def derive_script(text: str, rematerialized: Collection[str] = ()) -> list[Rule]:
    """The rules of every materialized view of a script of CREATE TABLE and CREATE VIEW statements."""
    found: list[Rule] = []
    for analysis, known, whole in analyze_each(text, advise=False):
        if analysis.is_stored:
            view = read_view(analysis.name, analysis.columns, analysis.query, whole, known)
            found += derive(view, known, rematerialized)
    if not found:
        raise no_stored_view()
    triggers = {trigger for rule in found for trigger in rule.triggers}
    for asked in rematerialized:
        if _normal(asked) not in map(_normal, triggers):
            listed = ", ".join(repr(trigger) for trigger in sorted(triggers))
            raise SqlError(f"no rule is triggered by '{asked}'", hint=f"name one of {listed}")
    return found


def _normal(trigger: str) -> str:
    """An operation without regard to case and spaces."""
    return " ".join(trigger.lower().split())
