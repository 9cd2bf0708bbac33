"""min and max of a column as engine text."""

from __future__ import annotations

from viewkeeper.algebra.types import Type

_GREATEST = {"float": "3.4028234663852886E38", "double": "1.7976931348623157E308"}


def extremum_text(function: str, label: str, kind: Type) -> str:
    """min or max of a column, where NaN is greater than every number. Sail's group-by does not guarantee that.

    Sail also starts from the greatest finite number, and returns it for a group that holds only infinities.
    """
    if not kind.is_float:
        return f"{function}({label})"
    sign = "" if function == "min" else "-"
    start = f"CAST('{sign}{_GREATEST[kind.name]}' AS {kind.ddl})"
    found = f"{function}(CASE WHEN NOT isnan({label}) THEN {label} END)"
    is_there = f"max(CASE WHEN {label} = {start} THEN 1 ELSE 0 END) = 1"
    infinity = f"CAST('{sign}Infinity' AS {kind.ddl})"
    numbers = f"CASE WHEN {found} = {start} AND NOT {is_there} THEN {infinity} ELSE {found} END"
    some = f"CASE WHEN max(CASE WHEN isnan({label}) THEN 1 ELSE 0 END) = 1 THEN CAST('NaN' AS {kind.ddl}) END"
    return f"coalesce({numbers}, {some})" if function == "min" else f"coalesce({some}, {numbers})"
