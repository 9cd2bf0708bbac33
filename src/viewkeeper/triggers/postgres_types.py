"""Column types as PostgreSQL spells them, and which of them mean the same there."""

from __future__ import annotations

from viewkeeper.algebra.types import INTEGERS, Type
from viewkeeper.errors import NotMaintainable

BOOLEAN, INT, BIGINT, DOUBLE, STRING = Type("boolean"), Type("int"), Type("bigint"), Type("double"), Type("string")

_NAMES = {
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}

MOST_DIGITS = 38


def spelled(kind: Type) -> str:
    """A type as PostgreSQL spells it; refused if PostgreSQL has none that means the same."""
    if kind.name == "decimal":
        return f"numeric({kind.precision},{kind.scale})"
    if kind.name not in _NAMES:
        hint = "store its parts as rows of another table"
        raise NotMaintainable(f"PostgreSQL has no type that means the same as {kind}", hint=hint)
    return _NAMES[kind.name]


def is_number(kind: Type) -> bool:
    """Whether a type is a number in comparisons and arithmetic. FLOAT is not, because it is widened differently."""
    return kind.is_integer or kind.name in ("decimal", "double")


def are_comparable(one: Type, other: Type) -> bool:
    """Whether values of two types are compared in the same way in Spark and in PostgreSQL."""
    return one.name == other.name or (is_number(one) and is_number(other))


def as_decimal(kind: Type) -> Type:
    """The decimal that holds every value of an integer type."""
    if kind.name == "decimal":
        return kind
    return Type("decimal", {8: 3, 16: 5, 32: 10, 64: 20}[INTEGERS[kind.name]], 0)


def common(one: Type, other: Type) -> Type | None:
    """The type of a value that is of one type or the other; None if there is none that both systems agree on."""
    if one.name == other.name and one.name != "decimal":
        return Type(one.name) if one.name == "string" else one
    if not (is_number(one) and is_number(other)):
        return None
    if "double" in (one.name, other.name):
        return DOUBLE
    if one.is_integer and other.is_integer:
        return one if INTEGERS[one.name] >= INTEGERS[other.name] else other
    one, other = as_decimal(one), as_decimal(other)
    scale = max(one.scale, other.scale)
    return decimal(max(one.precision - one.scale, other.precision - other.scale) + scale, scale)


def decimal(precision: int, scale: int) -> Type | None:
    """A decimal type; None if it has too many digits."""
    return Type("decimal", precision, scale) if precision <= MOST_DIGITS else None


def identifier(name: str) -> str:
    """A quoted name, in lower case, as PostgreSQL reads names without quotes."""
    return '"' + name.lower().replace('"', '""') + '"'


def string(value: str) -> str:
    """A string constant."""
    if "\0" in value:
        raise NotMaintainable("PostgreSQL has no strings with a zero byte in them")
    quoted = value.replace("'", "''")
    if "\\" not in value and "$vk$" not in value and not breaks_lines(value):
        return f"'{quoted}'"
    escaped = quoted.replace("\\", "\\\\").replace("$vk$", "$vk\\x24")  # $vk$ ends a function's text
    plain = "".join(f"\\u{ord(letter):04x}" if breaks_lines(letter) else letter for letter in escaped)
    return f"E'{plain}'"


def breaks_lines(text: str) -> bool:
    """Whether a text has a character that some programs take for a line end."""
    return len(f"{text}.".splitlines()) > 1
