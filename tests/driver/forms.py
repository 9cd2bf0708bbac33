"""The forms of expressions that the driver computes, over columns with nasty values."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import random
from collections.abc import Iterator
from typing import Any

_D = decimal.Decimal
_NAN, _INFINITY = float("nan"), float("inf")
_WIDE = "9" * 28 + "." + "9" * 10

COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "ti": ("TINYINT", [0, 1, -1, 127, -128, None, 5]),
    "i": ("INT", [0, 1, -1, 2**31 - 1, -(2**31), None, 7]),
    "j": ("INT", [3, 0, -1, 2, None, -7, 10]),
    "b": ("BIGINT", [0, 1, -1, 2**63 - 1, -(2**63), None, 42]),
    "c": ("BIGINT", [5, 0, -1, 2, None, -3, 10**12]),
    "f": ("FLOAT", [0.0, -0.0, 1.5, _NAN, _INFINITY, None, 3.4e38]),
    "d": ("DOUBLE", [0.0, -0.0, 1.5, _NAN, -_INFINITY, None, 1.7e308]),
    "g": ("DOUBLE", [2.0, 0.1, _NAN, -0.0, None, 1e-300, _INFINITY]),
    "m": ("DECIMAL(12,2)", [*map(_D, ("0", "1.25", "-1.25", "9999999999.99", "-9999999999.99", "0.05")), None]),
    "k": ("DECIMAL(5,3)", [*map(_D, ("0", "3.005", "-0.001", "99.999", "-99.999", "0.5")), None]),
    "w": ("DECIMAL(38,10)", [*map(_D, ("0", "1.0000000001", _WIDE, f"-{_WIDE}", "0.0000000005", "12345.5")), None]),
    "s": ("STRING", ["", "a", "A", "ß", "straße", None, "zz%_\n日本"]),
    "t": ("STRING", ["a", "", "b", None, "É", "zz", "a\\b"]),
    "u": ("STRING", ["a-b-c", "-", "  x y ", "日本日", "abcabc", None, "aAzZ09"]),
    "z": ("STRING", ["12", "-7", "0.5", "-0.005", "2024-02-29", "", "x", None, "2147483648"]),
    "y": ("BOOLEAN", [True, False, None]),
    "e": ("DATE", [*map(dt.date.fromisoformat, ("1970-01-01", "1969-12-31", "2024-02-29", "0001-01-01")), None]),
    "h": ("DATE", [*map(dt.date.fromisoformat, ("9999-12-31", "1582-10-15", "2000-12-31", "1970-01-01")), None]),
    "p": ("TIMESTAMP_NTZ", [dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 23, 59, 59, 999_999), None]),
    "q": ("TIMESTAMP_NTZ", [dt.datetime(1969, 12, 31, 23, 59), dt.datetime(1970, 1, 1), None]),
}
_INTEGERS = ("ti", "i", "j", "b", "c")
_FLOATS = ("f", "d", "g")
_NUMBERS = (*_INTEGERS, *_FLOATS, "m", "k", "w")
_SIGNS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
_FROM_DECIMALS = ("TINYINT", "INT", "BIGINT", "DOUBLE", "DECIMAL(10,0)", "DECIMAL(38,18)", "STRING")
_TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,0)", "DECIMAL(38,18)", "STRING")


def rows(count: int, seed: int) -> dict[str, list[Any]]:
    """Rows of random values, by column."""
    rng = random.Random(seed)
    return {
        "id": list(range(count)),
        **{name: [rng.choice(values) for _ in range(count)] for name, (_, values) in COLUMNS.items()},
    }


def forms() -> Iterator[tuple[str, str]]:
    """The name of a form in the documentation, and an expression of it."""
    for one, other in itertools.product(_NUMBERS, _NUMBERS):
        for sign in ("+", "-", "*", "/"):
            yield f"`{sign}`", f"{one} {sign} {other}"
        for sign in _SIGNS:
            yield f"`{sign}`", f"{one} {sign} {other}"
    for one, other in itertools.product(_INTEGERS, _INTEGERS):
        yield "`%`", f"{one} % {other}"
        yield "`div`", f"{one} div {other}"
    for one, other in (("s", "t"), ("e", "h"), ("s", "'a'"), ("e", "DATE'2024-02-29'"), ("p", "q")):
        for sign in _SIGNS:
            yield f"`{sign}`", f"{one} {sign} {other}"
    for sign in ("=", "<>", "<=>"):
        yield f"`{sign}`", f"y {sign} (i = 1)"
    for one in _NUMBERS:
        yield "`-`", f"-{one}"
        yield "`abs`", f"abs({one})"
        yield "`IS NULL`", f"{one} IS NULL"
        yield "`IS NULL`", f"{one} IS NOT NULL"
        yield "`BETWEEN`", f"{one} BETWEEN 0 AND 5"
        if one not in _FLOATS:
            yield "`IN`", f"{one} IN (0, 1, NULL)"
            yield "`IN`", f"{one} NOT IN (1, 2)"
        yield "`coalesce`", f"coalesce({one}, 0)"
        yield "`>`", f"{one} > 1.5"
        for kind in _TYPES if one in _INTEGERS else ("FLOAT", "DOUBLE") if one in _FLOATS else _FROM_DECIMALS:
            yield "`CAST`", f"CAST({one} AS {kind})"
    for kind in ("TINYINT", "INT", "BIGINT", "DECIMAL(10,2)", "DECIMAL(38,18)", "DOUBLE", "DATE"):
        yield "`CAST`", f"CAST(z AS {kind})"
    for one, kind in (("y", "INT"), ("y", "STRING"), ("e", "STRING"), ("e", "TIMESTAMP_NTZ"), ("p", "DATE")):
        yield "`CAST`", f"CAST({one} AS {kind})"
    for kind in ("INT", "DATE"):
        yield "`TRY_CAST`", f"TRY_CAST(z AS {kind})"
    for one in ("s", "t"):
        yield "`upper`", f"upper({one})"
        yield "`lower`", f"lower({one})"
        yield "`length`", f"length({one})"
        yield "`char_length`", f"char_length({one})"
        yield "`concat`", f"concat({one}, '-', s)"
        yield "`concat`", f"{one} || t"
        for pattern in ("a%", "%_", "zz%", "", "%ß%", "_"):
            yield "`LIKE`", f"{one} LIKE '{pattern}'"
            if pattern.isascii():
                yield "`ILIKE`", f"{one} ILIKE '{pattern}'"
        yield "`coalesce`", f"coalesce({one}, 'x')"
        yield "`IN`", f"{one} IN ('a', 'b', NULL)"
    for one, part in itertools.product(("e", "h"), _DATE_PARTS):
        yield f"`{part}`", f"{part}({one})"
    for part in ("YEAR", "QUARTER", "MONTH", "DAY"):
        yield "`EXTRACT`", f"EXTRACT({part} FROM e)"
    for function, values in _CALLS.items():
        for arguments in values:
            yield f"`{function}`", f"{function}({arguments})"
    yield from _OTHERS


LEFT_ON_SAIL = frozenset(
    f"{part}({one}{more})"
    for one in ("e", "h")
    for part, more in (("weekday", ""), ("trunc", ", 'quarter'"), ("trunc", ", 'week'"))
)
"""What the driver computes as Apache Spark does; views on Sail have other expressions in their place."""


def legend() -> str:
    """The columns of the table, by their types."""
    names: dict[str, list[str]] = {}
    for name, (kind, _) in COLUMNS.items():
        names.setdefault(kind, []).append(f"`{name}`")
    return "; ".join(f"{', '.join(each)} {kind}" for kind, each in names.items())


def listed() -> list[str]:
    """The table of the documentation: every form, with the expressions that are compared, up to a few."""
    found: dict[str, list[str]] = {}
    for name, text in forms():
        found.setdefault(name, []).append(text)
    return [f"| {name} | {', '.join(f'`{text}`' for text in _apart(texts))} |" for name, texts in sorted(found.items())]


def _apart(texts: list[str]) -> list[str]:
    """A few expressions, from the first to the last; without those that break a table."""
    plain = [text for text in dict.fromkeys(texts) if "|" not in text]
    return plain[:: max(1, len(plain) // SHOWN)][:SHOWN]


SHOWN = 4
"""Most expressions of one form in the documentation."""

_DATE_PARTS = (
    *("year", "quarter", "month", "day", "dayofmonth"),
    *("dayofweek", "weekday", "dayofyear", "weekofyear", "last_day"),
)

_CALLS = {
    **dict.fromkeys(("trim", "ltrim", "rtrim", "btrim", "reverse", "octet_length"), ("u", "s", "concat(u, t)")),
    **dict.fromkeys(("ucase", "lcase", "len", "character_length"), ("t",)),
    **dict.fromkeys(("substring", "substr"), ("u, 2", "u, j, 2", "u, -2", "u, 0, 2", "u, 2, j", "s, i, j", "u, -9, 8")),
    **dict.fromkeys(("left", "right"), ("u, 2", "u, j", "s, 1", "s, 0")),
    "repeat": ("u, 2", "u, abs(j)"),
    **dict.fromkeys(("lpad", "rpad"), ("u, 5, '*'", "u, abs(j), 'xy'", "u, 7", "s, 4, ''", "u, 4, t")),
    "replace": ("u, 'a', 'xx'", "u, t, 'x'", "u, 'bc', s"),
    "translate": ("u, 'abc', 'xy'", "u, '日a', 'z本'", "u, t, s"),
    "split_part": ("u, '-', 2", "u, '-', -1", "u, 'bc', 1", "u, 'x', 3", "u, '-', j"),
    "instr": ("u, 'b'", "u, t", "u, '日'"),
    "locate": ("'b', u", "t, u"),
    **dict.fromkeys(("startswith", "endswith", "contains"), ("u, 'a'", "u, t", "s, s")),
    "concat_ws": ("'-', u, t", "t, s, u, t", "',', u"),
    **dict.fromkeys(("floor", "ceil", "ceiling", "sign", "signum"), ("i", "b", "m", "k", "ti")),
    **dict.fromkeys(("mod", "pmod"), ("i, j", "b, c", "j, 3")),
    **dict.fromkeys(("date_add", "dateadd", "date_sub", "add_months"), ("e, j", "e, 1", "h, -30", "h, j")),
    **dict.fromkeys(("datediff", "date_diff"), ("e, h", "h, DATE'2000-02-29'")),
    "trunc": tuple(
        f"{one}, '{unit}'" for one in "eh" for unit in ("year", "YYYY", "yy", "quarter", "MON", "mm", "week")
    ),
    "make_date": ("2024, j, 5", "j, 2, 28", "2023, 2, j"),
    "to_date": ("e",),
    "nullif": ("i, j", "s, 'a'", "m, m", "i, 0"),
    "nvl2": ("i, j, 0", "s, s, t"),
    "greatest": ("i, b", "m, 1", "k, m, 2"),
    "least": ("i, b", "m, 1.5"),
}


_OTHERS = [
    ("`greatest`", "greatest(i, j)"),
    ("`greatest`", "greatest(m, k)"),
    ("`greatest`", "greatest(e, h)"),
    ("`least`", "least(i, j, 0)"),
    ("`CASE`", "CASE WHEN i > 0 THEN 1 WHEN j > 0 THEN 2 ELSE 3 END"),
    ("`CASE`", "CASE WHEN c <> 0 THEN b / c END"),
    ("`CASE`", "CASE WHEN c = 0 THEN 0 ELSE b % c END"),
    ("`CASE`", "CASE i WHEN 0 THEN 'zero' WHEN 1 THEN 'one' ELSE 'many' END"),
    ("`CASE`", "CASE WHEN y THEN m ELSE k END"),
    ("`CASE`", "CASE WHEN y THEN NULL ELSE 1 END"),
    ("`if`", "if(y, i, j)"),
    ("`AND`", "y AND i > 0"),
    ("`AND`", "c <> 0 AND b % c = 1"),
    ("`OR`", "y OR j > 0"),
    ("`OR`", "c = 0 OR b div c > 1"),
    ("`NOT`", "NOT y"),
    ("`nvl`", "nvl(s, t)"),
    ("`ifnull`", "ifnull(i, j)"),
    ("`isnull`", "isnull(i)"),
    ("`isnotnull`", "isnotnull(s)"),
    ("`+`", "i + j * 2 - 1"),
    ("`+`", "length(s) + 1"),
    *[
        ("`INTERVAL`", f"{one} INTERVAL {span}")
        for one in ("e +", "h -")
        for span in ("3 DAY", "'2' WEEKS", "1 MONTH", "'1' YEAR")
    ],
    ("`*`", "abs(i) * 2.5"),
    ("`CASE`", "CASE WHEN upper(t) = 'A' THEN length(t) ELSE year(e) END"),
    ("`*`", "m * (1 - k)"),
    ("`*`", "m * (1 - k) * (1 + k)"),
]
