"""Types as the engine infers them: expressions over typed NULLs, analyzed and never run."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from viewkeeper.algebra.expressions import Attribute, Expression, attributes_in
from viewkeeper.algebra.spark_text import printed
from viewkeeper.engine.engine import Engine
from viewkeeper.engine.operator_parts import meant

_MOST = 4_096


class EngineTyper:
    """Asks an engine for the names and types of expressions, once for equal ones."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._known: OrderedDict[str, list[tuple[str, str]]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def coerces(self) -> bool:
        """Whether operators need no casts and checks, because the engine is Apache Spark."""
        return self.engine.kind != "sail"

    def columns(self, items: Sequence[Expression]) -> list[tuple[str, str]]:
        """Names and types of `SELECT items FROM (typed NULLs as their attributes)`; nothing is run."""
        texts = [printed(meant(item, self.engine.kind)) for item in items]
        question = _question(list(dict.fromkeys(attributes_in(items))), texts)
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


def _question(inputs: Sequence[Attribute], items: Sequence[str]) -> str:
    nulls = ", ".join(f"CAST(NULL AS {a.type.ddl}) AS {a.label}" for a in inputs)
    source = f" FROM (SELECT {nulls}) AS _vk_typed" if inputs else ""
    return f"SELECT {', '.join(items)}{source}"
