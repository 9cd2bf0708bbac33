"""Compares small commits with those of another commit: `python benchmarks/beside_commit.py --commit SHA`.

"old" is that commit, "new" this checkout. Each loads the same TPC-H tables and the five views of peers.py in a process
of its own, and both take turns in one run: ten orders inserted here, then there, then ten deleted here and
there. Who is first changes every round, so that other work on the machine meets both. A side that has housekeeping
waits for it after each commit, and that is counted apart; merges of small files are counted by where they ran.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import viewkeeper as vk
from peer_systems import Viewkeeper
from peers import VIEWS
from tpch_orders import ROOT, OrderChanges, data_directory, generate, with_single_orders
from tpch_schema import ORDER
from viewkeeper.store import compaction

GIT = ["git", "-C", str(ROOT.parent)]
ORDERS = 10
KINDS = {"insert": (ORDERS, 0), "delete": (0, ORDERS)}


def serve(engine: str, data: Path, where: Path) -> None:
    """One side: makes the views, then does what each line says and answers with what that took."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what an engine prints is no answer
    merges = watch_merges()
    system, changes = Viewkeeper(where, engine), OrderChanges(data)
    system.load({name: data / f"{name}.parquet" for name in ORDER} | {"orders": with_single_orders(data)})
    system.create(VIEWS)
    housekeeping = getattr(system.db._store, "housekeeping", None)
    print(json.dumps({"source": vk.__file__}), file=answers)
    for line in sys.stdin:
        merges.clear()
        took, _ = system.apply(changes.draw(*KINDS[line.strip()]))
        began = time.perf_counter()
        if housekeeping is not None:
            housekeeping.wait()
        waited = time.perf_counter() - began
        print(json.dumps({"took": took * 1000, "waited": waited * 1000, "merges": merges}), file=answers)
    system.close()


def watch_merges() -> list[tuple[bool, float]]:
    """For each merge of small files from now on: whether the thread that commits did it, and how long it took."""
    seen: list[tuple[bool, float]] = []
    replace = compaction._replace

    def watched(*given: Any) -> Any:
        began = time.perf_counter()
        done = replace(*given)
        seen.append((threading.current_thread() is threading.main_thread(), (time.perf_counter() - began) * 1000))
        return done

    compaction._replace = watched
    return seen


class Side:
    """A process that works with the sources of one of the two commits."""

    def __init__(self, tree: Path, where: Path, options: argparse.Namespace, stack: contextlib.ExitStack) -> None:
        command = [sys.executable, __file__, "--engine", options.engine, "--data", options.data, "--serve", where]
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = stack.enter_context(subprocess.Popen(command, env=environment, text=True, bufsize=1, **pipes))
        self.answers: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
        source = self._answer()["source"]
        assert Path(source).is_relative_to(tree), source

    def run(self, kind: str) -> None:
        self.process.stdin.write(kind + "\n")
        self.answers[kind].append(self._answer())

    def _answer(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("one of the two processes ended early")
        return json.loads(line)


def compare(old: Side, new: Side, rounds: int) -> None:
    for turn in range(rounds + 2):
        for kind in KINDS:
            for side in (old, new) if turn % 2 else (new, old):
                side.run(kind)
    for kind in KINDS:
        before, after = ([answer["took"] for answer in side.answers[kind][2:]] for side in (old, new))  # 2 warm up
        was, now = statistics.median(before), statistics.median(after)
        low, middle, high = statistics.quantiles([b / a for a, b in zip(before, after, strict=True)], n=4)
        print(f"  {ORDERS} orders {kind}  old {was:5,.0f} ms   new {now:5,.0f} ms   ratio {now / was:.2f}", end="   ")
        print(f"round by round {middle:.2f} (quartiles {low:.2f} to {high:.2f})")
    for name, side in (("old", old), ("new", new)):
        answers = [answer for kind in KINDS for answer in side.answers[kind][2:]]
        took, waited = ([answer[part] for answer in answers] for part in ("took", "waited"))
        merges = [merge for answer in answers for merge in answer["merges"]]
        inside, apart = ([ms for own, ms in merges if own is place] for place in (True, False))
        print(f"  {name}: commits {statistics.mean(took):,.0f} ms on average, {max(took):,.0f} ms at most", end="; ")
        print(f"merges in commits {len(inside)} ({sum(inside):,.0f} ms), apart {len(apart)} ({sum(apart):,.0f} ms)")
        print(f"       waited after commits {statistics.mean(waited):,.1f} ms on average")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", default="HEAD", help="the commit to compare this checkout with")
    parser.add_argument("--engine", choices=["sail", "spark"], default="sail")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--data", type=Path, default=None, help="where TPC-H files are or go")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.engine, options.data, options.serve)
        return
    options.data = options.data or data_directory(options.scale)
    generate(options.scale, options.data)
    with_single_orders(options.data)
    here = subprocess.check_output([*GIT, "describe", "--always", "--dirty", "--exclude=*"], text=True).strip()
    print(f"TPC-H SF{options.scale:g}, {platform.machine()}, {options.engine}, views {', '.join(VIEWS)}")
    print(f"old {options.commit}, new {here}, {options.rounds} rounds", flush=True)
    with tempfile.TemporaryDirectory(prefix="viewkeeper-bench-") as name, contextlib.ExitStack() as stack:
        place = Path(name).resolve()
        tree = place / "tree"
        subprocess.run([*GIT, "worktree", "add", "--quiet", "--detach", tree, options.commit], check=True)
        stack.callback(subprocess.run, [*GIT, "worktree", "remove", "--force", tree], check=True)
        old, new = Side(tree, place / "old", options, stack), Side(ROOT.parent, place / "new", options, stack)
        load = os.getloadavg()[0]
        compare(old, new, options.rounds)
    print(f"  load average {load:.1f} before, {os.getloadavg()[0]:.1f} after, of {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
