"""viewkeeper bench: measurements on this machine."""

from __future__ import annotations

import click

from viewkeeper.cli.output import note, print_rows
from viewkeeper.cli.session import Options

COLUMNS = ("cost", "of", "built_in", "measured", "ratio")


@click.group(short_help="Measure what the engine costs on this machine.")
def bench() -> None:
    """Measures this machine."""


@bench.command()
@click.option(
    "--rows", type=click.IntRange(min=30_000), metavar="N",
    help="Rows of the largest scratch table. Default: 300,000; fewer take less time, and say less.",
)  # fmt: skip
@click.option("--forget", is_flag=True, help="Measure nothing; drop all costs stored with the database.")
@click.pass_obj
def calibrate(options: Options, rows: int | None, forget: bool) -> None:
    """Measures what queries and rows cost on the engine, in seconds; `refresh = 'auto'` chooses by it.

    Refreshes views over scratch tables in the directory for temporary files ($TMPDIR); changes no table. With --db DIR
    the costs are stored there for the engine: from the next time it is opened on, they take the place of the built-in
    ones. Results never depend on them.
    """
    from dataclasses import fields

    from viewkeeper.api.calibrating import ROWS
    from viewkeeper.api.calibrating import calibrate as measured
    from viewkeeper.log.stored_costs import engines_with_costs, forget_costs, store_costs
    from viewkeeper.plan.cost import RATES

    state = options.log()[0] if options.db_given else None
    if forget:
        if state is None:
            raise click.UsageError("--forget drops what is stored with a database: name it by --db DIR")
        stored = engines_with_costs(options.storage)
        for engine in stored:
            forget_costs(options.storage, engine)
        note(f"dropped the costs of {', '.join(stored)}" if stored else "no costs are stored")
        return
    engine = options.engine or (state.settings.engine if state else "spark")
    costs = measured(engine, lambda step: note(f"measuring: {step}"), rows or ROWS)
    built_in = RATES[costs.engine.removeprefix("remote-")]
    lines = []
    for field in fields(built_in):
        default, found = getattr(built_in, field.name), float(f"{getattr(costs.rates, field.name):.3g}")
        seconds = map(_text, (default, found)) if options.form == "table" else (default, found)
        lines.append((field.name, field.metadata["of"], *seconds, round(found / default, 2)))
    print_rows(COLUMNS, lines, options.form)
    if state is None:
        note("nothing was stored: --db DIR stores them with a database")
    else:
        store_costs(options.storage, costs)
        note(f"stored in {options.db} for the engine {costs.engine}: they count from the next time it is opened on")


def _text(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"
