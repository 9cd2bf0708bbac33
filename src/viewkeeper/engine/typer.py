"""Types as the engine gives them: expressions over typed NULLs, analyzed and never run."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from viewkeeper.algebra.expressions import Attribute
from viewkeeper.engine.engine import Engine

_MOST = 4_096


class EngineTyper:
    """Asks an engine for the names and types of expressions. Equal questions are asked once."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._known: OrderedDict[str, list[tuple[str, str]]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def coerces(self) -> bool:
        """Whether operators need no casts and checks, because the engine is Apache Spark."""
        return self.engine.kind != "sail"

    def columns(self, inputs: Sequence[Attribute], items: Sequence[str], more: str = "") -> list[tuple[str, str]]:
        """Names and types of `SELECT items FROM (typed NULLs as inputs) more`; nothing is run."""
        question = _question(inputs, items, more)
        with self._lock:
            if question in self._known:
                self._known.move_to_end(question)
                return self._known[question]
        answer = self.engine.surviving(lambda: self._ask(question))
        with self._lock:
            self._known[question] = answer
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return answer

    def _ask(self, question: str) -> list[tuple[str, str]]:
        return self.engine.columns(self.engine.sql(question))


def _question(inputs: Sequence[Attribute], items: Sequence[str], more: str) -> str:
    nulls = ", ".join(f"CAST(NULL AS {a.type.ddl}) AS {a.label}" for a in inputs)
    source = f" FROM (SELECT {nulls}) AS _vk_typed" if inputs else ""
    return f"SELECT {', '.join(items)}{source}{' ' + more if more else ''}"
