"""Tokens: who may read, write or administrate, which relations a token reaches, and the rows it is bound to."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from viewkeeper.server.http_problems import Problem

READ, WRITE, ADMIN = "read", "write", "admin"
RIGHTS = (READ, WRITE, ADMIN)
"""From the least to the most: each has those before it."""

PREFIX = "vk_"
"""What made tokens begin with, so that they are recognized where they must not stand."""


@dataclass(frozen=True)
class Grant:
    """A relation that a token reaches, and the condition that its rows have to fulfill."""

    view: str
    where: str | None = None


@dataclass(frozen=True)
class Access:
    """What the bearer of a token may do. Without `grants` it reaches all relations."""

    name: str
    rights: str
    grants: tuple[Grant, ...] | None = None

    def may(self, right: str) -> bool:
        """Whether the token has a right."""
        return RIGHTS.index(right) <= RIGHTS.index(self.rights)

    def need(self, right: str) -> None:
        """Raises unless the token has a right."""
        if not self.may(right):
            raise Problem(
                "forbidden",
                f"the token '{self.name}' has the right to {self.rights}, and this needs {right}",
                hint=f"use a token that was made with --rights {right}",
            )

    def need_everything(self, what: str) -> None:
        """Raises unless the token reaches all relations."""
        if self.grants is not None:
            raise Problem("not-granted", f"the token '{self.name}' reaches single relations, and {what} tells of all")

    def grant(self, name: str) -> Grant:
        """How the token reaches a relation; raises if it does not, whether or not there is one of that name."""
        if self.grants is None:
            return Grant(name)
        found = next((grant for grant in self.grants if grant.view.lower() == name.lower()), None)
        if found is None:
            raise Problem("not-granted", f"the token '{self.name}' does not reach a relation named '{name}'")
        return found

    def reaches(self, name: str) -> bool:
        """Whether the token reaches a relation, all of its rows or some."""
        return self.grants is None or any(grant.view.lower() == name.lower() for grant in self.grants)


@dataclass(frozen=True)
class StoredToken:
    """A token as it is stored: its hash, never itself."""

    hash: str
    access: Access
    created: float

    def to_json(self) -> dict[str, Any]:
        """For its file."""
        grants = self.access.grants
        return {
            "name": self.access.name,
            "hash": self.hash,
            "rights": self.access.rights,
            "grants": None if grants is None else [{"view": each.view, "where": each.where} for each in grants],
            "created": self.created,
        }

    @staticmethod
    def from_json(body: Mapping[str, Any]) -> StoredToken:
        """The inverse of to_json."""
        listed = body["grants"]
        grants = None if listed is None else tuple(Grant(each["view"], each.get("where")) for each in listed)
        if body["rights"] not in RIGHTS:
            raise ValueError(f"there is no right '{body['rights']}'")
        return StoredToken(body["hash"], Access(body["name"], body["rights"], grants), body["created"])


def new_token() -> str:
    """A token that nobody can guess: 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_of(token: str) -> str:
    """What is stored of a token. A fast hash is enough, because made tokens cannot be guessed."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def find_access(token: str, known: Iterable[StoredToken]) -> Access | None:
    """What the bearer of a token may do; None for a token that is not known. Takes equally long for every token."""
    wanted = hash_of(token)
    found: Access | None = None
    for each in known:
        if hmac.compare_digest(wanted, each.hash):
            found = each.access
    return found
