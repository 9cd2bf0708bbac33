"""Checksums of data files: damaged or exchanged bytes never become rows.

The ledger holds the size and the CRC-32 of every file. The driver compares them whenever it reads a file itself. Before
an engine reads a file, the driver compares them once per process and version of the file: files never change, so the
same size, inode and times mean the same bytes. An engine's own checks are not enough: Parquet's page checksums leave
out page headers, statistics and the footer, and Sail does not check them.

In an object store this is done for Sail, which runs in this process and reads the bytes on this machine anyway. What
the executors of Apache Spark read does not pass through the driver: only sizes are compared here, and Spark compares
the page checksums.
"""

from __future__ import annotations

import concurrent.futures
import os
import threading
import zlib
from collections import OrderedDict
from collections.abc import Sequence

from viewkeeper.catalog.data_files import DataFile
from viewkeeper.errors import StorageError
from viewkeeper.log.storage import Stamp, Storage, explain

KEPT = 200_000
"""The number of files that are remembered as checked."""

CHUNK = 1 << 20
"""Bytes read at a time: memory for more is not used again by the allocator, which takes half as long again."""

RESTORE = "restore it from a backup; `viewkeeper doctor` lists all damaged and missing files"

_checked: OrderedDict[str, tuple[Stamp, str]] = OrderedDict()
_lock = threading.Lock()


def checksum(data: bytes | memoryview) -> str:
    """The checksum of a file's bytes, as the ledger records it."""
    return f"{zlib.crc32(data):08x}"


def checked_bytes(storage: Storage, file: DataFile) -> bytes | memoryview:
    """The bytes of a file or of an inlined batch. Raises StorageError unless size and checksum are the ledger's."""
    data = storage.inlined.batch(storage, file) if file.is_inlined else storage.read(file.path)
    if data is None:
        raise missing_file(file)
    _check_size(file, len(data))
    if file.checksum is not None and checksum(data) != file.checksum:
        raise damaged_file(file, "its checksum does not match")
    return data


def check_files(storage: Storage, files: Sequence[DataFile], *, far: bool) -> None:
    """Raises StorageError unless the files, which an engine is about to read, have the bytes that the ledger recorded.

    `far`: the engine may be on other machines, so an object store's files are not read here.
    """
    stamps = storage.stamps(file.path for file in files)
    todo: list[tuple[DataFile, str, Stamp]] = []
    for file in files:
        stamp = stamps.get(file.path)
        if stamp is None:
            raise missing_file(file)
        _check_size(file, stamp[0])
        if file.checksum is not None and (storage.local or not far):
            url = storage.url(file.path)
            if _checked.get(url) != (stamp, file.checksum):
                todo.append((file, url, stamp))
    if len(todo) == 1:
        _check_bytes(storage, *todo[0])
    elif todo:
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
            for _ in pool.map(lambda each: _check_bytes(storage, *each), todo):
                pass


def _check_bytes(storage: Storage, file: DataFile, url: str, stamp: Stamp) -> None:
    found = 0
    try:
        with storage.open(file.path) as source:
            while chunk := source.read(CHUNK):
                found = zlib.crc32(chunk, found)
    except FileNotFoundError as problem:
        raise missing_file(file) from problem
    except OSError as problem:
        raise explain(problem, f"reading {file.path}") from problem
    if f"{found:08x}" != file.checksum:
        raise damaged_file(file, "its checksum does not match")
    _remember(url, stamp, file.checksum)


def remember_written(storage: Storage, file: DataFile) -> None:
    """Marks a file that this process has just written, or read in full, as checked.

    Not a small object: reading it again is faster than asking for its times.
    """
    stamp = storage.stamps([file.path]).get(file.path) if storage.local or file.size > CHUNK else None
    if stamp is not None and file.checksum is not None:
        _remember(storage.url(file.path), stamp, file.checksum)


def _remember(url: str, stamp: Stamp, found: str) -> None:
    with _lock:
        _checked[url] = (stamp, found)
        if len(_checked) > KEPT:
            _checked.popitem(last=False)


def _check_size(file: DataFile, size: int) -> None:
    if size != file.size:
        raise damaged_file(file, f"it has {size:,} bytes, the ledger says {file.size:,}")


def missing_file(file: DataFile) -> StorageError:
    """The error for a file that does not exist."""
    return StorageError(f"the data file {file.path} is missing", hint=RESTORE)


def damaged_file(file: DataFile, how: str) -> StorageError:
    """The error for a file whose bytes are not those that were written."""
    return StorageError(f"the data file {file.path} is damaged", detail=how, hint=RESTORE)
