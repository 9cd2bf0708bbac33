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
"""

from __future__ import annotations

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
class Batch:
    statements: list[str]
    changes: dict[str, list[str]] = field(default_factory=dict)
    comment: str = ""


@dataclass
class Script:
    comment: str = ""
    permutable: bool = False
    setup: list[str] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)

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
                assert name in {view.name for view in script.kept}, f"{path.name}:{place}: no kept view {name}"
                script.batches[-1].changes[name] = sorted(lines[1:])
            case _:
                raise AssertionError(f"{path.name}:{place}: what is '{lines[0]}'?")
        comment = []
    assert script.views, f"{path.name} has no views"
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
    for batch in script.batches:
        head = f"{batch.comment}\n" if batch.comment else ""
        records.append(head + "batch\n" + "\n".join(f"{text};" for text in batch.statements))
        records += ["\n".join([f"change {name}", *lines]) for name, lines in batch.changes.items() if lines]
    return "\n\n".join(records) + "\n"


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
