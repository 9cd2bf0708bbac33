"""What was built of the page belongs to its sources, and asks nobody but its own server."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "page"
BUILT = ROOT / "src" / "viewkeeper" / "server" / "page"
LEFT = {"node_modules", "coverage", ".vite"}


def source_files() -> list[Path]:
    """The files of the page, sorted by path: `page/vite.config.ts` lists the same ones."""
    found = [path for path in SOURCES.rglob("*") if path.is_file() and LEFT.isdisjoint(path.relative_to(SOURCES).parts)]
    return sorted(found, key=lambda path: path.relative_to(SOURCES).as_posix())


def test_assets_belong_to_the_sources() -> None:
    digest = hashlib.sha256()
    for path in source_files():
        digest.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    assert (BUILT / "sources.sha256").read_text().strip() == digest.hexdigest(), "the page changed: run `make page`"


def test_page_names_only_files_that_are_there() -> None:
    index = (BUILT / "index.html").read_text()
    names = re.findall(r'(?:src|href)="\./([^"]+)"', index)
    assert len(names) >= 3
    for name in names:
        assert (BUILT / name).is_file(), name
    assert not re.findall(r'(?:src|href)="(?!\./)', index)


def test_assets_ask_no_other_host() -> None:
    for path in BUILT.rglob("*.css"):
        assert not re.findall(r"url\((?!\./|data:|#)", path.read_text()), path
    assert "<script>" not in (BUILT / "index.html").read_text()


def test_lock_file_names_no_registry() -> None:
    lock = json.loads((SOURCES / "package-lock.json").read_text())
    assert not [name for name, each in lock["packages"].items() if "resolved" in each]
    declared = json.loads((SOURCES / "package.json").read_text())
    for group in ("dependencies", "devDependencies"):
        for name, version in declared[group].items():
            assert re.fullmatch(r"\d+\.\d+\.\d+", version), f"{name} is not pinned"
