"""Tables of Apache Spark's functions by name, in lower case; a function in no table is scalar.

`tests/sql/test_functions.py` checks the tables against Apache Spark's own list.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SKETCHES = _names("""
    approx_top_k_accumulate approx_top_k_combine count_min_sketch
    hll_sketch_agg hll_union_agg
    kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
    kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float
    theta_intersection_agg theta_sketch_agg theta_union_agg
    tuple_intersection_agg_double tuple_intersection_agg_integer
    tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer
""")
"""Aggregates that return a sketch. For no rows they raise or return an empty one that depends on their arguments."""

AGGREGATES = SKETCHES | _names("""
    any any_value approx_count_distinct approx_percentile approx_top_k array_agg avg
    bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or
    collect_list collect_set corr count count_if covar_pop covar_samp
    every first first_value histogram_numeric kurtosis last last_value listagg
    max max_by mean measure median min min_by mode
    percentile percentile_approx percentile_cont percentile_disc
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
    schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp string_agg sum
    try_avg try_sum var_pop var_samp variance vector_avg vector_sum
""")
"""Functions of a group of rows; with OVER they are window functions too."""

GROUPINGS = _names("grouping grouping_id")
"""Functions that say which columns a row of GROUPING SETS is grouped by; valid only with GROUP BY."""

WINDOW_ONLY = _names("cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number")
"""Functions that need OVER."""

GENERATORS = _names("""
    explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack
    variant_explode variant_explode_outer
""")
"""Functions that return several rows for one."""

TABLE_FUNCTIONS = _names("collations python_worker_logs range sql_keywords")
"""Functions that are allowed in FROM only, besides the generators."""

_SEEDED = "it draws random numbers, which depend on the order and place of the rows even with a seed"
_CLOCK = "it depends on when it runs"
_PLACE = "it depends on where a row is stored"
_SESSION = "it depends on the session that runs it"
_REFLECTION = "it calls Java code, which may do anything"

NON_DETERMINISTIC: dict[str, str] = {
    **dict.fromkeys(("rand", "randn", "random", "randstr", "shuffle", "uniform", "uuid"), _SEEDED),
    **dict.fromkeys(("curdate", "current_date", "current_time", "current_timestamp", "localtimestamp", "now"), _CLOCK),
    **dict.fromkeys(
        (
            "input_file_block_length",
            "input_file_block_start",
            "input_file_name",
            "monotonically_increasing_id",
            "spark_partition_id",
        ),
        _PLACE,
    ),
    **dict.fromkeys(
        (
            "current_catalog",
            "current_database",
            "current_path",
            "current_schema",
            "current_timezone",
            "current_user",
            "python_worker_logs",
            "session_user",
            "user",
            "version",
        ),
        _SESSION,
    ),
    **dict.fromkeys(("java_method", "reflect", "try_reflect"), _REFLECTION),
}
"""Functions that are not deterministic for a row, and why."""

WITHOUT_BRACKETS = _names("current_date current_path current_time current_timestamp current_user session_user user")
"""Functions that may be written without parentheses; Spark reads such a name as a column if there is one."""

MOVING_TIMES = _names("now today tomorrow yesterday")
"""Words for dates and times that are not fixed, in DATE'...', TIMESTAMP'...' and casts of strings."""


def is_moving_time(text: str) -> bool:
    """Whether the date or time that a string is cast to depends on the day."""
    first = text.split(maxsplit=1)[:1]
    return bool(first) and first[0].lower() in MOVING_TIMES


def why_not_deterministic(name: str, arguments: int) -> str | None:
    """Why a call with this many arguments is not deterministic; None if it is."""
    lowered = name.lower()
    if lowered == "unix_timestamp" and arguments == 0:
        return _CLOCK
    if lowered == "aes_encrypt" and arguments < 5:
        return "it draws a random start vector unless it is given one"
    return NON_DETERMINISTIC.get(lowered)


ORDER_DEPENDENT = SKETCHES | _names("""
    any_value approx_percentile approx_top_k array_agg collect_list collect_set
    first first_value histogram_numeric last last_value listagg max_by min_by mode percentile_approx string_agg
""")
"""Aggregates whose result may depend on the order of rows (apart from sums of DOUBLE)."""

ORDERED = _names("listagg mode percentile_cont percentile_disc string_agg")
"""Aggregates that take WITHIN GROUP (ORDER BY ...)."""

SUMS_OF_FLOATS = _names("""
    avg corr covar_pop covar_samp kurtosis mean
    regr_avgx regr_avgy regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
    skewness std stddev stddev_pop stddev_samp sum try_avg try_sum var_pop var_samp variance
""")
"""Aggregates that add up floats, so that their last digits depend on the order of rows."""

EMPTY_VALUE: dict[str, str] = {
    **dict.fromkeys(("approx_count_distinct", "count", "count_if", "regr_count"), "0L"),
    **dict.fromkeys(("approx_top_k", "array_agg", "collect_list", "collect_set"), "array()"),
    **dict.fromkeys(("bitmap_construct_agg", "bitmap_or_agg"), "unhex(repeat('0', 8192))"),
    "bitmap_and_agg": "unhex(repeat('F', 8192))",
    "schema_of_variant_agg": "'VOID'",
}
"""The results of aggregates for no rows, as engine text, where they are not NULL and do not depend on arguments."""
