"""Places that cannot be a database: said before anything is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import viewkeeper as vk
from viewkeeper.errors import StorageError


def refuse(path: Path | str) -> StorageError:
    with pytest.raises(StorageError) as caught:
        vk.connect(path, engine="sail")
    return caught.value


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    problem = refuse(tmp_path / "file")
    assert problem.message == f"{tmp_path}/file is a file, not a database"
    assert problem.hint == "give a directory"
    assert (tmp_path / "file").read_text() == "mine"


def test_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    problem = refuse(tmp_path / "file" / "lake")
    assert problem.message == (
        f"creating the database {tmp_path}/file/lake failed: Not a directory ({tmp_path}/file/lake)"
    )
    assert problem.hint == "a part of the path is a file; give a directory"


def test_a_directory_of_other_things(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    problem = refuse(tmp_path)
    assert problem.message == f"{tmp_path} is not a Viewkeeper database: it has files but no ledger"
    assert problem.hint == "give an empty or new directory, or the directory of a database"
    assert os.listdir(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize("letter", "*?[]{}")
def test_letters_that_engines_read_as_patterns(tmp_path: Path, letter: str) -> None:
    problem = refuse(f"{tmp_path}/a{letter}b")
    assert "has one of the letters * ? [ ] { }, which engines read as patterns" in problem.message
    assert problem.hint == "choose a directory name without them"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("place", ["/proc/viewkeeper/lake", "/sys/viewkeeper/lake"])
def test_a_place_where_nothing_can_be_made(place: str) -> None:
    problem = refuse(place)
    assert problem.message.startswith(f"creating the database {place} failed: ")
    assert problem.hint is not None
    assert "director" in problem.hint or "read-only" in problem.hint


def test_an_unknown_durability(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="there is no durability 'sometimes'") as caught:
        vk.connect(tmp_path / "lake", engine="sail", durability="sometimes")
    assert caught.value.hint == "use 'full' or 'process'"
    assert os.listdir(tmp_path) == []


def test_an_empty_directory_and_blanks_in_the_name_are_fine(tmp_path: Path) -> None:
    place = tmp_path / "my lake, ünï#1%20"
    place.mkdir()
    with vk.connect(place, engine="sail") as db:
        db.sql("CREATE TABLE t (x INT); INSERT INTO t VALUES (1)")
        assert db.sql("SELECT x FROM t").rows() == [(1,)]
