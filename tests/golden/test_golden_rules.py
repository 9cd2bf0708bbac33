"""Every golden file with rules: as written with its views kept in each way, and merged. VKT_COMPLETE=1 rewrites it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import viewkeeper as vk
from tests.golden.rule_runner import (
    KEPT,
    complete_rules,
    completed_by_tables,
    rule_files,
    run_merged_with_rules,
    run_with_rules,
    text_of_script,
)
from tests.marks import long
from tests.vkt import read_script

FILES = rule_files()
NAMES = [path.stem for path in FILES]
MERGED = [path for path in FILES if read_script(path).merged is not None]
ON_SPARK = ["updates_by_key"]
"""A rule costs a second or more on Spark, so all the others run there in the long form."""

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark")


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_expected_changes_of_views_are_those_of_duckdb(path: Path) -> None:
    script = read_script(path)
    assert text_of_script(completed_by_tables(script)) == text_of_script(script)


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("kept", ["incremental", *long("full"), "virtual"])
@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_with_rules(connect: Callable[..., vk.Database], path: Path, kept: str) -> None:
    if os.environ.get("VKT_COMPLETE") and kept == KEPT[0]:
        complete_rules(lambda name, **options: connect(f"complete_{name}", **options), path)
    script = read_script(path)
    assert text_of_script(run_with_rules(connect, script, kept)) == text_of_script(script)


@pytest.mark.parametrize("engine", ["sail"], indirect=True)
@pytest.mark.parametrize("path", MERGED, ids=[path.stem for path in MERGED])
def test_merged_with_rules(connect: Callable[..., vk.Database], path: Path) -> None:
    script = read_script(path)
    assert text_of_script(run_merged_with_rules(connect, script)) == text_of_script(script)


@pytest.mark.parametrize("engine", ["spark"], indirect=True)
@pytest.mark.parametrize("path", [path for path in FILES if path.stem in ON_SPARK], ids=ON_SPARK)
def test_with_rules_on_spark(connect: Callable[..., vk.Database], path: Path) -> None:
    script = read_script(path)
    assert text_of_script(run_with_rules(connect, script, "incremental")) == text_of_script(script)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["spark"], indirect=True)
@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_with_all_rules_on_spark(connect: Callable[..., vk.Database], path: Path, kept: str) -> None:
    script = read_script(path)
    assert text_of_script(run_with_rules(connect, script, kept)) == text_of_script(script)
    if kept == KEPT[0]:
        assert text_of_script(run_merged_with_rules(connect, script)) == text_of_script(script)
