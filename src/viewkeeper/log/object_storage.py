"""Storage in an object store, through obstore, whose conditional put is the exclusive create."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from viewkeeper.errors import StorageError
from viewkeeper.log.failpoints import point
from viewkeeper.log.inlined import Inlined
from viewkeeper.log.storage import Listed, NotPermitted, Stamp


class ObjectStorage:
    """A prefix in an object store, through obstore."""

    local = False

    def __init__(self, url: str, options: dict[str, str]) -> None:
        import obstore.store

        self.root = url.rstrip("/")
        self.inlined = Inlined()
        client = {name.removeprefix("aws_"): value for name, value in options.items() if "allow_" in name}
        config = {name: value for name, value in options.items() if "allow_" not in name}
        try:
            self._store: Any = obstore.store.from_url(
                self.root,
                config=config or None,
                client_options={name: str(value).lower() == "true" for name, value in client.items()} or None,
            )
        except Exception as problem:
            raise StorageError(
                f"the object store {url} cannot be used",
                detail=str(problem),
                hint="check the URL and storage_options (for S3: aws_region, aws_access_key_id, aws_endpoint ...)",
            ) from problem

    def read(self, path: str) -> bytes | None:
        import obstore

        try:
            return bytes(obstore.get(self._store, path).bytes())
        except FileNotFoundError:
            return None
        except Exception as problem:
            raise self._explain(problem, f"reading {path}") from problem

    def head(self, path: str, size: int) -> bytes | None:
        import obstore

        try:
            return bytes(obstore.get(self._store, path, options={"range": (0, size)}).bytes())
        except FileNotFoundError:
            return None
        except Exception as problem:
            raise self._explain(problem, f"reading {path}") from problem

    def exists(self, path: str) -> bool:
        """Whether there is an object at a path."""
        return bool(self._stamp(path))

    def open(self, path: str) -> Any:
        """The object at a path, as a file that is read piece by piece."""
        import obstore

        try:
            return _Remote(obstore.open_reader(self._store, path))
        except Exception as problem:
            raise self._explain(problem, f"reading {path}") from problem

    def ranges(self, path: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        import obstore

        starts, ends = [start for start, _ in spans], [stop for _, stop in spans]
        try:
            return [bytes(part) for part in obstore.get_ranges(self._store, path, starts=starts, ends=ends)]
        except Exception as problem:
            raise self._explain(problem, f"reading {path}") from problem

    def create(self, path: str, data: bytes, mark: str) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        point(f"{mark}-before")
        try:
            obstore.put(self._store, path, data, mode="create")
        except (AlreadyExistsError, FileExistsError):
            return False
        except Exception as problem:
            raise self._explain(problem, f"writing {path}") from problem
        point(f"{mark}-synced")
        return True

    def write(self, path: str, data: bytes, mark: str) -> None:
        import obstore

        point(f"{mark}-before")
        try:
            obstore.put(self._store, path, data)
        except Exception as problem:
            raise self._explain(problem, f"writing {path}") from problem
        point(f"{mark}-synced")

    def shorten(self, path: str, head: bytes, mark: str) -> None:
        self.write(path, head, mark)

    def sync(self, paths: Iterable[str]) -> None:
        """An object store answers a put when it is durable."""

    def list(self, prefix: str) -> list[Listed]:
        import obstore

        try:
            return [
                Listed(str(meta["path"]), int(meta["size"]), meta["last_modified"].timestamp())
                for batch in obstore.list(self._store, prefix=prefix)
                for meta in batch
            ]
        except Exception as problem:
            raise self._explain(problem, f"listing {prefix}") from problem

    def children(self, prefix: str) -> tuple[str, ...]:
        import obstore

        try:
            found = obstore.list_with_delimiter(self._store, prefix=prefix)
        except Exception as problem:
            raise self._explain(problem, f"listing {prefix}") from problem
        paths = [*found["common_prefixes"], *(str(meta["path"]) for meta in found["objects"])]
        return tuple(sorted(path.rstrip("/").rsplit("/", 1)[-1] for path in paths))

    def last(self, directory: str, name: str) -> str:
        import obstore

        before = name[:-1]  # the store lists what sorts after this, so the name itself too
        try:
            names = [
                str(meta["path"]).rsplit("/", 1)[-1]
                for batch in obstore.list(self._store, prefix=directory, offset=f"{directory}/{before}")
                for meta in batch
            ]
        except Exception as problem:
            raise self._explain(problem, f"listing {directory}") from problem
        return max((found for found in names if found >= name and found[0] != "."), default="")

    def stamps(self, paths: Iterable[str]) -> dict[str, Stamp]:
        wanted = set(paths)
        if len(wanted) == 1:
            return self._stamp(*wanted)
        listed = (item for prefix in {path.rsplit("/", 1)[0] for path in wanted} for item in self.list(prefix))
        return {item.path: (item.size, str(item.modified)) for item in listed if item.path in wanted}

    def _stamp(self, path: str) -> dict[str, Stamp]:
        import obstore

        try:
            found = obstore.head(self._store, path)
        except FileNotFoundError:
            return {}
        except Exception as problem:
            raise self._explain(problem, f"looking for {path}") from problem
        return {path: (int(found["size"]), str(found["last_modified"].timestamp()))}

    def remove(self, prefix: str) -> None:
        self.delete(item.path for item in self.list(prefix))

    def delete(self, paths: Iterable[str]) -> None:
        import obstore

        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                obstore.delete(self._store, path)

    def url(self, path: str) -> str:
        return f"{self.root}/{path}"

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        yield  # no advisory lock: the conditional put alone decides who wins

    def _explain(self, problem: Exception, doing: str) -> StorageError:
        refused = type(problem).__name__ in ("PermissionDeniedError", "UnauthenticatedError")
        kind = NotPermitted if refused else StorageError
        return kind(f"{doing} failed in {self.root}", detail=str(problem).splitlines()[0][:300])


class _Remote(io.RawIOBase):
    """An object of a store as a Python file."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return int(self._source.seek(offset, whence))

    def tell(self) -> int:
        return int(self._source.tell())

    def read(self, size: int = -1, /) -> bytes:
        return bytes(self._source.read(None if size < 0 else size))
