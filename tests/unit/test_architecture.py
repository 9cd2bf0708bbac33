"""The packages stand in one order, in the import contract and in the docs; small commands start without PySpark."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import viewkeeper as vk

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "viewkeeper"
SERVER = ("fastapi", "starlette", "uvicorn", "websockets", "prometheus_client")


def contract() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return [name for layer in layers for name in layer.split(" | ")]


def test_the_docs_list_the_packages_in_the_order_of_the_contract() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    block = text.split("\n\n", 3)[2]
    assert re.findall(r"^    ([a-z]+) ", block, re.MULTILINE) == contract()


def test_every_package_is_in_the_contract() -> None:
    there = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()} | {"errors"}
    assert there == set(contract())


def test_a_module_name_occurs_once() -> None:
    names = Counter(path.stem for path in SOURCE.rglob("*.py") if path.stem != "__init__")
    assert [name for name, count in names.items() if count > 1] == []


def loaded_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules, sep='\\n', file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stderr.split()}


def test_what_needs_no_engine_does_not_load_pyspark(tmp_path: Path) -> None:
    assert not loaded_after("import viewkeeper") & {"pyspark", "pysail", "pyarrow", "sqlglot", *SERVER}
    with vk.connect(tmp_path / "lake", engine="sail") as db:
        db.sql("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t; INSERT INTO t VALUES (1)")
        db.sql("CREATE RULE r (x INT) ON (SELECT a FROM t WHERE a > :x) DO DELETE FROM t; ACTIVATE RULE r (1)")
    verbs = (
        ["ls"],
        ["history"],
        ["history", "--rules"],
        ["show", "v"],
        ["show", "r"],
        ["doctor", "--quick"],
        ["token", "ls"],
    )
    for verb in verbs:
        call = f"cli(['--db', {str(tmp_path / 'lake')!r}, *{verb!r}], standalone_mode=False)"
        assert not loaded_after(f"from viewkeeper.cli.app import cli\n{call}") & {
            "pyspark",
            "pysail",
            "sqlglot",
            *SERVER,
        }, verb


def test_help_is_there_at_once() -> None:
    """Half a second of processor time, the interpreter included."""
    script = "import resource, subprocess, sys\n"
    script += "call = [sys.executable, '-c', 'from viewkeeper.cli import main; main()', '--help']\n"
    script += "subprocess.run(call, check=True, capture_output=True)\n"
    script += "used = resource.getrusage(resource.RUSAGE_CHILDREN)\nprint(used.ru_utime + used.ru_stime)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.5


def importing(*modules: str) -> set[str]:
    """The modules that import others of these names."""
    pattern = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(map(re.escape, modules))})\b", re.MULTILINE)
    paths = [path for path in SOURCE.rglob("*.py") if pattern.search(path.read_text())]
    return {path.relative_to(SOURCE).with_suffix("").as_posix() for path in paths}


def test_expressions_are_trees_everywhere() -> None:
    """Outside sql, expressions are printed for an engine or a reader only, so that no text of one is parsed again."""
    printing = {name for name in importing("viewkeeper.algebra.spark_text") if not name.startswith("sql/")}
    assert printing == {
        "algebra/expressions",
        "engine/connect_columns",
        "engine/lowering",
        "engine/typer",
        "recursion/printed_rules",
    }
    queries = {name for name in importing("sqlglot") if not name.startswith("sql/")}
    assert queries == {  # syntax of statements and queries as users write them
        "advice/advice",
        "advice/named_relations",
        "feed/bound_rows",
        "query/frames",
        "server/row_conditions",
        "server/shape_conditions",
        "server/statement_rights",
        "statements/changes",
        "statements/define_assertions",
        "statements/define_rules",
        "statements/merge",
        "triggers/query_blocks",
    }
