"""What a request for a shape asks for: its parameters, read and checked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from viewkeeper.server.http_problems import Problem

START, NOW = "-1", "now"

_OFFSET = re.compile(r"(\d{1,18})_(\d{1,18}|inf)")
_HANDLE = re.compile(r"[0-9a-z]{1,64}-\d{1,18}(-[0-9a-z]{1,32})?")
_NUMBER = re.compile(r"\d{1,18}")


@dataclass(frozen=True)
class Subset:
    """A part of a shape that is asked for at once."""

    where: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    order_by: str | None = None
    limit: int | None = None
    offset: int | None = None


@dataclass(frozen=True)
class ShapeRequest:
    """A request. `since` is the epoch that the client's copy has; None at the start and for `now`.

    `handle` is empty without one, and for text that no handle has.
    """

    table: str
    since: int | None
    now: bool
    handle: str
    where: str | None
    params: Mapping[str, str]
    columns: tuple[str, ...] | None
    full: bool
    live: bool
    events: bool
    changes_only: bool
    cursor: int
    subset: Subset | None


def read_request(query: Mapping[str, str], body: bytes | None = None) -> ShapeRequest:
    """The request that query parameters and the body of a POST make; raises Problem if they make none."""
    offset = query.get("offset")
    table = query.get("table", "")
    if not table:
        raise _bad("the parameter 'table' is missing", "name a table or view: table=orders")
    if offset is None:
        raise _bad("the parameter 'offset' is missing", "begin with offset=-1")
    found = _OFFSET.fullmatch(offset)
    if found is None and offset not in (START, NOW):
        raise _bad(f"'{offset}' is not an offset", "use -1, now, or the value of the header electric-offset")
    handle = query.get("handle", "")
    live = _truth(query, "live")
    if found is not None and not handle:
        raise _bad("the parameter 'handle' is missing", "send the value of the header electric-handle")
    if live and offset == START:
        raise _bad("live=true needs the offset of an earlier answer", "begin without live")
    subset = _subset(query, body)
    if live and subset is not None:
        raise _bad("a subset is asked for without live=true")
    cursor = query.get("cursor", "")
    return ShapeRequest(
        table=table_name(table),
        since=None if found is None else int(found.group(1)),
        now=offset == NOW,
        handle=handle if _HANDLE.fullmatch(handle) else "",
        where=query.get("where") or None,
        params=_params(query),
        columns=_columns(query.get("columns")),
        full=_one_of(query, "replica", ("default", "full")) == "full",
        live=live,
        events=live and (_truth(query, "live_sse") or _truth(query, "experimental_live_sse")),
        changes_only=_one_of(query, "log", ("full", "changes_only")) == "changes_only",
        cursor=int(cursor) if _NUMBER.fullmatch(cursor) else 0,
        subset=subset,
    )


def table_name(text: str) -> str:
    """The name of a relation: plain, in double quotes, and with or without the schema `public`."""
    part = r'(?:"(?:[^"]|"")+"|[^".]+)'
    found = re.fullmatch(rf"(?:(?:public|\"public\")\.)?({part})", text)
    if found is None:
        return text
    name = found.group(1)
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _columns(text: str | None) -> tuple[str, ...] | None:
    """A list of names, each plain or in double quotes."""
    if not text:
        return None
    one = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^",]+?))\s*(,|$)')
    names: list[str] = []
    at = 0
    while True:
        found = one.match(text, at)
        if found is None:
            raise _bad(f"'{text}' is not a list of columns", "use for instance columns=id,title")
        names.append(found.group(1).replace('""', '"') if found.group(1) is not None else found.group(2))
        if not found.group(3):
            return tuple(names)
        at = found.end()


def _params(query: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in query.items():
        if key.startswith("params["):
            number = key.removeprefix("params[").removesuffix("]")
            if not _NUMBER.fullmatch(number) or not key.endswith("]"):
                raise _bad(f"'{key}' is not a parameter of a condition", "use for instance params[1]=EU")
            found[number] = value
    if "params" in query:
        found |= _strings(query["params"])
    return found


def _subset(query: Mapping[str, str], body: bytes | None) -> Subset | None:
    if body is not None:
        asked = _object(body)
        return Subset(
            _string(asked, "where"),
            _strings(asked.get("params") or {}),
            _string(asked, "order_by"),
            _count(asked.get("limit"), "limit"),
            _count(asked.get("offset"), "offset"),
        )
    if not any(name.startswith("subset__") for name in query):
        return None
    return Subset(
        query.get("subset__where") or None,
        _strings(query.get("subset__params") or {}),
        query.get("subset__order_by") or None,
        _count(query.get("subset__limit"), "subset__limit"),
        _count(query.get("subset__offset"), "subset__offset"),
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        raise _bad("the body is not a JSON object")
    return asked


def _string(asked: Mapping[str, Any], name: str) -> str | None:
    value = asked.get(name)
    if value is not None and not isinstance(value, str):
        raise _bad(f"'{name}' is not a string")
    return value or None


def _strings(given: Any) -> dict[str, str]:
    """The values of parameters by their numbers, from an object, a list, or the JSON of one."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            raise _bad("the parameters of a condition are not JSON") from None
    if isinstance(given, list):
        given = {str(number): value for number, value in enumerate(given, start=1)}
    if not isinstance(given, dict):
        raise _bad("the parameters of a condition are not a JSON object")
    return {str(number): value if isinstance(value, str) else json.dumps(value) for number, value in given.items()}


def _count(value: Any, name: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not _NUMBER.fullmatch(str(value)):
        raise _bad(f"'{name}' is not a number from 0 on")
    return int(value)


def _truth(query: Mapping[str, str], name: str) -> bool:
    return _one_of(query, name, ("false", "true")) == "true"


def _one_of(query: Mapping[str, str], name: str, values: tuple[str, str]) -> str:
    """The value of a parameter; the first of those it may have is the default."""
    found = query.get(name) or values[0]
    if found not in values:
        raise _bad(f"'{found}' is no value of the parameter '{name}'", f"use {values[0]} or {values[1]}")
    return found


def _bad(detail: str, hint: str | None = None) -> Problem:
    return Problem("bad-request", detail, status=400, hint=hint)
