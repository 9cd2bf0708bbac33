"""Python functions by module path, imported on demand, here and on the workers."""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
import sys
import typing
from collections.abc import Callable
from typing import Any

from viewkeeper.errors import NotFound, TypeMismatch

_TARGET = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*(?:\.[^\W\d]\w*)*)")


def load_function(target: str) -> Callable[..., Any]:
    """The function at a path such as "package.module:name"; its module is imported."""
    found = _TARGET.fullmatch(target)
    if found is None:
        raise TypeMismatch(
            f"'{target}' does not say where a function is", hint='write "package.module:name", without .py and brackets'
        )
    module, path = found.groups()
    part: Any = _imported(module)
    for step in path.split("."):
        if not hasattr(part, step):
            near = difflib.get_close_matches(step, [name for name in dir(part) if not name.startswith("_")], 1)
            hint = f"did you mean {module}:{near[0]}?" if near else f"define it in {module}, or name another function"
            raise NotFound(f"the module {module} has no function {path}", hint=hint)
        part = getattr(part, step)
    if not callable(part):
        raise TypeMismatch(f"{target} is a {type(part).__name__}, not a function", hint="name a function")
    return typing.cast(Callable[..., Any], part)


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name is not None and (module == problem.name or module.startswith(f"{problem.name}.")):
            raise NotFound(
                f"there is no module {module} in this process",
                hint="install it, or put its directory on PYTHONPATH",
            ) from problem
        raise _not_importable(module, problem) from problem
    except (Exception, SystemExit) as problem:  # whatever the user's module does when it is imported
        raise _not_importable(module, problem) from problem


def _not_importable(module: str, problem: BaseException) -> NotFound:
    return NotFound(
        f"the module {module} cannot be imported",
        detail=f"{type(problem).__name__}: {str(problem).split(chr(10))[0]}",
        hint=f'python -c "import {module}" shows where',
    )


def sent_by_path(target: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that imports the one at a module path where it runs, with the same annotations.

    Workers do not have the sys.path of this process, so it is searched second.
    """
    places = list(sys.path)
    found: list[Callable[..., Any]] = []

    def call(*values: Any) -> Any:
        if not found:
            sys.path.extend(place for place in places if place not in sys.path)
            found.append(load_function(target))
        return found[0](*values)

    try:
        call.__annotations__ = typing.get_type_hints(function)
        call.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    except (
        TypeError,
        ValueError,
        NameError,
    ):  # a builtin, or unresolvable annotations: called for single values
        call.__annotations__ = {}
    return call
