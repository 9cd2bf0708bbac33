"""What a person types in the shell: when a statement is complete, and what can follow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from viewkeeper.errors import SqlError
from viewkeeper.sql.tokens import are_whole

if TYPE_CHECKING:
    from viewkeeper.catalog.state import State

WORDS = """
ADD ALTER ALL AND AS ASSERTION AVG BEGIN BETWEEN BY CASE CAST CHECK COLUMN COMMIT COUNT CREATE CROSS DELETE DESC
DESCRIBE DISTINCT DROP ELSE END EPOCH EXCEPT EXISTS EXPLAIN FROM FULL GROUP HAVING IN INNER INSERT INTERSECT INTO IS
JOIN KEY LEFT LIKE LIMIT MATERIALIZED MAX MERGE MIN NOT NULL ON OR ORDER OVER PARTITION PRIMARY RECURSIVE REFRESH RIGHT
ROLLBACK RULE SELECT SET SHOW SUBSCRIBE SUM TABLE TABLES THEN TRUNCATE UNION UPDATE VALUES VERIFY VIEW VIEWS WHEN WHERE
WITH
"""


def is_complete(text: str) -> bool:
    """Whether what was typed so far can be run: a command with a dot, or statements up to a semicolon."""
    if not text.strip() or text.lstrip().startswith("."):
        return True
    try:
        return are_whole(text)
    except SqlError:  # a quote or comment is still open
        return False


class Names(Completer):
    """Completes the words of SQL, the names in the database, and the commands of the shell."""

    def __init__(self, state: Callable[[], State], commands: Sequence[str]) -> None:
        self._state = state
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What the word before the cursor can become."""
        before = document.text_before_cursor
        if before.startswith(".") and " " not in before:
            yield from (Completion(each, -len(before)) for each in self._commands if each.startswith(before))
            return
        word = document.get_word_before_cursor()
        if not word:
            return
        for name, kind in self._names().items():
            if name.lower().startswith(word.lower()):
                yield Completion(name, -len(word), display_meta=kind)
        for each in WORDS.split():
            if each.startswith(word.upper()):
                yield Completion(each if word.isupper() else each.lower(), -len(word))

    def _names(self) -> dict[str, str]:
        """Relations and columns, each with what it is."""
        found: dict[str, str] = {}
        shown = [relation for relation in self._state().alive() if not relation.is_hidden]
        for relation in shown:
            found[relation.name] = relation.kind
        for relation in shown:
            for column in relation.schema:
                found.setdefault(column.name, f"{column.type} of {relation.name}")
        return found


def prompt_session(state: Callable[[], State], commands: Sequence[str]) -> PromptSession[str]:
    """Where statements are typed, with a history over sessions."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    place = os.environ.get("VIEWKEEPER_HISTORY", os.path.expanduser("~/.viewkeeper_history"))
    return PromptSession(
        history=FileHistory(place) if place else InMemoryHistory(),
        completer=Names(state, commands),
        complete_while_typing=False,
        auto_suggest=AutoSuggestFromHistory(),
        multiline=True,
        prompt_continuation="   ... ",
        key_bindings=keys,
        enable_history_search=True,
    )
