"""Which of Apache Spark's functions Sail does not have, and which give other values there.

`tests/sql/test_function_examples.py` and `tests/sql/test_sail_differs.py` keep this true.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from sqlglot import exp

from viewkeeper.errors import NotMaintainable, Place
from viewkeeper.sql.dialect import parse, place_in
from viewkeeper.sql.functions import NON_DETERMINISTIC
from viewkeeper.sql.references import place_of_name

_NAMES = """
    approx_top_k approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate
    collate collation collations current_path from_avro from_protobuf
    input_file_block_length input_file_block_start input_file_name is_valid_variant java_method
    kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
    kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float
    kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
    kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float
    kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float
    kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float
    kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float
    map_zip_with measure python_worker_logs reflect
    schema_of_avro schema_of_xml session_window sql_keywords st_setsrid st_srid
    time_bucket time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds
    to_avro to_protobuf transform_keys transform_values try_make_interval try_reflect try_to_date
    tuple_difference_double tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer
    tuple_intersection_agg_double tuple_intersection_agg_integer tuple_intersection_double tuple_intersection_integer
    tuple_intersection_theta_double tuple_intersection_theta_integer
    tuple_sketch_agg_double tuple_sketch_agg_integer tuple_sketch_estimate_double tuple_sketch_estimate_integer
    tuple_sketch_summary_double tuple_sketch_summary_integer tuple_sketch_theta_double tuple_sketch_theta_integer
    tuple_union_agg_double tuple_union_agg_integer tuple_union_double tuple_union_integer
    tuple_union_theta_double tuple_union_theta_integer
    vector_avg vector_norm vector_normalize vector_sum zip_with
"""

SAIL_LACKS = frozenset(_NAMES.split())
"""Names, in lower case, that Sail refuses whatever their arguments."""

_INTERPOLATES = "it gives a DOUBLE between two values of the column, not one of them"
_SUNDAY = "it counts the days from 0, not from 1"
_FRACTIONS = "it takes numbers with a fraction for DOUBLE, not for DECIMAL"

SAIL_DIFFERS: dict[str, str] = {
    "approx_percentile": _INTERPOLATES,
    "date_part dow": _SUNDAY,
    "datepart dow": _SUNDAY,
    "extract dow": _SUNDAY,
    "percentile/3": "it does not look at the frequencies",
    "percentile_approx": _INTERPOLATES,
    "percentile_cont": "it cuts what it interpolates off after six digits; percentile(x, p) does not",
    "rint": "it rounds halves away from zero, not to the even neighbour",
    "schema_of_variant": _FRACTIONS,
    "schema_of_variant_agg": _FRACTIONS,
    "try_avg": "it cuts the average of DECIMAL values off; avg does not",
    "weekday": "Sunday is -1, not 6",
}
"""What differs on Sail for ordinary values. `name/n` is a call with n arguments, `name field` one of that field."""

_SPARK = 'use Apache Spark: vk.connect(..., engine="spark")'


def check_on_sail(text: str, whole: str, own: Container[str]) -> None:
    """Raises NotMaintainable at a call in a view's query that Sail lacks or answers otherwise than Apache Spark.

    `own` are the names, in lower case, of functions that the user has declared.
    """
    for call in parse(text, whole).find_all(exp.Anonymous, exp.Extract):
        name = "extract" if isinstance(call, exp.Extract) else call.name.lower()
        if name in own or name in NON_DETERMINISTIC:
            continue
        if name in SAIL_LACKS:
            raise NotMaintainable(f"Sail has no function {name}", place=_place(call, text, whole), hint=_SPARK)
        for form, shown in _forms(name, call):
            if form in SAIL_DIFFERS:
                raise NotMaintainable(
                    f"{shown} gives other values on Sail than on Apache Spark: {SAIL_DIFFERS[form]}",
                    place=_place(call, text, whole),
                    hint=_SPARK,
                )


def _forms(name: str, call: exp.Expr) -> Iterator[tuple[str, str]]:
    """What a call may be listed as, and how to say it."""
    yield name, name
    yield f"{name}/{len(call.expressions)}", f"{name} with {len(call.expressions)} arguments"
    first = call.this if isinstance(call, exp.Extract) else next(iter(call.expressions), None)
    if isinstance(first, (exp.Literal, exp.Var)):
        yield f"{name} {first.name.lower()}", f"{first.name.upper()} in {name}"


def _place(call: exp.Expr, text: str, whole: str) -> Place | None:
    if isinstance(call, exp.Extract):  # it has no place of its own, what it is about has
        return place_of_name("extract", whole)
    marks = [part.meta for part in call.walk() if "start" in part.meta]
    start, end = min(mark["start"] for mark in marks), max(mark["end"] for mark in marks)
    return place_in(text, start, end - start + 1, whole)
