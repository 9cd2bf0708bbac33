"""Column types: what a column may hold, in Spark's spelling, and the Arrow type that carries it.

Every type here has the equality that relations need (GROUP BY's: NULL equals NULL, NaN equals NaN). Types without
it are refused with a reason.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from viewkeeper.errors import TypeMismatch


@dataclass(frozen=True)
class Type:
    """A column type. `name` is Spark's name of the kind; the other fields belong to some kinds only."""

    name: str
    precision: int = 0
    scale: int = 0
    length: int | None = None
    element: Type | None = None
    key: Type | None = None
    value: Type | None = None
    fields: tuple[tuple[str, Type], ...] = ()

    def __str__(self) -> str:
        if self.length is not None:
            return f"VARCHAR({self.length})"
        return self.ddl if any(part.fields for part in self.parts()) else self.ddl.upper()

    @property
    def ddl(self) -> str:
        """The type as Spark's DDL spells it (a VARCHAR is a string there; its length is a constraint of ours)."""
        match self.name:
            case "decimal":
                return f"decimal({self.precision},{self.scale})"
            case "array":
                return f"array<{_must(self.element).ddl}>"
            case "map":
                return f"map<{_must(self.key).ddl},{_must(self.value).ddl}>"
            case "struct":
                inner = ",".join(f"{quote(name)}:{kind.ddl}" for name, kind in self.fields)
                return f"struct<{inner}>"
            case _:
                return self.name

    @cached_property
    def arrow(self) -> pa.DataType:
        """The Arrow type that carries this type on the driver and in files."""
        match self.name:
            case "decimal":
                return pa.decimal128(self.precision, self.scale)
            case "array":
                return pa.list_(pa.field("element", _must(self.element).arrow))
            case "map":
                return pa.map_(_must(self.key).arrow, _must(self.value).arrow)
            case "struct":
                return pa.struct([pa.field(name, kind.arrow) for name, kind in self.fields])
            case _:
                return _ARROW[self.name]

    @cached_property
    def is_nested(self) -> bool:
        """Whether values have parts (array, map, struct)."""
        return self.name in ("array", "map", "struct")

    @cached_property
    def is_integer(self) -> bool:
        """Whether this is one of the four integer types."""
        return self.name in INTEGERS

    @cached_property
    def is_float(self) -> bool:
        """Whether this is FLOAT or DOUBLE."""
        return self.name in ("float", "double")

    def holds(self, number: decimal.Decimal) -> bool:
        """Whether this DECIMAL holds all digits of a number."""
        exponent = number.as_tuple().exponent
        digits_after = -exponent if isinstance(exponent, int) and exponent < 0 else 0
        return digits_after <= self.scale and (not number or number.adjusted() < self.precision - self.scale)

    def parts(self) -> Iterator[Type]:
        """This type and all types inside it."""
        yield self
        for part in (self.element, self.key, self.value, *(kind for _, kind in self.fields)):
            if part is not None:
                yield from part.parts()

    def has_map(self) -> bool:
        """Whether a MAP occurs anywhere in it: a MAP has no order and no `=`, so it cannot be a key."""
        return self._has_map

    @cached_property
    def _has_map(self) -> bool:
        return any(part.name == "map" for part in self.parts())


def _must(part: Type | None) -> Type:
    assert part is not None
    return part


def quote(name: str) -> str:
    """A name as an identifier in engine text."""
    return "`" + name.replace("`", "``") + "`"


def spelled(name: str) -> str:
    """A name as it can be typed in SQL: in quotes only where it needs them."""
    return name if name.isidentifier() and name.isascii() else quote(name)


def same_family(one: Type, other: Type) -> bool:
    """Whether `=` between two types compares values as they are, without a cast that could change them."""
    return one.ddl == other.ddl or (one.is_integer and other.is_integer)


INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}


def as_decimal(kind: Type) -> Type:
    """The decimal type that holds every value of an integer type."""
    return Type("decimal", _DIGITS[kind.name], 0) if kind.is_integer else kind


_ARROW = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}

_SYNONYMS = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "text": "string",
    "bool": "boolean",
    "timestamp_ltz": "timestamp",
    "dec": "decimal",
    "numeric": "decimal",
}

_REFUSED = {
    "void": ("VOID holds nothing but NULL", "give the column a type, for instance STRING"),
    "null": ("VOID holds nothing but NULL", "give the column a type, for instance STRING"),
    "variant": ("VARIANT values have no equality, so rows could not be told apart", "use STRING, or a STRUCT"),
    "interval": ("INTERVAL cannot be stored in Parquet by every engine", "use BIGINT and name the unit"),
    "time": ("TIME is not supported by every engine", "use STRING, or BIGINT microseconds"),
    "char": ("CHAR(n) pads its values, so equal values differ between engines", "use STRING or VARCHAR(n)"),
    "character": ("CHAR(n) pads its values, so equal values differ between engines", "use STRING or VARCHAR(n)"),
    "object": ("OBJECT is not a table type", "use STRUCT<...>"),
    "geometry": ("GEOMETRY values have no equality that every engine shares", "use BINARY (WKB)"),
    "geography": ("GEOGRAPHY values have no equality that every engine shares", "use BINARY (WKB)"),
}


class _Reader:
    """Reads one type from text, keeping the rest."""

    token = re.compile(r"\s*(`(?:[^`]|``)*`|[A-Za-z_][\w]*|\d+|[<>(),:]|\S)")

    def __init__(self, text: str) -> None:
        self.text = text
        self.offset = 0

    def peek(self) -> str:
        found = self.token.match(self.text, self.offset)
        return found.group(1) if found else ""

    def take(self) -> str:
        found = self.token.match(self.text, self.offset)
        if not found:
            return ""
        self.offset = found.end()
        return found.group(1)

    def expect(self, mark: str) -> None:
        got = self.take()
        if got != mark:
            raise TypeMismatch(
                f"'{self.text.strip()}' is not a type: expected '{mark}' before '{got or 'the end'}'",
                hint="types look like BIGINT, DECIMAL(12,2), ARRAY<INT>, MAP<STRING,INT>, STRUCT<a: INT, b: STRING>",
            )

    def number(self) -> int:
        got = self.take()
        if not got.isdigit():
            raise TypeMismatch(f"'{self.text.strip()}' is not a type: '{got}' is not a number")
        return int(got)


def parse_type(text: str) -> Type:
    """The type a text names, as Spark SQL spells it."""
    reader = _Reader(text)
    kind = _read(reader)
    rest = reader.peek()
    if rest:
        raise TypeMismatch(f"'{text.strip()}' is not a type: '{rest}' is one word too many")
    return kind


def _read(reader: _Reader) -> Type:
    word = reader.take().lower()
    name = _SYNONYMS.get(word, word)
    if name in _REFUSED:
        reason, hint = _REFUSED[name]
        raise TypeMismatch(f"the type {word.upper()} is not supported: {reason}", hint=hint)
    if name in _NESTED:
        nested = _NESTED[name](reader)
        if any(part.length is not None for part in nested.parts()):
            raise TypeMismatch(
                f"VARCHAR(n) inside {word.upper()} is not supported: its length would not be checked there",
                hint="use STRING",
            )
        return nested
    if reader.peek().lower() == "collate":
        raise TypeMismatch(
            f"the type '{reader.text.strip()}' is not supported: collated strings have an equality of their own",
            hint="use STRING, and lower(...) or a collation in the query where case does not matter",
        )
    if name == "decimal":
        return _read_decimal(reader)
    if name == "varchar":
        reader.expect("(")
        length = reader.number()
        reader.expect(")")
        return Type("string", length=length)
    if name in _ARROW:
        return Type(name)
    raise TypeMismatch(
        f"there is no type named '{word}'",
        hint="use one of " + ", ".join(sorted(n.upper() for n in _ARROW)) + ", DECIMAL(p,s), ARRAY, MAP, STRUCT",
    )


def _read_decimal(reader: _Reader) -> Type:
    precision, scale = 10, 0
    if reader.peek() == "(":
        reader.take()
        precision = reader.number()
        if reader.peek() == ",":
            reader.take()
            scale = reader.number()
        reader.expect(")")
    if not 1 <= precision <= 38 or scale > precision:
        raise TypeMismatch(
            f"DECIMAL({precision},{scale}) is not supported",
            hint="precision is 1 to 38 digits, scale at most the precision",
        )
    return Type("decimal", precision, scale)


def _read_array(reader: _Reader) -> Type:
    reader.expect("<")
    element = _read(reader)
    reader.expect(">")
    return Type("array", element=element)


def _read_map(reader: _Reader) -> Type:
    reader.expect("<")
    key = _read(reader)
    reader.expect(",")
    value = _read(reader)
    reader.expect(">")
    if key.has_map():
        raise TypeMismatch("a MAP cannot be the key of a MAP", hint="use STRING keys")
    return Type("map", key=key, value=value)


def _read_struct(reader: _Reader) -> Type:
    reader.expect("<")
    fields: list[tuple[str, Type]] = []
    while reader.peek() != ">":
        if fields:
            reader.expect(",")
        name = reader.take()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        if reader.peek() == ":":
            reader.take()
        fields.append((name, _read(reader)))
    reader.expect(">")
    if not fields:
        raise TypeMismatch("STRUCT<> has no fields", hint="name at least one, for instance STRUCT<a: INT>")
    names = [name.lower() for name, _ in fields]
    if len(set(names)) < len(names):
        raise TypeMismatch("two fields of a STRUCT have the same name", hint="names are compared without case")
    return Type("struct", fields=tuple(fields))


_NESTED: dict[str, Callable[[_Reader], Type]] = {"array": _read_array, "map": _read_map, "struct": _read_struct}


def type_of_arrow(kind: pa.DataType) -> Type:
    """The type that stores an Arrow type, for tables made from files and frames."""
    if pa.types.is_dictionary(kind):
        return type_of_arrow(kind.value_type)
    if pa.types.is_decimal(kind):
        return Type("decimal", kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return Type("timestamp" if kind.tz else "timestamp_ntz")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return Type("array", element=type_of_arrow(kind.value_type))
    if pa.types.is_map(kind):
        return Type("map", key=type_of_arrow(kind.key_type), value=type_of_arrow(kind.item_type))
    if pa.types.is_struct(kind):
        return Type("struct", fields=tuple((field.name, type_of_arrow(field.type)) for field in kind))
    for test, name in _FROM_ARROW:
        if test(kind):
            return Type(name)
    raise TypeMismatch(f"the Arrow type {kind} has no column type", hint="cast it first, for instance to string")


_FROM_ARROW: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "tinyint"),
    (lambda kind: pa.types.is_int16(kind) or pa.types.is_uint8(kind), "smallint"),
    (lambda kind: pa.types.is_int32(kind) or pa.types.is_uint16(kind), "int"),
    (lambda kind: pa.types.is_int64(kind) or pa.types.is_uint32(kind), "bigint"),
    (lambda kind: pa.types.is_float32(kind) or pa.types.is_float16(kind), "float"),
    (pa.types.is_float64, "double"),
    (
        lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind),
        "string",
    ),
    (
        lambda kind: (
            pa.types.is_binary(kind)
            or pa.types.is_large_binary(kind)
            or pa.types.is_binary_view(kind)
            or pa.types.is_fixed_size_binary(kind)
        ),
        "binary",
    ),
    (pa.types.is_date, "date"),
)
