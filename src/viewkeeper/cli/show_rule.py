"""viewkeeper show, for an active rule: its definition, when it fires, and what has become of its last firings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from viewkeeper.cli.output import print_object, print_rows, stdout

if TYPE_CHECKING:
    from viewkeeper.catalog.active_rules import ActiveRule
    from viewkeeper.catalog.state import State
    from viewkeeper.errors import ViewkeeperError
    from viewkeeper.log.ledger import Ledger

FIRINGS = ("epoch", "rows", "milliseconds", "outcome")
LAST = 10
"""How many firings are shown."""


def find_rule(state: State, name: str) -> ActiveRule | None:
    """The rule of a name, without regard to case."""
    return next((rule for rule in state.rules.values() if rule.name.lower() == name.lower()), None)


def no_such_rule(state: State, name: str) -> ViewkeeperError:
    """NotFound for a rule, with the nearest name."""
    from viewkeeper.catalog.name_errors import no_such_table

    return no_such_table(name, [rule.name for rule in state.rules.values()], None, "rule")


def show_rule(state: State, ledger: Ledger, rule: ActiveRule, form: str) -> None:
    """Prints everything about a rule."""
    about = _about(state, ledger, rule)
    if form == "json":
        print_object(about)
    elif form == "csv":
        print_rows(("property", "value"), about.items(), form)
    else:
        _print(about)


def _about(state: State, ledger: Ledger, rule: ActiveRule) -> dict[str, Any]:
    from viewkeeper.catalog.display_names import display_name
    from viewkeeper.log.rule_listing import rule_firings, rules_listed
    from viewkeeper.rules.activations import activation_counts

    listed = rules_listed(state, activation_counts(ledger.storage, state))
    facts = next(row for row in listed if row["name"] == rule.name)
    uses = [state.relations[key] for key in rule.uses if key in state.relations]
    mine = [firing for firing in rule_firings(ledger, state) if firing["rule"] == rule.name]
    return {
        "name": rule.name,
        "kind": "rule",
        "definition": f"{rule.text};",
        **{name: value for name, value in facts.items() if name != "name"},
        "parameters": [{"name": name, "type": kind.upper()} for name, kind in rule.parameters],
        "uses": [display_name(state.alive(), relation) for relation in uses],
        "firings": [{name: firing[name] for name in FIRINGS} for firing in mine[:LAST]],
    }


def _print(about: dict[str, Any]) -> None:
    console = stdout()
    console.print(about["definition"], markup=False, soft_wrap=True)
    parameters = ", ".join(f"{each['name']} {each['type']}" for each in about["parameters"])
    facts = {
        "on": about["on"],
        "when": about["when"],
        "coupling": about["coupling"],
        "semantics": about["semantics"],
        "priority": f"{about['priority']}",
        "enabled": "yes" if about["enabled"] else "no",
        "parameters": parameters,
        "activations": f"{about['activations']:,}" if parameters else "",
        "uses": ", ".join(about["uses"]),
    }
    console.print()
    for label, text in facts.items():
        if text:
            console.print(f"{label + ':':13}{text}", markup=False, soft_wrap=True)
    console.print()
    if about["firings"]:
        print_rows(FIRINGS, ([firing[name] for name in FIRINGS] for firing in about["firings"]), "table", ("rows",))
    else:
        console.print("it has not fired yet")
