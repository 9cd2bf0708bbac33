"""WINDOW w AS (...): each OVER w replaced by its definition, also where one window is defined by another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from viewkeeper.sql.context import Context

_PARTS = {"partition_by": "PARTITION BY", "order": "ORDER BY", "spec": "a frame"}


def resolve_named_windows(context: Context, tree: exp.Select) -> exp.Select:
    """The query with each OVER w replaced by its definition. A copy, if there is any."""
    given = tree.args.get("windows") or ()
    if not given and not any(_base(node) for node in tree.find_all(exp.Window)):
        return tree
    copy = tree.copy()
    named = _definitions(context, copy.args.get("windows") or ())
    copy.set("windows", None)
    for node in list(copy.find_all(exp.Window)):
        base = _base(node)
        if base is not None and node.find_ancestor(exp.Query) is copy:
            _extend(context, node, _found(context, named, base))
    return copy


def _base(window: exp.Window) -> exp.Identifier | None:
    """The name of the window that a window is defined by."""
    alias = window.args.get("alias")
    return alias if isinstance(alias, exp.Identifier) else None


def _definitions(context: Context, given: Sequence[exp.Window]) -> dict[str, exp.Window]:
    """The windows of a WINDOW clause by name, with complete definitions."""
    named: dict[str, exp.Window] = {}
    for window in given:
        if window.name in named:
            context.wrong(f"the window '{window.name}' is defined twice", window, "give one another name")
        named[window.name] = window
    done: set[int] = set()

    def complete(window: exp.Window, above: tuple[int, ...]) -> None:
        base = _base(window)
        if base is not None and id(window) not in done:
            found = _found(context, named, base)
            if id(found) in (*above, id(window)):
                context.wrong(f"the window '{window.name}' is defined by itself", window, "write out its ORDER BY")
            complete(found, (*above, id(window)))
            _extend(context, window, found)
        done.add(id(window))

    for window in given:
        complete(window, ())
    return named


def _found(context: Context, named: Mapping[str, exp.Window], name: exp.Identifier) -> exp.Window:
    """The window of a name; where letters differ in case only, the one that is spelled the same."""
    found = named.get(name.name)
    alike = [window for known, window in named.items() if known.lower() == name.name.lower()]
    if found is None and len(alike) == 1:
        return alike[0]
    if found is None:
        context.wrong(f"there is no window '{name.name}'", name, "define it with WINDOW name AS (...)")
    return found


def _extend(context: Context, window: exp.Window, base: exp.Window) -> None:
    """Adds to a window the parts of the one it is defined by; it cannot have those, or earlier ones, of its own."""
    parts = list(_PARTS)
    for index, part in enumerate(parts):
        if window.args.get(part) and (part == "partition_by" or any(base.args.get(p) for p in parts[index:])):
            context.wrong(
                f"a window defined by '{base.name}' cannot have {_PARTS[part]} of its own",
                window,
                "write out the whole window in brackets",
            )
    window.set("alias", None)
    for part in parts:
        value = base.args.get(part)
        if value and not window.args.get(part):
            window.set(part, [one.copy() for one in value] if isinstance(value, list) else value.copy())
