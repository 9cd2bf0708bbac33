"""Store assignment: Arrow columns from a query, a file or a frame become columns of the declared types.

Numbers go into numbers when the value fits (decimals round half up, as in Spark), strings into dates and timestamps
when they read as one, dates into timestamps, and the two timestamp types into each other through the database's time
zone. There are no other conversions: a string is not a number.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewkeeper.algebra.schema import WEIGHT, Schema
from viewkeeper.algebra.text_values import read_texts
from viewkeeper.algebra.types import Type
from viewkeeper.errors import TypeMismatch

YEARS = {
    "date": (-719_162, 2_932_896),
    "timestamp": (-62_135_596_800_000_000, 253_402_300_799_999_999),
    "timestamp_ntz": (-62_135_596_800_000_000, 253_402_300_799_999_999),
}
"""The years 1 to 9999 in days and microseconds since 1970."""


def cast_table(table: pa.Table, schema: Schema, relation: str, zone: str) -> pa.Table:
    """The table's columns, in order, as the schema's types."""
    arrays = []
    for source, column in zip(table.columns, schema, strict=True):
        try:
            arrays.append(cast_array(source, column.type, zone))
        except _Unfit as problem:
            raise TypeMismatch(
                f"{problem.what} does not fit column '{column.name}' of {relation}, which is {column.type}",
                detail=problem.why,
                hint=problem.hint,
            ) from None
    return pa.table(arrays, schema=schema.arrow)


def match_names(given: list[str], schema: Schema, relation: str) -> list[int | None]:
    """For each column of the schema, the position of that name among those given."""
    position: dict[str, int] = {}
    for index, name in enumerate(given):
        if schema.find(name) is None:
            raise TypeMismatch(
                f"there is a column '{name}' that {relation} does not have",
                hint=f"its columns are {', '.join(schema.names)}",
            )
        if name.lower() in position:
            raise TypeMismatch(f"there are two columns named '{name}'", hint="names are compared without case")
        position[name.lower()] = index
    return [position.get(column.name.lower()) for column in schema]


class _Unfit(Exception):
    def __init__(self, what: str, why: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what, self.why, self.hint = what, why, hint


def cast_array(source: Any, kind: Type, zone: str) -> Any:
    """An Arrow (chunked) array as a type."""
    if isinstance(source, pa.ChunkedArray):
        target = kind.arrow
        return pa.chunked_array([cast_array(chunk, kind, zone) for chunk in source.chunks], type=target)
    if pa.types.is_dictionary(source.type):
        return cast_array(source.dictionary_decode(), kind, zone)
    if pa.types.is_null(source.type):
        return pa.nulls(len(source), kind.arrow)
    if kind.is_nested:
        return _nested(source, kind, zone)
    if source.type == kind.arrow:
        return _in_years(source, kind)
    if source.null_count == len(source):
        return pa.nulls(len(source), kind.arrow)
    return _in_years(_scalar(source, kind, zone), kind)


def _in_years(array: pa.Array, kind: Type) -> pa.Array:
    """The array; refuses dates and times outside the years 1 to 9999, which neither Python nor the SQL standard has."""
    years = YEARS.get(kind.name)
    if years is not None:
        ends = pc.min_max(array.cast(pa.int32() if kind.name == "date" else pa.int64())).as_py()
        if ends["min"] is not None and (ends["min"] < years[0] or ends["max"] > years[1]):
            raise _Unfit(f"a {kind.name.upper()}", "it lies outside the years 1 to 9999")
    return array


def can_store(source: pa.DataType, kind: Type) -> bool:
    """Whether values of an Arrow type may be stored in a column type at all."""
    given, wanted = _family(source), _FAMILY[kind.name]
    return given == "null" or given == wanted or (given, wanted) in _CROSSINGS


_FAMILY = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "float", "double", "decimal"), "number"),
    "string": "string",
    "binary": "binary",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp",
    "array": "array",
    "map": "map",
    "struct": "struct",
}
_CROSSINGS = {("string", "date"), ("string", "timestamp"), ("date", "timestamp")}


def _family(kind: pa.DataType) -> str:
    tests = (
        (pa.types.is_null, "null"),
        (pa.types.is_boolean, "boolean"),
        (pa.types.is_date, "date"),
        (pa.types.is_timestamp, "timestamp"),
        (pa.types.is_map, "map"),
        (pa.types.is_struct, "struct"),
    )
    for test, name in tests:
        if test(kind):
            return name
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "string"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return "array"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return "binary"
    if pa.types.is_fixed_size_binary(kind):
        return "binary"
    return str(kind)


def _scalar(source: pa.Array, kind: Type, zone: str) -> pa.Array:
    if not can_store(source.type, kind):
        first = next(value for value in source if value.is_valid).as_py()
        cast = f"CAST(... AS {str(kind).split('(')[0] if kind.length else kind})"
        raise _Unfit(repr(first), f"it is a {_family(source.type)}", f"write {cast} if that is what you mean")
    try:
        return _cast_scalar(source, kind, zone)
    except (ValueError, ArithmeticError, pa.ArrowNotImplementedError) as problem:
        raise _Unfit(_first_bad(source, kind, zone), str(problem).split("\n")[0]) from None


def _cast_scalar(source: pa.Array, kind: Type, zone: str) -> pa.Array:
    target = kind.arrow
    given = source.type
    if _family(given) == "string" and kind.name in YEARS:
        return read_texts(source.cast(pa.string()), kind, zone, blank_is_null=False)
    if kind.name == "timestamp" and _is_naive_moment(given):
        return pc.assume_timezone(source.cast(pa.timestamp("us")), zone, ambiguous="earliest").cast(target)
    if kind.name == "timestamp_ntz" and pa.types.is_timestamp(given) and given.tz:
        return pc.local_timestamp(source.cast(pa.timestamp("us", zone)))
    if kind.name == "decimal":
        return _to_decimal(source, kind)
    if kind.is_float:
        return nearest_floats(source, target)
    return source.cast(target)


def nearest_floats(source: pa.Array, target: pa.DataType) -> pa.Array:
    """Numbers as the nearest FLOAT or DOUBLE, rounded once; an integer must convert exactly.

    Decimals are converted by way of their digits: Arrow's own cast divides by a power of ten and so rounds twice, which
    turns a fifth of all decimals with two digits into a neighbor of the nearest double.
    """
    if pa.types.is_decimal(source.type):
        return source.cast(pa.string()).cast(target)
    return source.cast(target, safe=bool(pa.types.is_integer(source.type)))


def _is_naive_moment(given: pa.DataType) -> bool:
    if pa.types.is_timestamp(given):
        return given.tz is None
    return bool(pa.types.is_date(given))


def _to_decimal(source: pa.Array, kind: Type) -> pa.Array:
    given = source.type
    if pa.types.is_integer(given):
        return source.cast(pa.decimal128(38, 0)).cast(kind.arrow)
    if pa.types.is_floating(given):
        from viewkeeper.algebra.values import convert

        return pa.array([convert(value, kind, "UTC") for value in source.to_pylist()], kind.arrow)
    if given.scale > kind.scale:
        source = pc.round(source, kind.scale, round_mode="half_towards_infinity")
    return source.cast(kind.arrow)


def _first_bad(source: pa.Array, kind: Type, zone: str) -> str:
    for index in range(len(source)):
        one = source.slice(index, 1)
        try:
            _cast_scalar(one, kind, zone)
        except (ValueError, ArithmeticError, pa.ArrowNotImplementedError):
            return repr(one[0].as_py())
    return "a value"


def _nested(source: pa.Array, kind: Type, zone: str) -> pa.Array:
    if not can_store(source.type, kind):
        raise _Unfit(f"a {_family(source.type)}", hint="an array, map or struct is needed there")
    if isinstance(source, pa.ExtensionArray):
        source = source.storage
    if kind.name == "struct":
        return _cast_struct(source, kind, zone)
    if pa.types.is_large_list(source.type) or pa.types.is_fixed_size_list(source.type):
        source = source.cast(pa.list_(source.type.value_type))
    mask = pc.is_null(source)
    offsets = _compact_offsets(source)
    if kind.name == "array":
        assert kind.element is not None
        values = cast_array(source.flatten(), kind.element, zone)
        return pa.ListArray.from_arrays(offsets, values, type=kind.arrow, mask=mask)
    assert kind.key is not None
    assert kind.value is not None
    entries = pa.concat_arrays([source]) if source.offset else source
    start, stop = entries.offsets[0].as_py(), entries.offsets[-1].as_py()
    keys = cast_array(entries.keys.slice(start, stop - start), kind.key, zone)
    items = cast_array(entries.items.slice(start, stop - start), kind.value, zone)
    shifted = pc.subtract(entries.offsets, start)
    if mask.true_count:
        shifted = pa.array(
            [None if null else offset for null, offset in zip(mask.to_pylist(), shifted.to_pylist()[:-1], strict=True)]
            + [shifted[-1].as_py()],
            pa.int32(),
        )
    return pa.MapArray.from_arrays(shifted.cast(pa.int32()), keys, items, type=kind.arrow)


def _compact_offsets(source: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(source), 0) if not pa.types.is_map(source.type) else None
    if lengths is None:
        return source.offsets
    ends = pc.cumulative_sum(lengths.cast(pa.int32()))
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])


def _cast_struct(source: pa.Array, kind: Type, zone: str) -> pa.Array:
    if len(source.type) != len(kind.fields):
        raise _Unfit(f"a struct of {len(source.type)} fields", f"the column's struct has {len(kind.fields)}")
    parts = [cast_array(part, type_, zone) for part, (_, type_) in zip(source.flatten(), kind.fields, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=list(kind.arrow), mask=pc.is_null(source))


def conform(table: pa.Table, schema: Schema, *, signed: bool = False) -> pa.Table:
    """An engine's result in exactly our Arrow types."""
    plain = cast_table(table.select(list(range(len(schema)))), schema, "the result", "UTC")
    if not signed:
        return plain
    return plain.append_column(pa.field(WEIGHT, pa.int64()), pc.cast(table.column(len(schema)), pa.int64()))
