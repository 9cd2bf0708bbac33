"""The program as a user runs it: a process of its own, with pipes, a terminal and Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import QUICK_JVM

PROGRAM = os.path.join(os.path.dirname(sys.executable), "viewkeeper")
README = Path(__file__).resolve().parents[2] / "README.md"


def program(*arguments: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *arguments], capture_output=True, text=True, timeout=timeout, check=False,
        env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_spark_keeps_its_noise_to_itself() -> None:
    done = program("--engine", "spark", "sql", "CREATE TABLE t (id INT); INSERT INTO t VALUES (7); SELECT id FROM t")
    assert done.stdout == "id\n--\n 7\n"
    assert done.stderr == "epoch 1\nepoch 2, 1 row\n(1 row)\n"
    assert done.returncode == 0


def test_small_commands_import_no_engine() -> None:
    code = (
        "import sys, viewkeeper.cli; print([n for n in ('pyspark', 'pysail', 'pyarrow', 'pandas') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
    assert program("version").stdout.startswith("viewkeeper ")
    assert program("nonsense").returncode == 2
    assert program("ls").returncode == 1


def test_a_closed_pipe_ends_quietly() -> None:
    command = f"'{PROGRAM}' --engine sail sql 'CREATE TABLE t (id INT); SELECT id FROM range(300000)' | head -n 3"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == "epoch 1\n"


@pytest.mark.parametrize("seconds", [0.1, 3.0])
def test_ctrl_c_ends_quietly_and_soon(seconds: float) -> None:
    program("--engine", "sail", "sql", "CREATE TABLE t (id INT)")
    endless = "SELECT count(*) FROM range(400000) a JOIN range(400000) b ON sin(a.id) * b.id > 2e9"
    process = subprocess.Popen(
        [PROGRAM, "--engine", "sail", "sql", endless], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        while process.poll() is None and not (os.path.isdir("lake/leases") and os.listdir("lake/leases")):
            time.sleep(0.02)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert (out, err.strip(), process.returncode) == ("", "interrupted: what was not finished was not changed", 130)


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """What a terminal shows of stderr."""
    master, terminal = pty.openpty()
    with subprocess.Popen(
        [PROGRAM, *arguments], stdout=subprocess.DEVNULL, stderr=terminal, stdin=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm-256color", **environment},
    ) as process:  # fmt: skip
        os.close(terminal)
        shown = b""
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:
                break
            if not part:
                break
            shown += part
        os.close(master)
        process.wait(timeout=60)
    return shown.decode()


def test_a_terminal_gets_a_progress_bar_and_colour(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n2\n")
    shown = on_a_terminal("--engine", "sail", "load", "a", "a.csv", "--create")
    assert "loading a.csv into a (7 bytes)" in shown
    assert "2 rows loaded into a (epoch 1)" in shown
    assert "\x1b[1;31merror: \x1b[0m" in on_a_terminal("show", "b")
    plain = on_a_terminal("show", "b", NO_COLOR="1")
    assert "error: " in plain
    assert "[1;31m" not in plain
    assert "loading" not in program("--engine", "sail", "load", "a", "a.csv").stderr


DIFFERENCES = """
    revenue
    - (Africa, 124877, 625007828.77)
    + (Africa, 124876, 624997828.96)
    - (Asia, 124868, 624973641.98)
    + (Asia, 124869, 624973716.98)
    no_orders
    - (25000, Asia)
    + (25001, Europe)
    top_orders
    - (202567, 20590, 9999.81)
    + (208993, 14192, 9999.76)
    needs
    - (bike 17, axle 17)
    - (bike 17, hub 17)
    - (wheel 17, axle 17)
    - (wheel 17, hub 17)
"""


FIRED = """
    epoch 14; fired: remind
    no_orders
    + (25000, Asia)
    reminders
    + (25000, Asia)
"""

REFUSED = """
  > INSERT INTO parts VALUES ('spoke 17', 'bike 17');
    error: the assertion no_part_of_itself is violated
    detail: by (whole = '"""


SUBSCRIBED = """
  >>> frame = subscription.next()
    epoch 17
    largest
    - (Asia, 9999.78)
    + (Asia, 12000.00)
"""


@pytest.mark.spark_long
@pytest.mark.parametrize(("engine", "name"), [("sail", "Sail"), ("spark", "Apache Spark")])
def test_the_demo(tmp_path: Path, engine: str, name: str) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    compiled = {"PYSPARK_SUBMIT_ARGS": f"{QUICK_JVM} pyspark-shell"}  # half a million rows
    done = program("demo", "--engine", engine, TMPDIR=str(temporary), timeout=540, **compiled)
    assert done.returncode == 0, done.stderr
    for told in (
        f"== Viewkeeper, on {name} ==",
        "500,000 rows, epoch 5",
        DIFFERENCES,
        FIRED,
        "needs: 10 rows would be inserted\n    the assertion no_part_of_itself is violated by (whole = ",
        REFUSED,
        SUBSCRIBED,
        "revenue is maintained incrementally: its condition amount >= 10 became amount >= 5",
        "SELECT * FROM top_orders ORDER BY amount DESC AS OF EPOCH 10;",
        "no net effect: still epoch 18",
        "error: PRIMARY KEY (customer) of customers is broken",
        "error: FOREIGN KEY (customer) REFERENCES customers (customer) of orders is broken",
        "hint: did you mean 'orders'?",
        "8 files became 1; epoch 27 before, epoch 27 after",
        "Everything there is: viewkeeper --help",
    ):
        assert told in done.stdout
    for view, changed in (("revenue", 4), ("no_orders", 2), ("top_orders", 2), ("needs", 4)):
        assert re.search(rf"VERIFY VIEW {view};\n +equal, ", done.stdout)
        told = re.search(
            rf"^ +{view} +\| +{changed} \| (incremental|full) +\| [\d.]+ m?s +\| [\d.]+ m?s$", done.stdout, re.M
        )
        assert told is not None
        assert (
            engine == "spark" or told[1] == "incremental"
        )  # on Apache Spark, small tables can be cheaper to recompute
        assert re.search(rf"^ +{view}: \S", done.stdout, re.M)  # the reason
    assert "_vk_" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert f"seconds on {name}; its directory is deleted again." in done.stderr
    assert os.listdir(temporary) == []
    assert os.listdir(tmp_path) == ["tmp"]
    if engine == "sail":
        shown = without_times(done.stdout)
        assert [line for line in without_times(PICTURE) if line not in shown] == []


PICTURE = "".join(re.findall(r"```text\n(.*?)```", README.read_text(), re.DOTALL))


def without_times(text: str) -> list[str]:
    """Lines without the times in them, and without the spaces and rules that those make longer."""
    return [re.sub(r"[\d.]+ m?s\b|-{4,}|\s", "", line) for line in text.splitlines()]
