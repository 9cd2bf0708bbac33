"""Every golden file, as written and in other portions. VKT_COMPLETE=1 rewrites the expected changes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import viewkeeper as vk
from tests.golden.runner import (
    FORMS,
    all_ways,
    complete,
    completed,
    golden_files,
    merged_alone,
    run_as_written,
    run_in_other_ways,
    run_merged,
)
from tests.vkt import read_script, write_script

FILES = list(golden_files())
NAMES = [path.stem for path in FILES]
SAMPLE = sorted(("inner_join", "not_in_nulls", "group_by_linear", "min_max", "intersect_except", "window_rank"))
"""One file per class of laws, in all forms and portions in the normal run."""

MERGED = [path for number, path in enumerate(FILES) if number % 3 == 0 or path.stem in SAMPLE]
"""Every third file comes in one transaction as well in the normal run; in the long form all come in all portions."""

ON_SPARK = sorted(("inner_join", "not_in_nulls", "group_by_linear", "min_max", "window_rank"))
"""A view costs a second or more on Spark, so all the others run there in the long form."""

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark")


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_expected_changes_are_those_of_duckdb(path: Path) -> None:
    if os.environ.get("VKT_COMPLETE"):
        complete(path)
    script = read_script(path)
    assert write_script(completed(script)) == write_script(script)


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_as_written(connect: Callable[..., vk.Database], path: Path) -> None:
    run_as_written(connect, read_script(path), FORMS if path.stem in SAMPLE else ("",))


@pytest.mark.long
@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_as_written_in_all_forms(connect: Callable[..., vk.Database], path: Path) -> None:
    run_as_written(connect, read_script(path))


@pytest.mark.usefixtures("every_change_is_checked")
@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("path", MERGED, ids=[path.stem for path in MERGED])
def test_in_other_portions(connect: Callable[..., vk.Database], path: Path) -> None:
    run_in_other_ways(connect, read_script(path), all_ways if path.stem in SAMPLE else merged_alone)


@pytest.mark.long
@pytest.mark.usefixtures("every_change_is_checked")
@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_in_all_other_portions(connect: Callable[..., vk.Database], path: Path) -> None:
    run_in_other_ways(connect, read_script(path), all_ways)


@pytest.mark.parametrize("engine", ["spark"], indirect=True)
@pytest.mark.parametrize("path", [path for path in FILES if path.stem in ON_SPARK], ids=ON_SPARK)
def test_merged_on_spark(connect: Callable[..., vk.Database], path: Path) -> None:
    run_merged(connect, read_script(path))


@pytest.mark.long
@pytest.mark.parametrize("engine", ["spark"], indirect=True)
@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_as_written_on_spark(connect: Callable[..., vk.Database], path: Path) -> None:
    run_as_written(connect, read_script(path))
