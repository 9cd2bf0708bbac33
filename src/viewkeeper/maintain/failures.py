"""Errors for views that cannot be maintained: they name the view, repeat the problem, and hint at a statement."""

from __future__ import annotations

from collections.abc import Iterable

from viewkeeper.algebra.types import spelled
from viewkeeper.catalog.display_names import needed_by
from viewkeeper.catalog.relations import Auxiliary, Derived, Relation, VirtualView
from viewkeeper.errors import InternalError, ViewkeeperError
from viewkeeper.maintain.situation import Situation


def known_as(everything: Iterable[Relation], relation: Derived) -> str:
    """A view's name; for an auxiliary relation, the names of the views that need it."""
    return ", ".join(user.name for user in _owners(everything, relation))


def _owners(everything: Iterable[Relation], relation: Derived) -> list[Derived]:
    """The views that a stored relation belongs to: itself, or those that need it."""
    if not isinstance(relation, Auxiliary):
        return [relation]
    return needed_by(everything, relation) or [relation]


def complaint_of(problem: BaseException) -> str:
    """The message of an error, in one line; with its class if it is not one of ours."""
    if isinstance(problem, ViewkeeperError):
        return problem.message
    lines = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {lines[0][:300]}" if lines else type(problem).__name__


def maintenance_failure(tx: Situation, relation: Derived, problem: Exception) -> ViewkeeperError:
    """The error of a commit that failed in one view. It has the problem's class; nothing was committed."""
    failure = _failure(tx, relation, problem)
    failure.view = known_as(tx.alive(), relation)
    return failure


def _failure(tx: Situation, relation: Derived, problem: Exception) -> ViewkeeperError:
    kind = type(problem) if isinstance(problem, ViewkeeperError) else InternalError
    hint = problem.hint if isinstance(problem, ViewkeeperError) else None
    place = problem.place if isinstance(problem, ViewkeeperError) else None
    owners = _owners(tx.alive(), relation)
    names = ", ".join(owner.name for owner in owners)
    if relation.id in tx.to_load or relation.id in tx.redefined:
        said = problem.detail if isinstance(problem, ViewkeeperError) else None
        return kind(complaint_of(problem), detail=said or f"while computing {names}", hint=hint, place=place)
    detail = "; ".join(filter(None, [complaint_of(problem), _detail(problem)]))
    if relation.id in tx.refreshing and not _is_late(owners):
        stays = "it stays suspended" if any(owner.definition.suspended for owner in owners) else ""
        hint = "; ".join(filter(None, [hint, stays])) or None
        return kind(f"{names} cannot be refreshed, so nothing was committed", detail=detail, hint=hint, place=place)
    hint = "; or ".join(filter(None, [hint, _way_out(owners)]))
    return kind(f"{names} cannot be maintained, so nothing was committed", detail=detail, hint=hint, place=place)


def _detail(problem: BaseException) -> str | None:
    said = problem.detail if isinstance(problem, ViewkeeperError) else None
    return None if said == "nothing was changed" else said


def _is_late(owners: list[Derived]) -> bool:
    """Whether a commit may have refreshed the views because of their lag, not because of REFRESH."""
    return all(owner.definition.lag is not None and not owner.definition.suspended for owner in owners)


def _way_out(owners: list[Derived]) -> str:
    """Statements after which the tables can change without the views."""
    materialized = [owner for owner in owners if not isinstance(owner, VirtualView)]
    stored = [f"ALTER MATERIALIZED VIEW {spelled(owner.name)} SUSPEND;" for owner in materialized]
    virtual = [
        f"ALTER VIEW {spelled(owner.name)} WITH (auxiliary = false) AS {owner.definition.sql};"
        for owner in owners
        if isinstance(owner, VirtualView)
    ]
    return f"{' '.join([*stored, *virtual])} lets the tables change without it"
