"""viewkeeper token: the tokens that a server accepts."""

from __future__ import annotations

import datetime as dt

import click

from viewkeeper.cli.output import note, print_rows
from viewkeeper.cli.session import Options

COLUMNS = ("name", "rights", "grants", "created")


@click.group(short_help="Make, list and drop tokens of the server.")
def token() -> None:
    """Makes, lists and drops the tokens that `viewkeeper serve` accepts. Only their hashes are stored."""


@token.command()
@click.argument("name")
@click.option("--rights", type=click.Choice(("read", "write", "admin")), default="read", show_default=True)
@click.option("--view", "views", multiple=True, metavar="V", help="A table or view that it reaches; may be repeated.")
@click.option(
    "--where", "conditions", multiple=True, metavar="COND",
    help="A condition on the rows of the --view at the same place, such as region = 'EU'.",
)  # fmt: skip
@click.pass_obj
def create(options: Options, name: str, rights: str, views: tuple[str, ...], conditions: tuple[str, ...]) -> None:
    """Makes the token NAME and prints it. It is shown this once.

    Without --view it reaches all tables and views. With --view it reads these only, and of them the rows for which
    --where holds, whatever a client asks for.
    """
    from viewkeeper.catalog.name_errors import no_such_table
    from viewkeeper.server.access_tokens import Access, Grant
    from viewkeeper.server.http_problems import Problem
    from viewkeeper.server.row_conditions import read_condition
    from viewkeeper.server.token_files import create_token

    if len(conditions) > len(views):
        raise click.UsageError("--where needs a --view whose rows it is about")
    if views and rights != "read":
        raise click.UsageError(f"a token for single views reads them: leave --rights {rights} out")
    if views and conditions and len(conditions) != len(views):
        raise click.UsageError("give one --where for each --view, or none; true stands for all rows")
    state, _ = options.log()
    grants = []
    for place, view in enumerate(views):
        relation = state.find(view)
        if relation is None or relation.is_hidden:
            raise no_such_table(view, state.names(), None, "table or view")
        where = conditions[place] if conditions else None
        if where is not None:
            try:
                read_condition(where, relation.name, relation.schema)
            except Problem as problem:
                raise click.UsageError(problem.detail) from problem
        grants.append(Grant(relation.name, where))
    made = create_token(options.storage, Access(name, rights, tuple(grants) if views else None))
    click.echo(made)
    note("this is shown only once; clients send it as the header  Authorization: Bearer ...")


@token.command()
@click.pass_obj
def ls(options: Options) -> None:
    """Lists the tokens: name, rights, and what they reach."""
    from viewkeeper.server.token_files import stored_tokens

    options.log()
    found = stored_tokens(options.storage)
    rows = [
        (
            each.access.name,
            each.access.rights,
            "everything"
            if each.access.grants is None
            else "; ".join(g.view if g.where is None else f"{g.view} where {g.where}" for g in each.access.grants),
            dt.datetime.fromtimestamp(each.created, dt.UTC),
        )
        for each in found
    ]
    print_rows(COLUMNS, rows, options.form)
    if not rows and options.form == "table":
        note(f"there are no tokens: {options.command} token create NAME --rights read")


@token.command()
@click.argument("name")
@click.pass_obj
def drop(options: Options, name: str) -> None:
    """Drops the token NAME. Servers refuse it from now on, and end its streams."""
    from viewkeeper.server.token_files import drop_token

    options.log()
    drop_token(options.storage, name)
    note(f"dropped the token {name}")
