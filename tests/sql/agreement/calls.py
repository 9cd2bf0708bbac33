# ruff: noqa: E501
"""Calls to try: every function of Apache Spark over columns of every type, and constants from its documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from sqlglot import exp

from tests.sql.agreement.nasty import POOLS, column_of
from viewkeeper.sql import functions as fn
from viewkeeper.sql.dialect import parse, render
from viewkeeper.sql.sail_functions import SAIL_LACKS

INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
DECIMALS = ("DECIMAL(9,2)", "DECIMAL(18,0)", "DECIMAL(38,18)", "DECIMAL(38,0)", "DECIMAL(3,3)")
NUMBERS = (*INTEGERS, "FLOAT", "DOUBLE", *DECIMALS)
TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
ARRAYS = ("ARRAY<INT>", "ARRAY<DOUBLE>", "ARRAY<STRING>", "ARRAY<ARRAY<INT>>")
ALL = tuple(POOLS)
_SOME = ("BOOLEAN", "INT", "DOUBLE", "DECIMAL(9,2)", "STRING", "BINARY", "DATE", "TIMESTAMP", "ARRAY<INT>",
         "MAP<STRING,INT>", "STRUCT<a:INT,b:STRING>")  # fmt: skip
_MIXED = ("INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(9,2)", "DECIMAL(38,18)", "STRING")
_USUAL = ("INT", "BIGINT", "DOUBLE", "DECIMAL(9,2)", "STRING", "BINARY", "BOOLEAN", *TIMES, *ARRAYS, "MAP<STRING,INT>",
          "STRUCT<a:INT,b:STRING>")  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One expression to compare. `types` are those of its arguments, constants as they are written; `oracle` is what
    Apache Spark is asked instead of `text`, where that has no definite order."""

    name: str
    types: tuple[str, ...]
    text: str
    kind: str = "scalar"
    oracle: str = ""


def scalars(examples: dict[str, str], names: set[str]) -> Iterator[Case]:
    """Calls of scalar functions: those of the documentation, then with columns in the place of their constants."""
    skipped = {
        *SAIL_LACKS,
        *fn.AGGREGATES,
        *fn.WINDOW_ONLY,
        *fn.GENERATORS,
        *fn.TABLE_FUNCTIONS,
        *fn.GROUPINGS,
        *fn.NON_DETERMINISTIC,
    }
    seen: set[str] = set()
    for case in (*_from_examples(examples, names - skipped), *_operators(), *_casts(), *_more()):
        if case.text not in seen:
            seen.add(case.text)
            yield case


def _from_examples(examples: dict[str, str], names: set[str]) -> Iterator[Case]:
    widened: set[tuple[str, int]] = set()
    for query, name in examples.items():
        if name not in names:
            continue
        for call in parse(query).find_all(exp.Anonymous):
            if call.name.lower() == name and _is_constant(call):
                yield Case(name, tuple(render(a) for a in call.expressions), render(call))
                form = (name, len(call.expressions))
                yield from _varied(name, call.expressions, wide=form not in widened)
                widened.add(form)
                break


def _is_constant(call: exp.Anonymous) -> bool:
    bound = {p.name for part in call.find_all(exp.Lambda) for p in part.expressions}
    return all(column.name in bound for column in call.find_all(exp.Column)) and not call.find(exp.Star, exp.Query)


def _varied(name: str, arguments: list[exp.Expr], *, wide: bool) -> Iterator[Case]:
    """One argument as a column of each type that may fit, the others as they are; then all as columns."""
    given = [render(a) for a in arguments]
    fitting = [_fitting(a) for a in arguments]
    for place in range(len(arguments)):
        narrow = tuple(kind for kind in fitting[place] if kind in _USUAL)
        some = dict.fromkeys((*fitting[0], *_SOME)) if place == 0 and fitting[0] else narrow
        for kind in some if wide else narrow[:2]:
            yield _call(name, [*given[:place], (kind, "a"), *given[place + 1 :]])
    if sum(bool(f) for f in fitting) < 2 or not wide:
        return
    for kind in fitting[0] or (None,):
        same = [kind if kind in f else f[0] if f else None for f in fitting]
        yield _call(name, [given[i] if k is None else (k, "ab"[i % 2]) for i, k in enumerate(same)])


def _fitting(node: exp.Expr) -> tuple[str, ...]:
    """The types that may stand in the place of a constant."""
    if isinstance(node, exp.Neg):
        node = node.this
    if isinstance(node, exp.Literal) and not node.is_string:
        return (*NUMBERS, "STRING")
    if isinstance(node, exp.Literal) and re.match(r"\d{4}-\d", node.name):
        return ("STRING", *TIMES)
    if isinstance(node, exp.Literal):
        return ("STRING", "BINARY", "INT")
    if isinstance(node, exp.Boolean):
        return ("BOOLEAN",)
    if isinstance(node, exp.Cast):
        return (*TIMES, "STRING") if "TIME" in str(node.to) or "DATE" in str(node.to) else (*NUMBERS, "STRING")
    if isinstance(node, exp.Anonymous):
        return {"array": ARRAYS, "map": ("MAP<STRING,INT>",), "named_struct": ("STRUCT<a:INT,b:STRING>",)}.get(
            node.name.lower(), ()
        )
    return ("BINARY",) if isinstance(node, exp.HexString) else ()


def _argument(given: str | tuple[str, str]) -> str:
    return given if isinstance(given, str) else column_of(*given)


_LONG = frozenset(
    [
        "format_number",
        "space",
        "repeat",
        "lpad",
        "rpad",
        "sequence",
        "array_repeat",
        "array_insert",
        "aggregate",
        "reduce",
    ]
)
"""Functions whose result is as long as a number says."""


def _call(name: str, arguments: list[str | tuple[str, str]]) -> Case:
    types = tuple(a if isinstance(a, str) else a[0] for a in arguments)
    texts = [_argument(a) for a in arguments]
    if name in _LONG:
        texts = [f"{t} % 7" if k in NUMBERS else t for t, k in zip(texts, types, strict=True)]
    return Case(name, types, f"{name}({', '.join(texts)})")


_BINARY = ("+", "-", "*", "/", "%", "div", "=", "<=>", "<", ">=", "<>", "&", "|", "^", "||", "and", "or", "<<", ">>", ">>>",
           "like", "rlike", "ilike")  # fmt: skip


def _operators() -> Iterator[Case]:
    for sign, kind in product(_BINARY, ALL):
        yield Case(sign, (kind, kind), f"{column_of(kind, 'a')} {sign} {column_of(kind, 'b')}")
    for sign, one, other in product(("+", "-", "*", "/", "%", "="), _MIXED, _MIXED):
        if one != other:
            yield Case(sign, (one, other), f"{column_of(one, 'a')} {sign} {column_of(other, 'b')}")
    for sign, time, other in product("+-", TIMES, ("INT", "TINYINT", *TIMES)):
        yield Case(sign, (time, other), f"{column_of(time, 'a')} {sign} {column_of(other, 'b')}")
    for sign, time, span in product("+-", TIMES, ("INTERVAL '1' MONTH", "INTERVAL '2' DAY", "INTERVAL '3' HOUR")):
        yield Case(sign, (time, span), f"{column_of(time, 'a')} {sign} {span}")
    for sign, kind in product(("-", "~", "not ", "+"), ALL):
        yield Case(f"{sign.strip()}", (kind,), f"{sign}{column_of(kind, 'a')}")
    for kind in ALL:
        yield Case("in", (kind,), f"{column_of(kind, 'a')} IN ({column_of(kind, 'b')}, NULL)")
        yield Case(
            "between", (kind,), f"{column_of(kind, 'a')} BETWEEN {column_of(kind, 'b')} AND {column_of(kind, 'a')}"
        )
        yield Case("is null", (kind,), f"{column_of(kind, 'a')} IS NULL")
        yield Case("case", (kind,), f"CASE WHEN id > 9 THEN {column_of(kind, 'a')} ELSE {column_of(kind, 'b')} END")
        yield Case("[]", (kind,), f"{column_of(kind, 'a')}[1]")
        yield Case("[]", (kind,), f"{column_of(kind, 'a')}['a']")
    yield Case(".", ("STRUCT<a:INT,b:STRING>",), "a_struct_a_int_b_string.a")
    for pattern in ("a%", "%b_c", "", "%", "_", "A%", "%\\\\%"):
        yield Case("like", ("STRING", f"'{pattern}'"), f"a_string LIKE '{pattern}'")
        yield Case("ilike", ("STRING", f"'{pattern}'"), f"a_string ILIKE '{pattern}'")


def _casts() -> Iterator[Case]:
    for kind, to in product(ALL, ALL):
        yield Case("cast", (kind, to), f"CAST({column_of(kind, 'a')} AS {to})")
        if kind == "STRING":
            yield Case("try_cast", (kind, to), f"TRY_CAST({column_of(kind, 'a')} AS {to})")


_UNITS = ("YEAR", "YEAROFWEEK", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFWEEK", "DAYOFWEEK_ISO", "DOW", "DOY", "HOUR",
          "MINUTE", "SECOND")  # fmt: skip
_STARTS = ("YYYY", "YY", "MON", "MM", "DD", "MILLISECOND", "MICROSECOND")
_FORMATS = ("yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "yyyyMMdd", "dd/MM/yy", "MMM d, yyyy", "EEEE", "D", "HH:mm:ss.SSSSSS",
            "yyyy-MM-dd'T'HH:mm:ss", "yyyy", "MM", "u", "hh:mm a", "E", "QQQ", "XXX", "yyyy-'W'ww", "dd/MM/yyyy",
            "MM/dd/yyyy", "dd-MM-yyyy", "dd.MM.yyyy", "yyyy/MM/dd", "yyyy-MM", "HH:mm", "yyyy-MM-dd HH:mm")  # fmt: skip
_PATTERNS = ("b", "", "[aeiou]", "(\\\\w+)", "^a", "\\\\d+", ",", "\\\\s+", "(a)(b)?", "(?i)A", "\\\\.", "a|b", "x*")


def _more() -> Iterator[Case]:
    """Calls whose constants matter: digits, units, formats, patterns, positions."""
    for name, kind, digits in product(("round", "bround", "floor", "ceil"), NUMBERS, ("0", "1", "2", "-1", "-3")):
        yield _call(name, [(kind, "a"), digits])
    for kind in NUMBERS:
        yield from (_call(name, [(kind, "a")]) for name in ("round", "bround"))
    for unit, kind in product(_UNITS, TIMES):
        column = column_of(kind, "a")
        yield Case("extract", (unit, kind), f"extract({unit} FROM {column})")
        text = f"'{unit}'"
        yield Case("date_part", (text, kind), f"date_part({text}, {column})")
        yield Case("date_trunc", (text, kind), f"date_trunc({text}, {column})")
        yield Case("trunc", (kind, text), f"trunc({column}, {text})")
        for name in ("timestampdiff", "datediff"):
            yield Case(name, (unit, kind), f"{name}({unit}, {column}, {column_of(kind, 'b')})")
        for name in ("timestampadd", "dateadd"):
            yield Case(name, (unit, kind), f"{name}({unit}, 5, {column})")
    for unit, kind in product(_STARTS, TIMES):
        yield _call("date_trunc", [f"'{unit}'", (kind, "a")])
        yield _call("trunc", [(kind, "a"), f"'{unit}'"])
    for form, kind in product(_FORMATS, TIMES):
        yield _call("date_format", [(kind, "a"), f"'{form.replace(chr(39), chr(92) + chr(39))}'"])
    for form, name in product(_FORMATS, ("to_date", "to_timestamp", "try_to_timestamp", "unix_timestamp")):
        yield _call(name, [("STRING", "a"), f"'{form.replace(chr(39), chr(92) + chr(39))}'"])
    for pattern in _PATTERNS:
        text = f"'{pattern}'"
        for name in ("rlike", "regexp_like", "regexp_count", "regexp_extract", "regexp_extract_all", "regexp_instr",
                     "regexp_substr", "split"):  # fmt: skip
            yield _call(name, [("STRING", "a"), text])
        yield _call("regexp_replace", [("STRING", "a"), text, "'<$0>'"])
        yield _call("split", [("STRING", "a"), text, "2"])
    for number in ("0", "1", "2", "-1", "-2", "5", "100", "NULL"):
        for name in ("left", "right", "repeat", "substring", "substr", "element_at", "array_repeat", "slice"):
            yield _call(name, [("STRING", "a"), number])
        yield _call("substring", [("STRING", "a"), number, "2"])
        yield _call("lpad", [("STRING", "a"), number, "'xy'"])
        yield _call("rpad", [("STRING", "a"), number, "'xy'"])
        for kind in ARRAYS:
            yield from (_call(name, [(kind, "a"), number]) for name in ("element_at", "get", "try_element_at"))
            yield _call("slice", [(kind, "a"), number, "2"])
    for path in ("$.a", "$.b", "$.b[1]", "$.b[*]", "$.b[2].c", "$[0]", "$", "$.x", "a"):
        yield _call("get_json_object", [("STRING", "a"), f"'{path}'"])
    for name, kinds in product(("coalesce", "greatest", "nullif", "array", "if"), product(_MIXED, _MIXED)):
        listed: list[str | tuple[str, str]] = [(kind, which) for kind, which in zip(kinds, "ab", strict=True)]
        yield _call(name, ["id > 9", *listed] if name == "if" else listed)
    for name, kind in product(
        ("try_add", "try_subtract", "try_multiply", "try_divide", "try_mod", "pmod", "mod"), NUMBERS
    ):
        yield _call(name, [(kind, "a"), (kind, "b")])
    for name, kind in product(("concat", "concat_ws", "hash", "xxhash64", "struct", "array", "greatest", "least", "nullif",
                               "equal_null", "nvl", "coalesce"), ALL):  # fmt: skip
        arguments: list[str | tuple[str, str]] = [(kind, "a"), (kind, "b")]
        yield _call(name, ["','", *arguments] if name == "concat_ws" else arguments)
    for kind in ARRAYS:
        element = kind[6:-1]
        for name in ("array_contains", "array_position", "array_remove", "array_append", "array_prepend"):
            yield _call(name, [(kind, "a"), (element, "b")])
    for body in ("x + 1", "x * 2", "CAST(x AS STRING)"):
        for kind in ("ARRAY<INT>", "ARRAY<DOUBLE>"):
            yield _call("transform", [(kind, "a"), f"x -> {body}"])
    for name, kind in product(("filter", "exists", "forall"), ("ARRAY<INT>", "ARRAY<DOUBLE>")):
        yield _call(name, [(kind, "a"), "x -> x > 1"])


# aggregates ---------------------------------------------------------------------------------------

ONE = ("any_value approx_count_distinct array_agg avg bit_and bit_or bit_xor bool_and bool_or collect_list collect_set count "
       "count_if every any some first first_value histogram_numeric kurtosis last last_value listagg max mean median min mode "
       "skewness std stddev stddev_pop stddev_samp string_agg sum try_avg try_sum var_pop var_samp variance "
       "hll_sketch_agg theta_sketch_agg bitmap_construct_agg bitmap_or_agg bitmap_and_agg")  # fmt: skip
TWO = ("corr covar_pop covar_samp max_by min_by regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx "
       "regr_sxy regr_syy")  # fmt: skip
_ORACLE = {
    "collect_list": "array_sort(collect_list({}){})",
    "array_agg": "array_sort(collect_list({}){})",
    "collect_set": "array_sort(collect_set({}){})",
    "first": "CASE WHEN count({0}){1} = count(1){1} THEN min({0}){1} END",
    "last": "max({}){}",
    "mode": "mode({}, true){}",
    "listagg": "listagg({0}, '') WITHIN GROUP (ORDER BY {0}){1}",
}
_ORACLE |= {"first_value": _ORACLE["first"], "any_value": _ORACLE["first"], "last_value": _ORACLE["last"]}
_ORACLE |= {"string_agg": _ORACLE["listagg"]}


@dataclass(frozen=True)
class Aggregated:
    """An aggregate to compare; `oracle` is what Apache Spark is asked, the same without a definite order."""

    case: Case
    oracle: str


def aggregates() -> Iterator[Aggregated]:
    """Aggregates of every type, plain, DISTINCT and with FILTER."""
    for name, kind in product(ONE.split(), ALL):
        a = column_of(kind, "a")
        for how, after in (("", ""), ("DISTINCT ", ""), ("", " FILTER (WHERE id % 2 = 0)")):
            told = {"DISTINCT ": "#DISTINCT"}.get(how, "#FILTER" if after else "")
            asked = _ORACLE.get(name, name + "({}){}").format(f"{how}{a}", after)
            if how and name == "mode":
                continue
            if how and name in ("first", "first_value", "any_value", "last", "last_value"):
                continue
            if name in ("listagg", "string_agg") and how:
                asked = f"listagg(DISTINCT {a}, '') WITHIN GROUP (ORDER BY {a}){after}"
            yield Aggregated(
                Case(name, (kind,) + ((told,) if told else ()), f"{name}({how}{a}){after}", "aggregate"), asked
            )
    for name, (one, other) in product(TWO.split(), [(k, k) for k in ALL] + [("INT", "DOUBLE"), ("STRING", "DOUBLE")]):
        a, b = column_of(one, "a"), column_of(other, "b")
        text = f"{name}({a}, {b})"
        pair = f"CASE WHEN {b} IS NOT NULL THEN struct({b} AS k, {a} AS v) END"
        asked = f"{name[:3]}({pair}).v" if name.endswith("_by") else text
        yield Aggregated(Case(name, (one, other), text, "aggregate"), asked)
    for kind in NUMBERS:
        a = column_of(kind, "a")
        for name, given, text in (
            ("percentile", (kind, "0.5"), f"percentile({a}, 0.5)"),
            ("percentile", (kind, "array(0.25, 0.9)"), f"percentile({a}, array(0.25, 0.9))"),
            ("percentile", (kind, "0.3", "INT"), f"percentile({a}, 0.3, id)"),
            ("percentile_approx", (kind, "0.5"), f"percentile_approx({a}, 0.5)"),
            ("approx_percentile", (kind, "0.5", "100"), f"approx_percentile({a}, 0.5, 100)"),
            ("percentile_cont", ("0.3", kind), f"percentile_cont(0.3) WITHIN GROUP (ORDER BY {a})"),
            ("percentile_disc", ("0.3", kind), f"percentile_disc(0.3) WITHIN GROUP (ORDER BY {a} DESC)"),
        ):
            yield Aggregated(Case(name, given, text, "aggregate"), text)


# windows ------------------------------------------------------------------------------------------

FRAMES = (
    "PARTITION BY g",
    "PARTITION BY g ORDER BY id",
    "PARTITION BY g ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "PARTITION BY g ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
    "PARTITION BY g ORDER BY id RANGE BETWEEN 20 PRECEDING AND 20 FOLLOWING",
    "ORDER BY id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
)
_WINDOWED = ("BOOLEAN", "INT", "BIGINT", "DOUBLE", "DECIMAL(9,2)", "DECIMAL(38,18)", "STRING", "DATE", "TIMESTAMP",
             "ARRAY<INT>")  # fmt: skip


def _tag(frame: str) -> str:
    """What the table calls a frame."""
    if " ROWS " in frame or " RANGE " in frame:
        return ("#" if "UNBOUNDED PRECEDING" in frame else "#SLIDING ") + ("ROWS" if " ROWS " in frame else "RANGE")
    return "#RUNNING" if "ORDER" in frame else "#WHOLE"


def windows() -> Iterator[Case]:
    """Window functions over several frames."""
    for name in ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist"):
        for kind in (k for k in _WINDOWED):
            yield Case(name, (kind,), f"{name}() OVER (PARTITION BY g ORDER BY {column_of(kind, 'a')}, id)", "window")
            if name != "row_number":
                yield Case(name, (kind,), f"{name}() OVER (ORDER BY {column_of(kind, 'a')} DESC)", "window")
    for number in ("1", "3", "100"):
        yield Case("ntile", (number,), f"ntile({number}) OVER (PARTITION BY g ORDER BY id)", "window")
    for kind in _WINDOWED:
        a = column_of(kind, "a")
        for call in (f"lag({a})", f"lead({a}, 2)", f"lag({a}, 1) IGNORE NULLS", f"lead({a}, 0)", f"lag({a}, -1)",
                     f"lag({a}, 1, {column_of(kind, 'b')})"):  # fmt: skip
            more = tuple(part for part in call[:-1].split(", ")[1:] if part.lstrip("-").isdigit())
            given = (kind, *more, *((kind,) if "b_" in call[2:] and ", b_" in call else ()))
            tags = ("#IGNORE NULLS",) if "IGNORE" in call else ()
            yield Case(call[: call.index("(")], (*given, *tags), f"{call} OVER (PARTITION BY g ORDER BY id)", "window")
        for call in ("first_value", "last_value", "nth_value", "first", "last", "any_value"):
            inner = f"({a}, 2)" if call == "nth_value" else f"({a})"
            for frame, nulls in product(FRAMES[2:], ("", " IGNORE NULLS")):
                given = (kind, "2") if call == "nth_value" else (kind,)
                tags = (_tag(frame), *(("#IGNORE NULLS",) if nulls else ()))
                yield Case(call, (*given, *tags), f"{call}{inner}{nulls} OVER ({frame})", "window")
    usual = "count sum avg min max bool_and bool_or count_if stddev var_pop skewness kurtosis median bit_and bit_or bit_xor try_sum try_avg std approx_count_distinct"
    for name, kind, frame in product(usual.split(), _WINDOWED, FRAMES):
        yield Case(name, (kind, _tag(frame)), f"{name}({column_of(kind, 'a')}) OVER ({frame})", "window")
    for name, kind in product(("count", "sum", "min", "max", "avg"), ("INT", "DOUBLE", "DECIMAL(9,2)", "STRING")):
        a = column_of(kind, "a")
        yield Case(
            name, (kind, "#RUNNING", "#FILTER"), f"{name}({a}) FILTER (WHERE id % 2 = 0) OVER ({FRAMES[1]})", "window"
        )
    for name, kind, frame in product(TWO.split(), ("INT", "DOUBLE", "DECIMAL(9,2)"), FRAMES[:3]):
        a, b = column_of(kind, "a"), column_of(kind, "b")
        pair = f"CASE WHEN {b} IS NOT NULL THEN struct({b} AS k, {a} AS v) END"
        asked = f"({name[:3]}({pair}) OVER ({frame})).v" if name.endswith("_by") else ""
        yield Case(name, (kind, kind, _tag(frame)), f"{name}({a}, {b}) OVER ({frame})", "window", asked)
    for name, kind in product(
        ("collect_list", "collect_set", "array_agg", "mode", "percentile", "listagg"), ("INT", "STRING", "DOUBLE")
    ):
        for frame in (FRAMES[2], FRAMES[5]):
            more = ", 0.5" if name == "percentile" else ", ','" if name == "listagg" else ""
            yield Case(
                name,
                (kind, *((more[2:],) if more else ()), _tag(frame)),
                f"{name}({column_of(kind, 'a')}{more}) OVER ({frame})",
                "window",
            )
    for k in ("2", "3"):
        yield Case(
            "max_by", ("INT", "INT", k, "#SLIDING ROWS"), f"max_by(a_int, b_int, {k}) OVER ({FRAMES[2]})", "window"
        )
        yield Case("min_by", ("INT", "INT", k, "#WHOLE"), f"min_by(a_int, b_int, {k}) OVER ({FRAMES[0]})", "window")


def generators() -> Iterator[Case]:
    """Generators over arrays, maps and strings."""
    for name, kind in product(
        ("explode", "explode_outer", "posexplode", "posexplode_outer"), (*ARRAYS, "MAP<STRING,INT>")
    ):
        yield Case(name, (kind,), f"{name}({column_of(kind, 'a')})", "generator")
    for name in ("inline", "inline_outer"):
        yield Case(
            name, ("ARRAY<STRUCT>",), f"{name}(array(a_struct_a_int_b_string, b_struct_a_int_b_string))", "generator"
        )
    yield Case("stack", ("INT",), "stack(2, a_int, b_int, b_int)", "generator")
    yield Case("json_tuple", ("STRING",), "json_tuple(a_string, 'a', 'b')", "generator")
