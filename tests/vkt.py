"""Golden files (.vkt): sqllogictest with changes.

Records are separated by empty lines, `#` begins a comment line.

    permutable                      the batches give the same end in any order

    table                           CREATE TABLE ..., or a statement that fills one before the views are there
    CREATE TABLE r (a INT)

    view v [virtual] [unbound]      a view; `virtual`: CREATE VIEW in every run; `unbound`: refresh = 'incremental' is
    SELECT a FROM r                 refused for it, because a change would have to read everything

    oracle v                        DuckDB's text of the view, where it is not the same SQL; `none` where it has none
    SELECT a FROM r

    batch                           one transaction: statements, each ending its line with a semicolon
    INSERT INTO r VALUES (1);

    change v                        the net change of v in the batch above: weight | value | value ...
    +1 | 1                          (a view without a record is not changed by the batch)

A file with active rules or assertions has more kinds of records, and changes of tables as well: DuckDB knows no rules,
so its tables follow those changes instead of the statements.

    rule                            CREATE RULE ..., made after the views
    CREATE RULE r ON v DO INSERT INTO log SELECT a FROM inserted

    assertion                       CREATE ASSERTION ...
    CREATE ASSERTION a CHECK (NOT EXISTS (SELECT a FROM v WHERE a > 9))

    fired r [values of parameters]  a firing in the batch above, in order: transition table | value | value ...
    inserted | 1                    (FOR EACH ROW: one record for each row; a batch without a record fires nothing)

    refused                         the batch above is refused: message, and detail if there is one
    the assertion a is violated
    by (a = 10)

    warned                          the batch above commits with this warning
    the assertion a is violated: by (a = 10)

    merged                          all batches above as one transaction; its own expectation follows
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.oracle import transpiled


@dataclass
class View:
    name: str
    query: str
    oracle: str | None
    virtual: bool = False
    unbound: bool = False
    own_oracle: bool = False


@dataclass
class Fired:
    """A firing: the rule with the values of its parameters, and the rows of its transition tables."""

    rule: str
    rows: list[str]


@dataclass
class Batch:
    statements: list[str]
    changes: dict[str, list[str]] = field(default_factory=dict)
    comment: str = ""
    fired: list[Fired] = field(default_factory=list)
    refused: str = ""
    warned: list[str] = field(default_factory=list)


@dataclass
class Script:
    comment: str = ""
    permutable: bool = False
    setup: list[str] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    rules: list[tuple[str, str]] = field(default_factory=list)
    merged: Batch | None = None

    @property
    def tables(self) -> list[str]:
        """The names of the tables."""
        found = (re.match(r"\s*CREATE\s+TABLE\s+(\w+)", text, re.IGNORECASE) for text in self.setup)
        return [match[1] for match in found if match]

    @property
    def last(self) -> Batch:
        """The batch that the records being read belong to."""
        return self.merged or self.batches[-1]

    @property
    def kept(self) -> list[View]:
        """The views whose changes are reported."""
        return [view for view in self.views if not view.virtual]


def read_script(path: Path) -> Script:
    """Parses a golden file."""
    script = Script()
    comment: list[str] = []
    for place, lines in _records(path.read_text()):
        while lines and lines[0].startswith("#"):
            comment.append(lines.pop(0))
        if not lines:
            if not script.setup:
                script.comment, comment = "\n".join(comment), []
            continue
        words, body = lines[0].split(), "\n".join(lines[1:])
        match words:
            case ["permutable"]:
                script.permutable = True
            case ["table"]:
                script.setup.append(body.rstrip(";"))
            case ["view", name, *options]:
                strange = {*options} - {"virtual", "unbound"}
                assert not strange, f"{path.name}:{place}: no such option of a view: {strange}"
                script.views.append(View(name, body, transpiled(body), "virtual" in options, "unbound" in options))
            case ["oracle", name]:
                view = next(view for view in script.views if view.name == name)
                view.oracle, view.own_oracle = (None if body.strip() == "none" else body), True
            case ["batch"]:
                script.batches.append(Batch(_statements(lines[1:]), comment="\n".join(comment)))
            case ["change", name]:
                known = {view.name for view in script.kept} | {*(script.tables if script.rules else ())}
                assert name in known, f"{path.name}:{place}: no kept view {name}"
                script.last.changes[name] = sorted(lines[1:])
            case ["rule" | "assertion" as kind]:
                script.rules.append((kind, body.rstrip(";")))
            case ["fired", *rule]:
                script.last.fired.append(Fired(" ".join(rule), sorted(lines[1:])))
            case ["refused"]:
                script.last.refused = body
            case ["warned"]:
                script.last.warned.append(body)
            case ["merged"]:
                every = [text for batch in script.batches for text in batch.statements]
                script.merged = Batch(every, comment="\n".join(comment))
            case _:
                raise AssertionError(f"{path.name}:{place}: what is '{lines[0]}'?")
        comment = []
    assert script.views or script.rules, f"{path.name} has no views"
    return script


def write_script(script: Script) -> str:
    """The text of a golden file."""
    records = [script.comment] if script.comment else []
    if script.permutable:
        records.append("permutable")
    records += [f"table\n{text}" for text in script.setup]
    for view in script.views:
        options = (" virtual" if view.virtual else "") + (" unbound" if view.unbound else "")
        records.append(f"view {view.name}{options}\n{view.query}")
        if view.own_oracle:
            records.append(f"oracle {view.name}\n{view.oracle or 'none'}")
    records += [f"{kind}\n{text}" for kind, text in script.rules]
    for batch in script.batches:
        head = f"{batch.comment}\n" if batch.comment else ""
        records.append(head + "batch\n" + "\n".join(f"{text};" for text in batch.statements))
        records += _expected(batch)
    if script.merged is not None:
        records.append((f"{script.merged.comment}\n" if script.merged.comment else "") + "merged")
        records += _expected(script.merged)
    return "\n\n".join(records) + "\n"


def _expected(batch: Batch) -> list[str]:
    """The records after a batch."""
    records = ["\n".join([f"fired {firing.rule}", *firing.rows]) for firing in batch.fired]
    records += [f"refused\n{batch.refused}"] if batch.refused else []
    records += [f"warned\n{text}" for text in batch.warned]
    return records + ["\n".join([f"change {name}", *lines]) for name, lines in batch.changes.items() if lines]


def _records(text: str) -> list[tuple[int, list[str]]]:
    found: list[tuple[int, list[str]]] = []
    current: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            current.append(line.rstrip())
        elif current:
            found.append((number - len(current), current))
            current = []
    if current:
        found.append((len(text.splitlines()) - len(current) + 1, current))
    return found


def _statements(lines: list[str]) -> list[str]:
    statements: list[str] = []
    current: list[str] = []
    for line in lines:
        current.append(line.removesuffix(";"))
        if line.endswith(";"):
            statements.append("\n".join(current))
            current = []
    if current:
        statements.append("\n".join(current))
    return statements
