"""viewkeeper show: everything about one table, view, assertion or rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from viewkeeper.cli.output import print_object, print_result, print_rows, size, stdout
from viewkeeper.cli.session import Options
from viewkeeper.cli.show_rule import find_rule, no_such_rule, show_rule
from viewkeeper.errors import NotFound

if TYPE_CHECKING:
    from viewkeeper.api.database import Database
    from viewkeeper.catalog.relations import Relation
    from viewkeeper.catalog.state import State


@click.command(short_help="Show a table, view, assertion or rule.")
@click.argument("name")
@click.option("--rows", "count", type=click.IntRange(min=0), default=0, metavar="N", help="Also print N rows.")
@click.option("--as-of", "epoch", type=click.IntRange(min=0), metavar="EPOCH", help="As it was at this epoch.")
@click.option("--rule", "is_rule", is_flag=True, help="The rule NAME, where a table or view has that name too.")
@click.pass_obj
def show(options: Options, name: str, count: int, epoch: int | None, is_rule: bool) -> None:
    """Shows the table, view or assertion NAME: definition, keys, epochs, files and size, and some of its rows.

    Of an assertion, the rows are those that violate it. Of a rule it shows the definition, when it fires, its
    activations and its last firings. In CSV form --rows prints the rows alone.
    """
    state, ledger = options.log()
    rule = find_rule(state, name)
    if is_rule and rule is None:
        raise no_such_rule(state, name)
    if rule is not None and (is_rule or state.find(name) is None):
        if count or epoch is not None:
            raise click.UsageError(f"{rule.name} is a rule: --rows and --as-of are for tables and views")
        show_rule(state, ledger, rule, options.form)
        return
    relation = _find(state, name, epoch)
    about = _about(state, relation, epoch)
    if options.form == "table":
        _print(about)
    if count:
        with options.open() as db:
            result = _first_rows(db, relation.name, count, epoch)
            if options.form == "json":
                print_object({**about, "rows": [dict(zip(result.columns, row, strict=True)) for row in result.rows()]})
            else:
                print_result(result, options.form)
    elif options.form == "json":
        print_object(about)
    elif options.form == "csv":
        print_rows(("property", "value"), about.items(), options.form)


def _find(state: State, name: str, epoch: int | None) -> Relation:
    from viewkeeper.catalog.name_errors import no_such_table

    if epoch is not None:
        state.check_epoch(epoch)
    relation = state.find(name, epoch)
    if relation is None and (epoch is None or state.find(name) is None):
        raise no_such_table(name, [*state.names(), *(rule.name for rule in state.rules.values())], None)
    if relation is None:
        raise NotFound(f"there was no table named '{name}' at epoch {epoch}", hint="leave --as-of out")
    return relation


def _about(state: State, relation: Relation, epoch: int | None) -> dict[str, Any]:
    from viewkeeper.catalog.display_names import auxiliaries
    from viewkeeper.catalog.relations import AssertionView, Derived
    from viewkeeper.log.definition_text import definition_text

    files = relation.files_at(state.epoch if epoch is None else epoch)
    body: dict[str, Any] = {
        "name": relation.name,
        "kind": relation.kind_words,
        "definition": definition_text(relation, state.epoch if epoch is None else epoch),
        "columns": [{"name": c.name, "type": str(c.type), "nullable": c.nullable} for c in relation.schema],
        "keys": [str(key) for key in (*relation.schema.keys, *relation.schema.references)],
        "created_epoch": relation.created,
        "changed_epoch": max([relation.created, *(file.last_epoch for file in files)]),
        "readable_epochs": [max(relation.created, state.oldest_of(relation)), state.epoch],
        "files": len(files),
        "stored_rows": sum(file.rows for file in files),
        "bytes": sum(file.size for file in files),
    }
    if isinstance(relation, Derived):
        body["reads"] = [state.relations[key].name for key in relation.definition.uses]
        body["auxiliary"] = auxiliaries(state, relation)
        if relation.definition.is_demand:
            body["refreshed_epoch"] = relation.definition.refreshed
        if relation.definition.suspended and (epoch is None or epoch >= relation.definition.suspended):
            body["stale_since"] = relation.definition.suspended
    if isinstance(relation, AssertionView):
        body["on_violation"] = relation.definition.violation
    if epoch is not None:
        body["as_of"] = epoch
        body["changed_epoch"] = min(body["changed_epoch"], epoch)
    return body


def _print(about: dict[str, Any]) -> None:
    first, last = about["readable_epochs"]
    console = stdout()
    console.print(about["definition"], markup=False, soft_wrap=True)
    facts = {
        "keys": ", ".join(about["keys"]) or "none",
        "reads": ", ".join(about.get("reads", ())),
        "violation": about.get("on_violation", ""),
        "auxiliary": ", ".join(about.get("auxiliary", ())),
        "refreshed": f"epoch {about['refreshed_epoch']}" if "refreshed_epoch" in about else "",
        "stale since": f"epoch {about['stale_since']} (suspended)" if "stale_since" in about else "",
        "as of": f"epoch {about['as_of']}" if "as_of" in about else "",
        "created": f"epoch {about['created_epoch']}",
        "last change": f"epoch {about['changed_epoch']}",
        "readable": f"epochs {first} to {last}",
        "files": f"{about['files']} ({size(about['bytes'])})",
        "stored rows": f"{about['stored_rows']:,}",
    }
    console.print()
    for label, text in facts.items():
        if text:
            console.print(f"{label + ':':13}{text}", markup=False, soft_wrap=True)
    console.print()


def _first_rows(db: Database, name: str, count: int, epoch: int | None) -> Any:
    from viewkeeper.algebra.types import quote

    suffix = "" if epoch is None else f" AS OF EPOCH {epoch}"
    return db.sql(f"SELECT * FROM {quote(name)} LIMIT {count}{suffix}")
