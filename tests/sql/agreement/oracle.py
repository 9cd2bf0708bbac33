"""What Apache Spark says: types and values of many expressions, and for which rows each raises.

A session without Connect, so that an expression can be wrapped in Spark's own TryEval: one query tells for every row
whether an expression raises. Run as a program, in a process of its own, because a process has one kind of session.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.sql.agreement import nasty
from viewkeeper.algebra.types import parse_type
from viewkeeper.catalog.settings import Settings
from viewkeeper.errors import ViewkeeperError

RAISED = "raised"
NO_VALUE = "no value of Python"
THREADS = 3
BATCH = 24
SAVED = 240
"""So many answers are saved at a time, so that a run can be taken up again."""


@dataclass
class Answer:
    """What an engine says to an expression: its type, and for each row a value or RAISED; or why it says nothing."""

    type: str = ""
    values: list[Any] = field(default_factory=list)
    refused: str = ""


class Spark:
    """Apache Spark without Connect, with the settings of the product."""

    def __init__(self) -> None:
        from pyspark.sql import SparkSession

        quick_start = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a short run is mostly compiling otherwise
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory 3g --driver-java-options '{quick_start}' pyspark-shell"
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        for name, value in Settings().spark_conf().items():
            builder = builder.config(name, value)
        quick = {"codegen.wholeStage": "false", "codegen.factoryMode": "NO_CODEGEN", "shuffle.partitions": "1"}
        for name, value in quick.items():
            builder = builder.config(f"spark.sql.{name}", value)
        self.session = builder.getOrCreate()
        self.session.sparkContext.setLogLevel("OFF")
        self.jvm = self.session._jvm
        kinds = ", ".join(f"{c.name} {c.type.ddl}" for c in nasty.schema())
        self.frame = self.session.createDataFrame(nasty.table(), kinds).coalesce(1).cache()
        self.frame.createOrReplaceTempView("nasty")
        self.frame.count()

    def _tried(self, text: str) -> Any:
        """An expression in a struct that is NULL where it raises."""
        from pyspark.sql import functions as F
        from pyspark.sql.classic.column import Column

        utils = self.jvm.org.apache.spark.sql.classic.ExpressionUtils
        inner = utils.expression(F.expr(f"named_struct('v', {text})")._jc)
        return Column(utils.column(self.jvm.org.apache.spark.sql.catalyst.expressions.TryEval(inner)))

    def probe(self, text: str) -> Answer:
        """The type of an expression, or why there is none."""
        try:
            shown = self.frame.select(self._tried(text)).schema[0].dataType["v"].dataType.simpleString()
            return Answer(parse_type(shown).ddl)
        except ViewkeeperError as problem:
            return Answer(refused=f"type: {problem.message}")
        except Exception as problem:
            return Answer(refused=_first_line(problem))

    def scalars(self, texts: Sequence[str]) -> dict[str, Answer]:
        """The answers to scalar expressions over the table."""
        with ThreadPoolExecutor(THREADS) as pool:
            answers: dict[str, Answer] = dict(zip(texts, pool.map(self.probe, texts), strict=True))
            accepted = [text for text, answer in answers.items() if answer.type]
            batches = [accepted[i : i + BATCH] for i in range(0, len(accepted), BATCH)]
            for batch, values in zip(batches, pool.map(self._evaluated, batches), strict=True):
                for text, found in zip(batch, values, strict=True):
                    if isinstance(found, str):
                        answers[text].type, answers[text].refused = "", found
                    else:
                        answers[text].values = found
        return answers

    def _evaluated(self, texts: Sequence[str]) -> list[Any]:
        columns = [self._tried(text).alias(f"v{i}") for i, text in enumerate(texts)]
        try:
            table = self.frame.select("id", *columns).toArrow()
        except Exception as problem:
            if len(texts) == 1:
                return [_first_line(problem)]
            middle = len(texts) // 2
            return [*self._evaluated(texts[:middle]), *self._evaluated(texts[middle:])]
        order = sorted(range(table.num_rows), key=table["id"].to_pylist().__getitem__)
        columns = [listed(column) for column in table.columns[1:]]
        return [[RAISED if values[row] is None else _inner(values[row]) for row in order] for values in columns]

    def keyed(self, questions: Sequence[str]) -> dict[str, Answer]:
        """The answers to `SELECT key, value FROM nasty ...`; those that differ in the value are asked at once."""
        with ThreadPoolExecutor(THREADS) as pool:
            answers = dict(zip(questions, pool.map(self._typed, questions), strict=True))
            alike: dict[tuple[str, str, str], list[str]] = {}
            for question in (q for q in questions if answers[q].type):
                key, value, tail = _parts(question)
                alone = "" if " AS v " in question else value  # a generator gives other rows to all beside it
                alike.setdefault((key, tail, alone), []).append(question)
            batches = [many[i : i + BATCH] for many in alike.values() for i in range(0, len(many), BATCH)]
            for batch, found in zip(batches, pool.map(self._asked, batches), strict=True):
                for question, rows in zip(batch, found, strict=True):
                    answers[question].values = rows
        return answers

    def _typed(self, question: str) -> Answer:
        try:
            kinds = [parse_type(kind.dataType.simpleString()).ddl for kind in self.session.sql(question).schema]
            return Answer(", ".join(kinds[1:]))
        except ViewkeeperError as problem:
            return Answer(refused=f"type: {problem.message}")
        except Exception as problem:
            return Answer(refused=_first_line(problem))

    def _asked(self, questions: Sequence[str]) -> list[Any]:
        key, _, tail = _parts(questions[0])
        values = ", ".join(f"{_parts(question)[1]} AS v{i}" for i, question in enumerate(questions))
        text = f"SELECT {key}, {values} FROM nasty{tail}"
        if " AS v " not in questions[0]:  # a generator: it may have several columns
            text = questions[0]
        try:
            table = self.session.sql(text).toArrow()
        except Exception:
            if len(questions) == 1:
                return [[RAISED]]
            middle = len(questions) // 2
            return [*self._asked(questions[:middle]), *self._asked(questions[middle:])]
        columns = [listed(column) for column in table.columns]
        if len(questions) == 1:
            return [list(zip(*columns, strict=True))]
        return [list(zip(columns[0], column, strict=True)) for column in columns[1:]]


def _parts(question: str) -> tuple[str, str, str]:
    """Key, value and the rest of a question."""
    found = re.fullmatch(r"SELECT (\w+), (.*?)(?: AS v)? FROM nasty( GROUP BY g)?", question)
    assert found is not None, question
    return found[1], found[2], found[3] or ""


def listed(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; a string that is not UTF-8 and a date beyond year 9999 is a word of its own."""
    try:
        return list(column.to_pylist())
    except (UnicodeDecodeError, OverflowError, ValueError):
        return [_decoded(value) for value in column]


def _decoded(value: Any) -> Any:
    try:
        return value.as_py()
    except (UnicodeDecodeError, OverflowError, ValueError):
        return NO_VALUE


def _inner(value: Any) -> Any:
    return value if value == NO_VALUE else value["v"]


def _first_line(problem: Exception) -> str:
    lines = str(problem).strip().splitlines()
    return lines[0][:200] if lines else type(problem).__name__


def main() -> None:
    """Answers the pickled questions {"scalars": [...], "queries": [...]} of the first file into the second."""
    asked = pickle.loads(Path(sys.argv[1]).read_bytes())
    target = Path(sys.argv[2])
    known = pickle.loads(target.read_bytes()) if target.exists() else {"scalars": {}, "queries": {}}
    spark = Spark()
    for part, ask in (("scalars", spark.scalars), ("queries", spark.keyed)):
        new = [text for text in dict.fromkeys(asked[part]) if text not in known[part]]
        for start in range(0, len(new), SAVED):
            answers = ask(new[start : start + SAVED])
            known[part] |= {text: vars(answer) for text, answer in answers.items()}
            target.write_bytes(pickle.dumps(known))
            print(part, start + len(answers), "of", len(new), flush=True)


if __name__ == "__main__":
    main()
