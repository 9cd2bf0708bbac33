"""The views of the golden suite, kept by triggers under random transactions, and those that are refused."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from tests.golden.runner import golden_files
from tests.oracle import difference, lines_of
from tests.postgres.world import World, in_postgres
from tests.vkt import Script, View, read_script
from viewkeeper.errors import ViewkeeperError
from viewkeeper.triggers.postgres_script import postgres_script

GOLDEN = Path(__file__).parent.parent / "golden"
FILES = sorted(path.relative_to(GOLDEN).with_suffix("").as_posix() for path in golden_files())

NO_FUNCTION = "PostgreSQL has no function that is known to mean the same"
QUOTIENT = "a quotient of DECIMALs has other digits in PostgreSQL"
RECURSIVE = "a recursive view has no triggers for PostgreSQL"
REFUSED: dict[str, dict[str, str]] = {
    "case_expressions": {"strings": f"upper(trim(s)): {NO_FUNCTION}"},
    "dates": {"by_time": "TIMESTAMP'2024-01-31 12:00:00.000002': this constant depends on the time zone"},
    "found/decimal_quotients": {
        "quotients": f"a / b: {QUOTIENT}",
        "shares": f"sum(a) * 100 / sum(b): {QUOTIENT}",
        "mean": f"sum(a) / count(*): {QUOTIENT}",
    },
    "found/equal_after_a_cast": dict.fromkeys("vwx", "s = i: STRING and INT are compared differently in PostgreSQL"),
    "found/fields_named_like_columns": {
        "v": "PostgreSQL has no type that means the same as struct<`c1`:int,`c2`:int,`z`:int>",
    },
    "found/infinities_and_fits": {"extremes": f"regr_r2(y, z): {NO_FUNCTION}"},
    "found/mixed_null_safe_joins": {"v8": f"upper(c1): {NO_FUNCTION}"},
    "found/types_of_branches": {"compared": "y + n: FLOAT is widened differently in PostgreSQL"},
    "found/zeros_that_are_equal": {"v": "CAST(y AS STRING): a cast of DOUBLE to STRING differs in PostgreSQL"},
    "lateral_explode": {
        "items": f"explode(xs): {NO_FUNCTION}",
        "items_or_none": f"explode_outer(xs): {NO_FUNCTION}",
        "in_select": f"explode(xs): {NO_FUNCTION}",
        "by_value": f"explode(xs): {NO_FUNCTION}",
    },
    "lateral_joins": {
        "items": f"explode(a): {NO_FUNCTION}",
        "items_by_value": f"explode_outer(a): {NO_FUNCTION}",
        "matched": f"explode(a): {NO_FUNCTION}",
    },
    "other_aggregates": {
        "spread": f"covar_pop(x, f): {NO_FUNCTION}",
        "collected": f"array_sort(collect_list(x)): {NO_FUNCTION}",
    },
    "recursive_bag": dict.fromkeys(("ways", "counted"), RECURSIVE),
    "recursive_set": dict.fromkeys(("closure", "reached", "degrees"), RECURSIVE),
    "select_project": {"image": f"upper(s): {NO_FUNCTION}"},
    "whole_values": {
        "middle": f"percentile_disc(0.5) WITHIN GROUP (ORDER BY CAST(x AS DOUBLE) DESC): {NO_FUNCTION}",
        "collected": f"array_sort(collect_list(s)): {NO_FUNCTION}",
        "chosen": "min(CASE WHEN x IS NOT NULL THEN named_struct('k', x, 'n', s IS NOT NULL, 'v', s) END)['v']: "
        f"{NO_FUNCTION}",
        "spread": f"covar_pop(x, f): {NO_FUNCTION}",
    },
    "window_frames": {
        "near": "the window frame RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING may differ in PostgreSQL",
    },
    "window_values": {
        "sums": "sum(x): a sum of DOUBLE depends on the order of rows here",
        "edges": f"named_struct('w', s IS NOT NULL, 'v', s): {NO_FUNCTION}",
        "lists": f"collect_list(s): {NO_FUNCTION}",
        "bare_list": f"listagg(s) WITHIN GROUP (ORDER BY s): {NO_FUNCTION}",
    },
}
"""Views that have no triggers, file by file, and why. No other test of this package covers them."""

MIDDLE = "percentile_cont(0.5) WITHIN GROUP (ORDER BY {})"
OWN = {
    ("count_distinct", "beside_a_percentile"): f"SELECT g, count(DISTINCT x), {MIDDLE.format('y')} FROM r GROUP BY g",
    (
        "count_distinct",
        "pairs",
    ): "SELECT g, count(DISTINCT (x, y)) FILTER (WHERE x IS NOT NULL AND y IS NOT NULL), sum(y) FROM r GROUP BY g",
    ("group_by_linear", "means"): "SELECT g, CAST(avg(x) AS double precision) FROM r GROUP BY g",
    ("other_aggregates", "distinct_counts"): "SELECT g, count(DISTINCT x), sum(DISTINCT x), "
    "count(DISTINCT (x, s)) FILTER (WHERE x IS NOT NULL AND s IS NOT NULL) FROM r GROUP BY g",
    ("other_aggregates", "middles"): f"SELECT g, {MIDDLE.format('x')}, bool_or(x > 1), bool_and(x > 1) "
    "FROM r GROUP BY g",
    ("top_k", "ties"): "SELECT x, s FROM r ORDER BY x DESC NULLS LAST, s NULLS FIRST LIMIT 4",
    ("whole_values", "different"): "SELECT count(DISTINCT x), sum(DISTINCT x), "
    "count(DISTINCT (x, s)) FILTER (WHERE x IS NOT NULL AND s IS NOT NULL), sum(DISTINCT d) FROM r",
    (
        "whole_values",
        "floats",
    ): "SELECT sum(f), avg(f), sum(DISTINCT f), CAST(avg(DISTINCT x) AS double precision) FROM r",
    ("whole_values", "filtered"): "SELECT count(DISTINCT x) FILTER (WHERE s = 'a'), "
    f"{MIDDLE.format('x')} FILTER (WHERE f > 1) FROM r",
    ("whole_values", "many_arguments"): "SELECT count(DISTINCT x), count(DISTINCT f), count(DISTINCT s), "
    f"count(DISTINCT d), {MIDDLE.format('x')}, count(x) FROM r",
    ("whole_values", "above"): f"SELECT id, x FROM r WHERE x > (SELECT {MIDDLE.format('x')} FROM r)",
    ("window_row_number", "with_ties"): "SELECT g, x, "
    "row_number() OVER (PARTITION BY g ORDER BY x NULLS FIRST, s NULLS FIRST) FROM r",
}
"""PostgreSQL's own text of a view, where it is not the same SQL."""


def create(view: View) -> str:
    return f"CREATE {'' if view.virtual else 'MATERIALIZED '}VIEW {view.name} AS {view.query}"


def tables_of(script: Script) -> str:
    return ";\n".join(text for text in script.setup if text.lstrip().upper().startswith("CREATE"))


def question(view: View) -> str:
    """What PostgreSQL is asked: the view's text, or the oracle's where the view's is Spark's alone."""
    if view.own_oracle and view.oracle:
        return view.oracle.replace("::DOUBLE", "::double precision")
    return in_postgres(view.query)


@pytest.mark.parametrize("name", FILES)
def test_random_transactions(pg: psycopg.Connection, name: str) -> None:
    script = read_script(GOLDEN / f"{name}.vkt")
    refused = REFUSED.get(name, {})
    kept = [view for view in script.views if view.name not in refused]
    if not any(not view.virtual for view in kept):
        assert refused
        return
    constants = [int(digits) for view in kept for digits in re.findall(r"(?<!['\w.-])\d{1,4}(?![\w.-])", view.query)]
    world = World(pg, seed=len(name), numbers=constants)
    world.create_tables(tables_of(script))
    world.fill(5)
    queries = {view.name: OWN.get((name, view.name)) or question(view) for view in kept}
    text = ";\n".join([tables_of(script), *map(create, kept)])
    world.keep(text, queries, virtual=[view.name for view in kept if view.virtual])
    world.check()
    for _ in range(20):
        world.transaction()
        world.check()


@pytest.mark.parametrize("name", FILES)
def test_batches(pg: psycopg.Connection, name: str) -> None:
    """The batches of the golden suite change the views as they do on Spark."""
    script = read_script(GOLDEN / f"{name}.vkt")
    kept = [view for view in script.views if view.name not in REFUSED.get(name, {})]
    shown = [view.name for view in kept if not view.virtual]
    if not shown:
        assert REFUSED[name]
        return
    world = World(pg)
    for text in script.setup:
        if text.lstrip().upper().startswith("CREATE"):
            world.create_tables(text, keys="DEFERRABLE")  # keys are checked after a statement, as on Spark
        else:
            world.run(text)
    world.keep(";\n".join([tables_of(script), *map(create, kept)]), {})
    for number, batch in enumerate(script.batches, 1):
        before = {view: world.bag(view) for view in shown}
        with pg.transaction():
            for text in batch.statements:
                world.run(text)
        for view in shown:
            change = difference(world.bag(view), before[view])
            assert lines_of(change) == batch.changes.get(view, []), f"{view}, batch {number}"


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused(name: str) -> None:
    script = read_script(GOLDEN / f"{name}.vkt")
    before = [view for view in script.views if view.name not in REFUSED[name]]
    for view in script.views:
        if view.name in REFUSED[name]:
            text = ";\n".join([tables_of(script), *map(create, [*before, view])])
            with pytest.raises(ViewkeeperError) as caught:
                postgres_script(text)
            assert caught.value.message == f"{view.name} has no triggers for PostgreSQL: {REFUSED[name][view.name]}"
