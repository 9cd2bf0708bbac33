"""Which of Apache Spark's functions Sail does not have; `sail_agreement.py` knows those that differ for some types.

`tests/sql/test_function_examples.py` checks this.
"""

from __future__ import annotations

from collections.abc import Container

from sqlglot import exp

from viewkeeper.errors import NotMaintainable, Place
from viewkeeper.sql.dialect import parse, place_in
from viewkeeper.sql.functions import NON_DETERMINISTIC

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

_SPARK = 'use Apache Spark: vk.connect(..., engine="spark")'


def check_on_sail(text: str, whole: str, own: Container[str]) -> None:
    """Raises NotMaintainable at a call in a view's query that Sail lacks, whatever its arguments.

    `own` are the names, in lower case, of functions that the user has declared.
    """
    for call in parse(text, whole).find_all(exp.Anonymous):
        name = call.name.lower()
        if name in own or name in NON_DETERMINISTIC:
            continue
        if name in SAIL_LACKS:
            raise NotMaintainable(f"Sail has no function {name}", place=_place(call, text, whole), hint=_SPARK)


def _place(call: exp.Expr, text: str, whole: str) -> Place | None:
    marks = [part.meta for part in call.walk() if "start" in part.meta]
    start, end = min(mark["start"] for mark in marks), max(mark["end"] for mark in marks)
    return place_in(text, start, end - start + 1, whole)
