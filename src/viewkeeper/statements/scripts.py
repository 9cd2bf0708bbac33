"""Scripts: texts of several statements, run one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from viewkeeper.errors import Place, SqlError, ViewkeeperError
from viewkeeper.query.result import Result
from viewkeeper.sql.parameters import Parameters, with_values
from viewkeeper.sql.tokens import Statement, split


def each_statement(
    text: str, run: Callable[[Statement], Result], parameters: Parameters | None = None
) -> Iterator[Result]:
    """The results of a text's statements, each run when its result is asked for; an error says which one it was."""
    bound = None if parameters is None else with_values(text, parameters)
    parts = split(text if bound is None else bound.text)
    for number, statement in enumerate(parts, start=1):
        try:
            result = _deep(run, statement)
        except ViewkeeperError as problem:
            problem.statement = (number, len(parts))
            if bound is not None:
                problem.place = bound.as_written(problem.place)
            raise
        yield result


def _deep(run: Callable[[Statement], Result], statement: Statement) -> Result:
    """Runs a statement; an error for one that is nested deeper than Python's stack."""
    try:
        return run(statement)
    except RecursionError:
        place = Place.at(statement.text, statement.start)
        raise SqlError("the statement is nested too deep", place=place, hint="define parts of it as views") from None


def last(results: Iterator[Result]) -> Result:
    """The last of some results; an empty one if there is none."""
    result = Result()
    for given in results:
        result = given
    return result
