"""Makes `src/viewkeeper/sql/sail_agreement.txt` and the table in `docs/engines.md`: which calls agree on both engines.

Run by hand: `python -m tests.sql.function_agreement [DIRECTORY]`. What Apache Spark says is kept in the
directory, so that a run can be taken up again. It takes about half an hour on two cores.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.sql.agreement import calls, compare, merge
from tests.sql.agreement.calls import Case
from tests.sql.agreement.compare import Verdict
from tests.sql.agreement.oracle import Answer
from tests.sql.agreement.product import Sail
from viewkeeper.sql.context import Context
from viewkeeper.sql.sail_agreement import AGREES, DIFFERS, FAILS, MISSING, NEARLY, Compared

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "src" / "viewkeeper" / "sql" / "sail_agreement.txt"
DOCS = ROOT / "docs" / "engines.md"
START, END = "<!-- made by tests/sql/function_agreement.py -->", "<!-- end -->"

TOGETHER = 16

Question = tuple[Case, str, str]
"""A call, what Apache Spark is asked, and what the product is asked."""


def questions() -> list[Question]:
    """Aggregates, windows and generators as queries."""
    tail = "AS v FROM nasty GROUP BY g"
    made = [(a.case, f"SELECT g, {a.oracle} {tail}", f"SELECT g, {a.case.text} {tail}") for a in calls.aggregates()]
    tail = "AS v FROM nasty"
    made += [(c, f"SELECT id, {c.oracle or c.text} {tail}", f"SELECT id, {c.text} {tail}") for c in calls.windows()]
    return made + [(c, text, text) for c in calls.generators() for text in [f"SELECT id, {c.text} FROM nasty"]]


def documented(work: Path) -> tuple[dict[str, str], set[str]]:
    """The examples of Apache Spark's documentation, and the names of its functions."""
    kept = work / "documented.json"
    if not kept.exists():
        import spark_examples as se

        kept.write_text(json.dumps([se.examples(), sorted(se.descriptions())]))
    examples, names = json.loads(kept.read_text())
    return examples, set(names)


def spark_answers(work: Path, scalars: Sequence[str], queries: Sequence[str]) -> dict[str, dict[str, Answer]]:
    """What Apache Spark says, asked in a process of its own."""
    asked, answered = (work.resolve() / name for name in ("asked.pickle", "answered.pickle"))
    asked.write_bytes(pickle.dumps({"scalars": list(scalars), "queries": list(queries)}))
    command = [sys.executable, "-m", "tests.sql.agreement.oracle", str(asked), str(answered)]
    apart = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    subprocess.run(command, cwd=ROOT, check=True, env=apart)
    return known_answers(work)


def known_answers(work: Path) -> dict[str, dict[str, Answer]]:
    """What Apache Spark has said so far."""
    kept = pickle.loads((work / "answered.pickle").read_bytes())
    return {part: {text: Answer(**answer) for text, answer in answers.items()} for part, answers in kept.items()}


def verdicts(
    sail: Sail, scalars: Iterable[Case], asked: Iterable[Question], answers: dict[str, dict[str, Answer]]
) -> Iterator[tuple[Case, Verdict]]:
    """A verdict on each call that Apache Spark accepts."""
    known = answers["scalars"]
    accepted = [case for case in scalars if case.text in known and known[case.text].type]
    accepted.sort(key=lambda case: any(map(compare.raised, known[case.text].values)))
    for start in range(0, len(accepted), TOGETHER):
        some = accepted[start : start + TOGETHER]
        yield from zip(some, compare.scalars(sail, [(c.name, c.text, known[c.text]) for c in some]), strict=True)
    for case, spark, product in asked:
        answer = answers["queries"].get(spark)
        if answer is not None and answer.type:
            yield case, compare.rows(sail, case.name, product, answer)


def compared(work: Path) -> list[Compared]:
    """The lines of the table, found again."""
    examples, names = documented(work)
    scalars, asked = list(calls.scalars(examples, names)), questions()
    answers = spark_answers(work, [case.text for case in scalars], [spark for _, spark, _ in asked])
    return merge.lines(verdicts(Sail(), scalars, asked, answers))


def main() -> None:
    work = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    Context.refuses = False
    lines = compared(work)
    TABLE.write_text("\n".join(merge.as_text(lines)) + "\n")
    DOCS.write_text(with_table(DOCS.read_text(), lines))


# documentation ------------------------------------------------------------------------------------


def with_table(page: str, lines: Sequence[Compared]) -> str:
    """The page with a new table between its marks."""
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{documentation(lines)}\n{END}{after}"


def documentation(lines: Sequence[Compared]) -> str:
    """What the page says: what is refused, what may fail, what agrees."""
    counts = {
        outcome: sum(line.outcome == outcome for line in lines) for outcome in (AGREES, NEARLY, DIFFERS, FAILS, MISSING)
    }
    made = [
        f"{len(lines)} signatures of {len({line.name for line in lines})} functions and operators were compared: "
        f"{counts[AGREES]} agree, {counts[NEARLY]} agree up to the last digits of floats, {counts[FAILS]} raise on "
        f"Sail for some value that Apache Spark takes, {counts[DIFFERS]} give something else and {counts[MISSING]} "
        "are not there. The last two are refused.",
        "",
        "| refused on Sail | arguments | for instance: Apache Spark \\| Sail |",
        "|---|---|---|",
    ]
    made += [
        f"| {_code(f'{_shown(line)}')} | {_arguments(line)} | {_cell(line.example)} |"
        for line in lines
        if line.outcome == DIFFERS and not _is_operator(line)
    ]
    made += [
        "",
        "Not refused, because what is compared differs and not the views: Apache Spark's interpreter, which is asked, "
        "rounds the negative of a decimal to 34 digits, its compiled plans do not; fields of NULL structs are right in "
        "rows that are stored.",
        "",
        "| operator | arguments | for instance: Apache Spark \\| Sail |",
        "|---|---|---|",
    ]
    made += [
        f"| {_code(_shown(line))} | {_arguments(line)} | {_cell(line.example)} |"
        for line in lines
        if line.outcome == DIFFERS and _is_operator(line)
    ]
    made += [
        "",
        "Raises on Sail for some value:",
        "",
        "| function | arguments | for instance: Apache Spark \\| Sail |",
        "|---|---|---|",
    ]
    made += [
        f"| {_code(_shown(line))} | {_arguments(line)} | {_cell(line.example)} |"
        for line in lines
        if line.outcome == FAILS
    ]
    missing = {_shown(line) for line in lines if line.outcome == MISSING}
    made += [
        "",
        "Not on Sail for some types of arguments: " + ", ".join(_code(name) for name in sorted(missing)) + ".",
        "",
    ]
    good = {_shown(line) for line in lines} - {_shown(line) for line in lines if line.outcome not in (AGREES, NEARLY)}
    made += ["Agree for all that was compared: " + ", ".join(_code(name) for name in sorted(good)) + ".", ""]
    return "\n".join(made)


def _is_operator(line: Compared) -> bool:
    return line.kind == "scalar" and line.name in ("-", ".", "[]")


def _shown(line: Compared) -> str:
    return f"{line.name} OVER" if line.kind == "window" else line.name


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _arguments(line: Compared) -> str:
    return ", ".join(_cell(part.lstrip("=#")) for part in line.arguments)


def _cell(text: str) -> str:
    return (
        text.replace("\\", "\\\\")
        .replace("|", "\\|")
        .replace("<", "&lt;")
        .replace("*", "\\*")
        .replace("_", "\\_")
        .replace("`", "'")
    )


if __name__ == "__main__":
    main()
