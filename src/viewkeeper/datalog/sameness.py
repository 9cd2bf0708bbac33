"""When two rules are the same: equal up to the names of variables, layout, and how semicolons are written."""

from __future__ import annotations

from viewkeeper.datalog.normal import NormalRule, normalize
from viewkeeper.datalog.program_tree import Clause
from viewkeeper.datalog.walking import names, renamed, variables


def same_rule(one: Clause | NormalRule, other: Clause | NormalRule) -> bool:
    """Whether two clauses or normal rules are the same; signs do not count."""
    return canonical(one) == canonical(other)


def canonical(rule: Clause | NormalRule) -> tuple[NormalRule, ...]:
    """The normal rules with variables numbered in order: equal for the same rules, so it can be a key."""
    rules = normalize(rule) if isinstance(rule, Clause) else (rule,)
    return tuple(_numbered(each) for each in rules)


def _numbered(rule: NormalRule) -> NormalRule:
    found = names(variables([rule.head, rule.body]))
    return renamed(rule, {name: f"v{number}" for number, name in enumerate(found, 1)})
