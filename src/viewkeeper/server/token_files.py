"""Stored tokens: one file each, created exclusively, so that no two writers lose each other's."""

from __future__ import annotations

import json
import re
import time

from viewkeeper.errors import AlreadyExists, NotFound, SqlError, StorageError
from viewkeeper.log.storage import Storage, now
from viewkeeper.server.access_tokens import Access, StoredToken, hash_of, new_token

DIRECTORY = "tokens"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def create_token(storage: Storage, access: Access) -> str:
    """Makes and stores a token; returns it, for it is not stored itself."""
    if not _NAME.fullmatch(access.name):
        raise SqlError(
            f"'{access.name}' cannot be the name of a token", hint="use up to 64 letters, digits and the signs _ . -"
        )
    token = new_token()
    body = StoredToken(hash_of(token), access, now()).to_json()
    if not storage.create(_path(access.name), json.dumps(body).encode(), "token"):
        raise AlreadyExists(
            f"there is already a token named '{access.name}'", hint=f"viewkeeper token drop {access.name}"
        )
    return token


def stored_tokens(storage: Storage) -> list[StoredToken]:
    """The stored tokens by name. One whose file cannot be read is not a token."""
    found = []
    for name in storage.children(DIRECTORY):
        if name.startswith(".") or not name.endswith(".json"):
            continue
        data = storage.read(f"{DIRECTORY}/{name}")
        try:
            found.append(StoredToken.from_json(json.loads(data or b"")))
        except (ValueError, KeyError, TypeError):
            continue
    return found


def drop_token(storage: Storage, name: str) -> None:
    """Removes a token; servers refuse it within `LOOK_SECONDS`."""
    if not _NAME.fullmatch(name) or storage.read(_path(name)) is None:
        raise NotFound(f"there is no token named '{name}'", hint="viewkeeper token ls lists them")
    storage.delete([_path(name)])


def _path(name: str) -> str:
    return f"{DIRECTORY}/{name}.json"


LOOK_SECONDS = 1.0
"""How long a server trusts what it has read of the tokens."""

LOOK_FOR_NEW_SECONDS = 0.1
"""The same for a token that it does not know: it may have been made just now."""


class KnownTokens:
    """The tokens that a server accepts: its own, with admin rights, and the stored ones, read again every second."""

    def __init__(self, storage: Storage, own: str | None) -> None:
        self._storage = storage
        self._own = [] if own is None else [StoredToken(hash_of(own), Access("serve", "admin"), 0.0)]
        self._stored: list[StoredToken] = []
        self._read_at = -LOOK_SECONDS
        self._seen_any = False
        self.look()

    def look(self, after: float = LOOK_SECONDS) -> None:
        """Reads the stored tokens, unless that was done less than so many seconds ago. Blocks."""
        if self.age < after:
            return
        began = time.monotonic()
        try:
            self._stored = stored_tokens(self._storage)
        except StorageError:
            self._stored = []  # none of them is accepted while it is not known whether it was dropped
            self._seen_any = True
        self._read_at = began
        self._seen_any = self._seen_any or bool(self._own or self._stored)

    @property
    def age(self) -> float:
        """Seconds since the stored tokens were read."""
        return time.monotonic() - self._read_at

    @property
    def is_stale(self) -> bool:
        """Whether it is time to look."""
        return self.age >= LOOK_SECONDS

    @property
    def known(self) -> list[StoredToken]:
        """The tokens that are accepted."""
        return [*self._own, *self._stored]

    @property
    def needed(self) -> bool:
        """Whether calls need a token: from the first one that there ever was on."""
        return self._seen_any
