"""The advisory lock on which writers queue: a thread can take it again, others wait, but not for ever."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from viewkeeper.errors import StorageError
from viewkeeper.log import storage
from viewkeeper.log.storage import LocalStorage


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStorage:
    monkeypatch.setattr(storage, "LOCK_SECONDS", 0.3)
    return LocalStorage(str(tmp_path), "process")


def test_the_holder_takes_it_again_at_once(place: LocalStorage) -> None:
    begun = time.monotonic()
    with place.lock("lock"), place.lock("lock"):
        pass
    assert time.monotonic() - begun < 0.3


def test_other_threads_of_a_handle_wait(place: LocalStorage) -> None:
    inside, most = [0], [0]

    def work() -> None:
        for _ in range(10):
            with place.lock("lock"):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.001)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_a_writer_goes_on_without_it_in_the_end(place: LocalStorage) -> None:
    other = LocalStorage(place.root, "process")
    with other.lock("lock"):
        begun = time.monotonic()
        with place.lock("lock"):
            waited = time.monotonic() - begun
    assert 0.3 <= waited < 3
    begun = time.monotonic()
    with place.lock("lock"):
        assert time.monotonic() - begun < 0.3


def test_a_place_that_cannot_have_it(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("")
    with (
        pytest.raises(StorageError, match=r"taking the write lock failed: .*"),
        LocalStorage(str(tmp_path / "lake"), "process").lock("lock"),
    ):
        pass
