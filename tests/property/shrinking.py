"""Failing cases made smaller, and written down as golden files."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import viewkeeper as vk
from tests.oracle import Oracle, difference, lines_of, transpiled
from tests.property.view_cases import Case, Statement
from tests.property.view_driver import EVERYTHING, Run
from tests.vkt import Batch, Script, View, write_script

FOUND = Path(__file__).parent.parent / "golden" / "found"

SHRINKING = 60.0
"""Seconds to spend on making a failing case smaller."""


class Shrinker:
    """Makes a failing case smaller by leaving things out, as long as it still fails."""

    def __init__(self, open_database: Callable[[], vk.Database], seconds: float = SHRINKING) -> None:
        self.open_database = open_database
        self.until = time.monotonic() + seconds
        self.tried = 0

    def fails(self, case: Case, name: str) -> bool:
        if time.monotonic() > self.until:
            return False
        self.tried += 1
        db = self.open_database()
        try:
            wrong = Run(db, case).run().wrong
        except Exception:
            return False
        finally:
            db.close()
        return bool(wrong) if name == EVERYTHING else name in wrong

    def shrink(self, case: Case, name: str) -> Case:
        case = self._one_view(case, name)
        case = self._fewer_transactions(case, name)
        case = self._fewer_statements(case, name)
        return self._fewer_rows(case, name)

    def _one_view(self, case: Case, name: str) -> Case:
        for candidate in [name] if name != EVERYTHING else [view.name for view in case.views]:
            smaller = replace(case, views=case.needed_by([candidate]))
            if self.fails(smaller, name):
                return smaller
        return case

    def _fewer_transactions(self, case: Case, name: str) -> Case:
        kept = list(case.transactions)
        size = len(kept)
        while size >= 1:
            start = len(kept) - size
            while start >= 0:
                shorter = [*kept[:start], *kept[start + size :]]
                if self.fails(replace(case, transactions=tuple(shorter)), name):
                    kept = shorter
                start -= size
            size //= 2
        return replace(case, transactions=tuple(kept))

    def _fewer_statements(self, case: Case, name: str) -> Case:
        for number in reversed(range(len(case.transactions))):
            for place in reversed(range(len(case.transactions[number]))):
                statements = list(case.transactions[number])
                del statements[place]
                transactions = [*case.transactions]
                transactions[number] = tuple(statements)
                smaller = replace(case, transactions=tuple(t for t in transactions if t))
                if self.fails(smaller, name):
                    case = smaller
        return case

    def _fewer_rows(self, case: Case, name: str) -> Case:
        groups = [case.first, *case.transactions]
        for number, group in enumerate(groups):
            for place, statement in enumerate(group):
                for row in reversed(range(len(statement.rows))):
                    current = groups[number][place]
                    if len(current.rows) < 2 and number > 0:
                        break
                    fewer = replace(current, rows=(*current.rows[:row], *current.rows[row + 1 :]))
                    changed = [*groups]
                    changed[number] = tuple(fewer if n == place else s for n, s in enumerate(groups[number]))
                    first = tuple(s for s in changed[0] if s.rows)
                    if self.fails(replace(case, first=first, transactions=tuple(changed[1:])), name):
                        groups = changed
        return replace(case, first=tuple(s for s in groups[0] if s.rows), transactions=tuple(groups[1:]))


def reproduction(case: Case, name: str, what: str, seed: int) -> str:
    """The case as a golden file."""
    used = {part for view in case.views for part in view.query.uses}
    tables = [table for table in case.tables if table.name in used or name == EVERYTHING]
    known = {table.name for table in tables}
    oracle = Oracle()
    setup = [table.ddl for table in tables]
    setup += [s.text for s in case.first if s.head.split()[2] in known]
    for text in setup:
        oracle.create_table(text) if text.startswith("CREATE TABLE") else oracle.run(text)
    script = Script(f"# Found by the property test, seed {seed}:\n# " + what.replace("\n", "\n# "), setup=setup)
    for view in case.views:
        script.views.append(View(view.name, view.query.text, None, view.virtual))
        oracle.create_view(view.name, transpiled(view.query.text))
    kept = [view.name for view in case.views if not view.virtual]
    before = {view: oracle.bag(view) for view in kept}
    for transaction in case.transactions:
        texts = [s.text for s in transaction if _target(s) in known]
        for text in texts:
            oracle.run(text)
        after = {view: oracle.bag(view) for view in kept}
        script.batches.append(Batch(texts, {v: lines_of(difference(after[v], before[v])) for v in kept}))
        before = after
    oracle.close()
    return write_script(script)


def _target(statement: Statement) -> str:
    words = statement.head.split()
    return words[1] if words[0] == "UPDATE" else words[2]


def keep_reproduction(case: Case, name: str, what: str, seed: int, open_database: Callable[[], vk.Database]) -> Path:
    """Shrinks a failing case and writes it into the golden files."""
    smaller = Shrinker(open_database).shrink(case, name)
    FOUND.mkdir(exist_ok=True)
    path = FOUND / f"seed_{seed}_{name.replace(' ', '_')}.vkt"
    path.write_text(reproduction(smaller, name, what, seed))
    return path
