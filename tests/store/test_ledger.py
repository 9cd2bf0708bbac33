"""The ledger under repeated and crossing writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import viewkeeper as vk
from viewkeeper.log.ledger import Ledger
from viewkeeper.log.storage import LocalStorage


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., vk.Database]:
    """Opens one database several times."""
    return lambda **options: vk.connect(tmp_path / "lake", engine="sail", **options)


def test_a_create_that_succeeded_but_was_answered_with_a_loss(
    opened: Callable[..., vk.Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object-store client that repeats a conditional put is told that the path exists: by its own first try."""
    create = LocalStorage.create

    def repeated(self: LocalStorage, path: str, data: bytes, mark: str) -> bool:
        create(self, path, data, mark)
        return create(self, path, data, mark)

    with opened() as db:
        db.sql("CREATE TABLE t (a INT)")
        monkeypatch.setattr(LocalStorage, "create", repeated)
        with db.transaction() as tx:
            tx.insert("t", [(1,)])
        assert tx.commit_info is not None
        assert tx.commit_info.epoch == 2
        assert db.epoch == 2
        assert db.sql("SELECT a FROM t").rows() == [(1,)]


def test_two_vacuums_forget_a_table_once(opened: Callable[..., vk.Database], monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(keep="0 seconds") as one, opened() as other:
        one.sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1); DROP TABLE t; CREATE TABLE u (a INT)")
        append = Ledger.append
        crossed: list[bool] = []

        def cross(self: Ledger, state: Any, entry: dict[str, Any]) -> Any:
            if not crossed:
                crossed.append(True)
                assert other.vacuum(grace=0).relations == ("t",)
            return append(self, state, entry)

        monkeypatch.setattr(Ledger, "append", cross)
        assert one.vacuum(grace=0).relations == ()
    with opened() as again:
        assert [row["name"] for row in again.ls()] == ["u"]
