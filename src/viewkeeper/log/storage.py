"""Bytes at paths: a local directory or an object-store prefix, with an exclusive, durable create.

Local writes are fsynced here (no object-store library does that for local files); object stores are in
`object_storage.py`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Protocol

from viewkeeper.errors import StorageError
from viewkeeper.log.failpoints import point
from viewkeeper.log.inlined import Inlined

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK_SECONDS = 5.0
"""How long a writer waits for the advisory lock before it continues without."""


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The errors of the operating system for a full disk, quota or file."""

REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)
"""Its errors where nothing may be written."""

Stamp = tuple[int, str]
"""Size and version of a file: another version may have other bytes."""


class NotPermitted(StorageError):
    """The object store does not let this process write."""


@dataclass(frozen=True)
class Listed:
    """A file found by listing."""

    path: str
    size: int
    modified: float


class Storage(Protocol):
    """The protocol of storage for the ledger and the batches."""

    root: str
    local: bool
    inlined: Inlined

    def read(self, path: str) -> bytes | None:
        """The bytes at a path, or None."""

    def head(self, path: str, size: int) -> bytes | None:
        """The first bytes at a path, at most so many, or None."""

    def open(self, path: str) -> IO[bytes]:
        """The bytes at a path, as a file that is read piece by piece."""

    def ranges(self, path: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of a path from one offset to another, for several such spans."""

    def create(self, path: str, data: bytes, mark: str) -> bool:
        """Creates a path exclusively and durably; False if it exists. `mark` names its failpoints."""

    def write(self, path: str, data: bytes, mark: str) -> None:
        """Writes a path durably and atomically: all of it or nothing."""

    def shorten(self, path: str, head: bytes, mark: str) -> None:
        """Replaces a file by its first bytes, atomically. After a loss of power it may have all of them again."""

    def sync(self, paths: Iterable[str]) -> None:
        """Makes files that the engine wrote durable."""

    def list(self, prefix: str) -> list[Listed]:
        """All files below a prefix."""

    def children(self, prefix: str) -> tuple[str, ...]:
        """The names directly below a prefix, of files and of directories, empty ones too."""

    def last(self, directory: str, name: str) -> str:
        """The last name in a directory if it sorts at or after a given one, else the empty string.

        Names that begin with a dot are left out. Very recent changes may be missing.
        """

    def stamps(self, paths: Iterable[str]) -> dict[str, Stamp]:
        """Size and version of some files; those that do not exist are left out."""

    def delete(self, paths: Iterable[str]) -> None:
        """Removes files; missing ones are ignored."""

    def remove(self, prefix: str) -> None:
        """Removes everything below a prefix that nobody else writes to."""

    def url(self, path: str) -> str:
        """The path as the engine reads it."""

    def lock(self, name: str) -> contextlib.AbstractContextManager[None]:
        """An advisory lock on which writers queue; safety does not depend on it."""


def open_storage(path: str, options: dict[str, str], durability: str) -> Storage:
    """The storage at a directory or URL."""
    if re.match(r"^[a-z][a-z0-9+.-]*://", path) and not path.startswith("file://"):
        from viewkeeper.log.object_storage import ObjectStorage

        return ObjectStorage(path, options)
    local = path.removeprefix("file://")
    if any(letter in local for letter in "*?[]{}"):
        raise StorageError(
            f"the path {path!r} has one of the letters * ? [ ] {{ }}, which engines read as patterns",
            hint="choose a directory name without them",
        )
    return LocalStorage(os.path.abspath(os.path.expanduser(local)), durability)


def is_full(problem: StorageError) -> bool:
    """Whether something could not be written because there was no room for it."""
    return isinstance(problem.__cause__, OSError) and problem.__cause__.errno in FULL


def explain(problem: OSError, doing: str) -> StorageError:
    """An error of the operating system as a StorageError, with a hint."""
    hints = {
        errno.ENOSPC: "free some space, or run `viewkeeper vacuum`; nothing was changed",
        errno.EDQUOT: "free some space, or run `viewkeeper vacuum`; nothing was changed",
        errno.EFBIG: "a file-size limit is in force (ulimit -f); nothing was changed",
        errno.EACCES: "check who owns the directory and its permissions",
        errno.EPERM: "check who owns the directory and its permissions",
        errno.EROFS: "the file system is read-only; use a directory that can be written",
        errno.ENOENT: "no directory can be made there; use a directory that can be written",
        errno.ENOTDIR: "a part of the path is a file; give a directory",
    }
    where = f" ({problem.filename})" if problem.filename else ""
    return StorageError(f"{doing} failed: {problem.strerror}{where}", hint=hints.get(problem.errno or 0))


class LocalStorage:
    """A directory."""

    local = True

    def __init__(self, root: str, durability: str) -> None:
        self.root = root
        self.durable = durability != "process"
        self.inlined = Inlined()
        self._locks: dict[str, BaseFileLock] = {}
        self._lasts: dict[str, tuple[int, str]] = {}

    def _full(self, path: str) -> str:
        return os.path.join(self.root, path)

    def read(self, path: str) -> bytes | None:
        try:
            with open(self._full(path), "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as problem:
            raise explain(problem, f"reading {path}") from problem

    def head(self, path: str, size: int) -> bytes | None:
        try:
            with open(self._full(path), "rb", buffering=0) as file:
                return file.read(size)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as problem:
            raise explain(problem, f"reading {path}") from problem

    def open(self, path: str) -> IO[bytes]:
        return open(self._full(path), "rb")

    def ranges(self, path: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        try:
            with open(self._full(path), "rb", buffering=0) as file:
                return [os.pread(file.fileno(), stop - start, start) for start, stop in spans]
        except OSError as problem:
            raise explain(problem, f"reading {path}") from problem

    def create(self, path: str, data: bytes, mark: str) -> bool:
        target = self._full(path)
        point(f"{mark}-before")
        made: bool | None = None
        while made is None:
            made = self._create_once(path, target, data, mark)
        if made:
            self._note_created(os.path.dirname(path), os.path.basename(path))
        return made

    def _create_once(self, path: str, target: str, data: bytes, mark: str) -> bool | None:
        """Tries to create a file; None if a sweep removed the temporary file before it was linked."""
        temporary = self._write_beside(target, data, mark)
        try:
            os.link(temporary, target)
        except FileExistsError:
            return False
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise explain(problem, f"writing {path}") from problem
        else:
            point(f"{mark}-linked")
            try:
                self._sync_directory(os.path.dirname(target))
            except OSError as problem:
                raise StorageError(
                    f"{path} was written, but making it durable failed: {problem.strerror}",
                    hint="check the disk; the change is there now, but may not survive a loss of power",
                ) from problem
            point(f"{mark}-synced")
            return True
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    def write(self, path: str, data: bytes, mark: str) -> None:
        target = self._full(path)
        point(f"{mark}-before")
        while True:
            temporary = self._write_beside(target, data, mark)
            try:
                os.replace(temporary, target)
                self._sync_directory(os.path.dirname(target))
                break
            except FileNotFoundError:
                continue  # a sweep removed the temporary file before it was renamed
            except OSError as problem:
                raise explain(problem, f"writing {path}") from problem
        point(f"{mark}-synced")

    def shorten(self, path: str, head: bytes, mark: str) -> None:
        target = self._full(path)
        while True:
            temporary = self._write_beside(target, head, mark)
            try:
                os.replace(temporary, target)
                break
            except FileNotFoundError:
                continue  # another sweep removed the temporary file
            except OSError as problem:
                raise explain(problem, f"writing {path}") from problem
        point(f"{mark}-renamed")

    def _write_beside(self, target: str, data: bytes, mark: str) -> str:
        directory = os.path.dirname(target)
        temporary = os.path.join(directory, f".{os.path.basename(target)}.{uuid.uuid4().hex[:12]}.tmp")
        try:
            self.make_directory(directory)
            with open(temporary, "wb") as file:
                half = len(data) // 2
                file.write(data[:half])
                if "VIEWKEEPER_FAULT" in os.environ:
                    file.flush()
                    point(f"{mark}-half")
                file.write(data[half:])
                file.flush()
                point(f"{mark}-written")
                if self.durable:
                    os.fsync(file.fileno())
        except OSError as problem:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise explain(problem, f"writing {os.path.basename(target)}") from problem
        return temporary

    def make_directory(self, directory: str) -> None:
        """Creates a directory, and missing ones above it, durably."""
        if os.path.isdir(directory):
            return
        above = os.path.dirname(directory)
        self.make_directory(above)
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory)
        self._sync_directory(above)

    def _sync_directory(self, directory: str) -> None:
        if not self.durable:
            return
        handle = os.open(directory, os.O_RDONLY)  # fsync does the same to a file
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def sync(self, paths: Iterable[str]) -> None:
        if not self.durable:
            return
        directories: set[str] = set()
        for path in paths:
            parent = os.path.dirname(self._full(path))
            try:
                self._sync_directory(self._full(path))
            except OSError as problem:
                raise explain(problem, f"writing {path}") from problem
            while len(parent) >= len(self.root):
                directories.add(parent)
                parent = os.path.dirname(parent)
        for directory in directories:
            try:
                self._sync_directory(directory)
            except OSError as problem:
                raise explain(problem, f"writing in {directory}") from problem

    def list(self, prefix: str) -> list[Listed]:
        found: list[Listed] = []
        for directory, _, names in os.walk(self._full(prefix)):
            for name in names:
                full = os.path.join(directory, name)
                with contextlib.suppress(FileNotFoundError):
                    about = os.stat(full)
                    found.append(Listed(os.path.relpath(full, self.root), about.st_size, about.st_mtime))
        return found

    def delete(self, paths: Iterable[str]) -> None:
        parents: set[str] = set()
        for path in paths:
            try:
                os.unlink(self._full(path))
            except FileNotFoundError:
                pass
            except OSError as problem:
                raise explain(problem, f"removing {path}") from problem
            parents.add(os.path.dirname(path))
        for parent in parents:
            self._remove_empty(parent)

    def _remove_empty(self, directory: str) -> None:
        """Removes a batch's empty directories. Those above it are shared: another process may be about to write."""
        while directory.count("/") >= 2:
            try:
                os.rmdir(self._full(directory))
            except OSError:
                return
            directory = os.path.dirname(directory)

    def children(self, prefix: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(os.listdir(self._full(prefix))))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as problem:
            raise explain(problem, f"listing {prefix}") from problem

    def last(self, directory: str, name: str) -> str:
        try:
            changed = os.stat(self._full(directory)).st_mtime_ns
            known, newest = self._lasts.get(directory, (0, ""))
            if changed != known:  # listing a large directory is slow, so only after a change
                newest = max((name for name in os.listdir(self._full(directory)) if name[0] != "."), default="")
                self._lasts[directory] = (changed, newest)
        except FileNotFoundError:
            return ""
        except OSError as problem:
            raise explain(problem, f"listing {directory}") from problem
        return newest if newest >= name else ""

    def _note_created(self, directory: str, name: str) -> None:
        """Updates the last name of a directory, so that our own new file is no reason to list it again."""
        if directory in self._lasts:
            with contextlib.suppress(FileNotFoundError):
                changed = os.stat(self._full(directory)).st_mtime_ns
                self._lasts[directory] = (changed, max(name, self._lasts[directory][1]))

    def stamps(self, paths: Iterable[str]) -> dict[str, Stamp]:
        found: dict[str, Stamp] = {}
        for path in paths:
            try:
                about = os.stat(self._full(path))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as problem:
                raise explain(problem, f"looking for {path}") from problem
            found[path] = (about.st_size, f"{about.st_mtime_ns}-{about.st_ctime_ns}-{about.st_ino}")
        return found

    def remove(self, prefix: str) -> None:
        shutil.rmtree(self._full(prefix), ignore_errors=True)

    def url(self, path: str) -> str:
        return self._full(path)

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        from filelock import Timeout

        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self._lock_file(name).acquire(timeout=LOCK_SECONDS))
            except Timeout:
                pass  # continues without: a stopped process must not stop the others
            except OSError as problem:
                if problem.errno not in FULL:  # a vacuum must work on a full disk too
                    raise explain(problem, "taking the write lock") from problem
            yield

    def _lock_file(self, name: str) -> BaseFileLock:
        """The lock of a name, one for all threads; reentrant."""
        from filelock import FileLock  # here, because reading needs no lock and starts faster without the library

        if name not in self._locks:
            lock = FileLock(self._full(name), poll_interval=0.002, fallback_to_soft=False)
            return self._locks.setdefault(name, lock)
        return self._locks[name]


def now() -> float:
    """Seconds since 1970."""
    return time.time()
