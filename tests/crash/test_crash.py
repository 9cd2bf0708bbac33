"""A process killed at any step leaves a database that opens by itself, at the last commit it reported or the next."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

import viewkeeper as vk
from tests.crash import crash_work
from tests.inventory import check_ledger, check_nothing_left_over
from tests.marks import long
from tests.processes import child, clean_environment
from viewkeeper.log.failpoints import POINTS

SERIALS = 40


@dataclass(frozen=True)
class Death:
    """How a child ended: by which signal (0 for none), and what it said last."""

    signal: int
    acknowledged: int
    started: bool
    processes: tuple[int, ...]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Prepared databases: one with a few entries, one that is about to write its first snapshot."""
    root = tmp_path_factory.mktemp("templates")
    for name, entries in (("young", 9), ("old", 97)):
        crash_work.prepare(root / name, "sail", entries)
    return {name: root / name for name in ("young", "old")}


@pytest.fixture(scope="module")
def spark_templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A database made by Apache Spark."""
    root = tmp_path_factory.mktemp("spark")
    crash_work.prepare(root / "spark", "spark", 4)
    return {"spark": root / "spark"}


def start(path: Path, engine: str, fault: str | None, form: str) -> AbstractContextManager[subprocess.Popen[str]]:
    environment = {} if fault is None else {"VIEWKEEPER_FAULT": fault}
    return child(crash_work, path, engine, SERIALS, form, **environment)


def death_of(worker: subprocess.Popen[str], before: int, heard: str = "") -> Death:
    """Waits for the end of a child and reads what it said."""
    out, errors = worker.communicate(timeout=120)
    lines = (heard + out).splitlines()
    assert "failed" not in [line.split()[0] for line in lines], (lines, errors)
    assert worker.returncode in (0, -signal.SIGKILL), errors
    serials = [int(line) for line in lines if line.isdigit()]
    processes = [line.split()[2:] for line in lines if line.startswith("start")]
    return Death(
        signal=-worker.returncode,
        acknowledged=serials[-1] if serials else before,
        started=bool(processes),
        processes=tuple(int(number) for number in (processes[0] if processes else [])),
    )


def serial_at(path: Path, engine: str) -> int:
    with vk.connect(path, engine=engine) as db:
        return db.epoch - 1


def check_recovery(path: Path, engine: str, acknowledged: int, seed: int) -> int:
    """Opens the database, looks at everything, writes again and sweeps; the newest serial."""
    with vk.connect(path, engine=engine) as db:
        serial = db.epoch - 1
        assert serial in (acknowledged, acknowledged + 1)
        check_ledger(db)
        assert crash_work.contents(db) == crash_work.contents_after(serial)
        check_epochs(db, serial, seed)

        crash_work.commit_serial(db, serial + 1)
        db.vacuum(grace=0)
        check_nothing_left_over(db)
        db.compact()
        db.vacuum(grace=0)
        check_nothing_left_over(db)
        assert crash_work.contents(db) == crash_work.contents_after(serial + 1)
        check_epochs(db, serial + 1, seed)
        check_ledger(db)
    return serial + 1


def check_epochs(db: vk.Database, serial: int, seed: int) -> None:
    """Every epoch holds what it held: all of them by the files, a few by the engine too."""
    found = crash_work.contents_of_all_epochs(db)
    assert sorted(found) == list(range(1, serial + 2))
    for epoch, tables in found.items():
        assert tables == crash_work.contents_after(epoch - 1)
    for epoch in {1, serial, random.Random(seed).randint(1, serial + 1)}:
        assert crash_work.contents(db, epoch) == crash_work.contents_after(epoch - 1)


def kill_at(templates: dict[str, Path], place: Path, engine: str, point: str, times: int, form: str = "entry") -> None:
    """Lets a child die the n-th time it comes to a point; the child must really die there."""
    template = "spark" if engine == "spark" else "old" if point.startswith("snapshot") else "young"
    shutil.copytree(templates[template], place)
    before = serial_at(place, engine)
    with start(place, engine, f"kill:{point}:{times}", form) as worker:
        death = death_of(worker, before)
    assert death.signal == signal.SIGKILL, f"the child did not come to {point} {times} times"
    assert bool(death.processes) == (engine == "spark")
    for process in death.processes:
        wait_until_gone(process)
    check_recovery(place, engine, death.acknowledged, seed=times)
    shutil.rmtree(place)


def wait_until_gone(process: int) -> None:
    """A JVM ends by itself when its Python process is gone."""
    for _ in range(600):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        time.sleep(0.1)
    raise AssertionError(f"process {process} outlived the one it belonged to")


def kill_at_random(templates: dict[str, Path], place: Path, seed: int, kills: int) -> None:
    """Kills one child after the other at random moments, all on the same database."""
    chance = random.Random(seed)
    shutil.copytree(templates["old"], place)
    serial = serial_at(place, "sail")
    for _ in range(kills):
        with start(place, "sail", None, chance.choice(["entry", "entry", "files"])) as worker:
            assert worker.stdout is not None
            heard = worker.stdout.readline()
            time.sleep(chance.uniform(0.0, 0.8))
            worker.kill()
            death = death_of(worker, serial, heard)
        serial = check_recovery(place, "sail", death.acknowledged, chance.randrange(1000))
    shutil.rmtree(place)


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_point(templates: dict[str, Path], tmp_path: Path, point: str) -> None:
    """The third time it comes there, or where that would take long the first time."""
    kill_at(templates, tmp_path / "lake", "sail", point, 3 if point.startswith(("batch", "entry")) else 1)


@pytest.mark.parametrize(
    "point", [point for point in POINTS if point.startswith(("batch", "entry"))] + long("compact-written")
)
def test_killed_at_a_point_of_a_commit_with_files(templates: dict[str, Path], tmp_path: Path, point: str) -> None:
    kill_at(templates, tmp_path / "lake", "sail", point, 3, "files")


def test_killed_at_random_moments(templates: dict[str, Path], tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print("seed", seed)
    kill_at_random(templates, tmp_path / "lake", seed, kills=4)


@pytest.mark.parametrize("point", ["entry-written", *long("batch-half", "entry-linked")])
def test_killed_with_a_jvm(spark_templates: dict[str, Path], tmp_path: Path, point: str) -> None:
    kill_at(spark_templates, tmp_path / "lake", "spark", point, 2)


def test_killed_while_creating_a_database(tmp_path: Path) -> None:
    for point in ("entry-before", "entry-half", "entry-written", "entry-linked", "entry-synced"):
        place = tmp_path / point
        code = f"import viewkeeper; viewkeeper.connect({str(place)!r}, engine='sail')"
        environment = clean_environment(VIEWKEEPER_FAULT=f"kill:{point}")
        ended = subprocess.run([sys.executable, "-c", code], env=environment, check=False, timeout=120)
        assert ended.returncode == -signal.SIGKILL
        with vk.connect(place, engine="sail") as db:
            assert db.epoch == 0
            db.sql("CREATE TABLE t (x INT); INSERT INTO t VALUES (1)")
            db.vacuum(grace=0)
            check_nothing_left_over(db)
            assert db.sql("SELECT x FROM t").rows() == [(1,)]


@pytest.mark.long
@pytest.mark.parametrize("times", range(1, 11))
@pytest.mark.parametrize("point", [point for point in POINTS if not point.startswith("snapshot")])
def test_killed_at_a_point_many_times(templates: dict[str, Path], tmp_path: Path, point: str, times: int) -> None:
    form = "files" if point.startswith("batch") and times % 2 else "entry"
    kill_at(templates, tmp_path / "lake", "sail", point, times, form)


@pytest.mark.long
@pytest.mark.parametrize("series", range(12))
def test_killed_at_many_random_moments(templates: dict[str, Path], tmp_path: Path, series: int) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print("series", series, "seed", seed)
    kill_at_random(templates, tmp_path / "lake", seed, kills=10)


@pytest.mark.long
@pytest.mark.parametrize("point", ["batch-written", "batch-synced", "entry-before", "entry-synced", "compact-written"])
def test_killed_with_a_jvm_at_more_points(spark_templates: dict[str, Path], tmp_path: Path, point: str) -> None:
    kill_at(spark_templates, tmp_path / "lake", "spark", point, 3)
