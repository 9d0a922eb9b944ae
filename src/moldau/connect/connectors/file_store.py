"""Files of a sink's target: local directories, and object stores through fsspec.

A store can do the three things on which exactly once rests:

- `create` stores a small file only if none of that name exists, whole or not at all. Locally that is a hard link of a
  complete file; on S3 a put with `If-None-Match: *`.
- `publish` gives a staged file its final name, whole or not at all: a rename, or on object stores a copy inside the
  store (objects appear when they are complete) followed by the removal of the staged one. It can be repeated.
- `names` lists what has been created, without delay (S3 lists are strongly consistent).

All paths are relative to the root of the store.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final, Protocol, cast

from moldau.client.errors import MoldauError
from moldau.connect.connector import RetriableError
from moldau.host.event_log import event_logger

log = event_logger(__name__)

OBJECT_STORES: Final = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs"}
"""Protocols whose fsspec package creates an object only if it is absent, and the package of each."""


class UnknownStoreError(MoldauError):
    """A path of a kind that cannot be written exactly once, or whose package is not installed."""


class FileStore(Protocol):
    """The target directory of a sink."""

    def open_output(self, path: str) -> IO[bytes]:
        """A new file to write. It is stored completely when `close` has returned."""
        ...

    def create(self, path: str, data: bytes) -> bool:
        """Store a file unless one of this name exists. False: it exists."""
        ...

    def read(self, path: str) -> bytes: ...

    def names(self, directory: str) -> list[str]:
        """The names in a directory, in order; empty if there is no such directory."""
        ...

    def publish(self, staged: str, final: str) -> bool:
        """Give a staged file its final name. False: there is no such staged file, because this was done before."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int:
        """The bytes of a file."""
        ...

    def open_input(self, path: str) -> IO[bytes]:
        """A file to read, at any position."""
        ...

    def uri(self, path: str) -> str:
        """The address of a file for other programs."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file; nothing happens if there is none."""
        ...

    def delete_tree(self, directory: str) -> None: ...


def open_store(url: str, options: Mapping[str, Any] | None = None) -> FileStore:
    """The store of a local path or an fsspec URL. UnknownStoreError says what is missing."""
    protocol, mark, rest = url.partition("://")
    if not mark:
        return LocalStore(url)
    if protocol in ("file", "local"):
        return LocalStore(rest)
    if protocol not in OBJECT_STORES:
        raise UnknownStoreError(
            f"{url}: exactly once needs a store that creates a file only if it is absent; known are local paths and "
            f"{', '.join(f'{name}://' for name in OBJECT_STORES)}"
        )
    try:
        import fsspec  # type: ignore[import-untyped]

        system, root = fsspec.core.url_to_fs(url, **dict(options or {}))
    except ImportError as error:
        raise UnknownStoreError(f"{url} needs the package {OBJECT_STORES[protocol]}: {error}") from error
    return ObjectStore(system, root)


class LocalStore:
    """A directory of this machine, or one that is mounted here."""

    def __init__(self, root: str) -> None:
        self.root = root

    def _path(self, path: str) -> str:
        return os.path.join(self.root, path)

    def open_output(self, path: str) -> IO[bytes]:
        full = self._path(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        return cast("IO[bytes]", _SyncedFile(full))

    def create(self, path: str, data: bytes) -> bool:
        full = self._path(path)
        directory = os.path.dirname(full)
        os.makedirs(directory, exist_ok=True)
        # A link of a complete file: with O_EXCL, a crash would leave a record that is cut short under its name.
        temporary = os.path.join(directory, f".{uuid.uuid4().hex}.tmp")
        try:
            with _SyncedFile(temporary) as file:
                file.write(data)
            os.link(temporary, full)
        except FileExistsError:
            return False
        finally:
            _remove(temporary)
        _sync_directory(directory)
        return True

    def read(self, path: str) -> bytes:
        with open(self._path(path), "rb") as file:
            return file.read()

    def names(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(self._path(directory)))
        except FileNotFoundError:
            return []

    def publish(self, staged: str, final: str) -> bool:
        full = self._path(final)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        try:
            os.replace(self._path(staged), full)
        except FileNotFoundError:
            return False
        _sync_directory(os.path.dirname(full))
        return True

    def exists(self, path: str) -> bool:
        return os.path.exists(self._path(path))

    def size(self, path: str) -> int:
        return os.path.getsize(self._path(path))

    def open_input(self, path: str) -> IO[bytes]:
        return open(self._path(path), "rb")

    def uri(self, path: str) -> str:
        return f"file://{os.path.abspath(self._path(path))}"

    def delete(self, path: str) -> None:
        _remove(self._path(path))

    def delete_tree(self, directory: str) -> None:
        shutil.rmtree(self._path(directory), ignore_errors=True)


class _SyncedFile:
    """A file whose bytes are on the disk when it is closed."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "wb")  # noqa: SIM115

    def __enter__(self) -> _SyncedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def close(self) -> None:
        if not self._file.closed:
            try:
                self._file.flush()
                os.fsync(self._file.fileno())
            finally:
                self._file.close()


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _sync_directory(path: str) -> None:
    """Make new names in a directory survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class ObjectStore:
    """A prefix of a bucket, through fsspec."""

    def __init__(self, system: Any, root: str) -> None:
        self._system = system
        self._root = root.rstrip("/")

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"

    def open_output(self, path: str) -> IO[bytes]:
        with _plain_errors():
            file: IO[bytes] = self._system.open(self._path(path), "wb")
        return file

    def create(self, path: str, data: bytes) -> bool:
        full = self._path(path)
        with _plain_errors():
            try:
                self._system.pipe_file(full, data, mode="create")
            except OSError:
                # The object exists; or a put whose answer was lost had succeeded, and the retry found it.
                self._system.invalidate_cache()
                if not self._system.exists(full):
                    raise
                return bool(self._system.cat_file(full) == data)
        return True

    def read(self, path: str) -> bytes:
        with _plain_errors():
            data: bytes = self._system.cat_file(self._path(path))
        return data

    def names(self, directory: str) -> list[str]:
        self._system.invalidate_cache()
        with _plain_errors():
            try:
                found = self._system.ls(self._path(directory), detail=False, refresh=True)
            except FileNotFoundError:
                return []
        return sorted(one.rstrip("/").rpartition("/")[2] for one in found)

    def publish(self, staged: str, final: str) -> bool:
        with _plain_errors():
            try:
                self._system.cp_file(self._path(staged), self._path(final))
            except FileNotFoundError:
                return False
        self.delete(staged)
        return True

    def exists(self, path: str) -> bool:
        self._system.invalidate_cache()
        with _plain_errors():
            return bool(self._system.exists(self._path(path)))

    def size(self, path: str) -> int:
        with _plain_errors():
            return int(self._system.info(self._path(path))["size"])

    def open_input(self, path: str) -> IO[bytes]:
        with _plain_errors():
            file: IO[bytes] = self._system.open(self._path(path), "rb")
        return file

    def uri(self, path: str) -> str:
        return str(self._system.unstrip_protocol(self._path(path)))

    def delete(self, path: str) -> None:
        with _plain_errors():
            try:
                self._system.rm_file(self._path(path))
            except FileNotFoundError:
                return

    def delete_tree(self, directory: str) -> None:
        self._system.invalidate_cache()
        with _plain_errors():
            try:
                self._system.rm(self._path(directory), recursive=True)
            except FileNotFoundError:
                return


@contextlib.contextmanager
def disk_errors(place: str) -> Iterator[None]:
    """Errors of a full disk may go away, those of missing rights do not; both say what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RetriableError(f"no space left in {place}: free some, or choose another target") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise MoldauError(
                f"{place} cannot be written ({error}): give the worker the right to write there"
            ) from error
        raise


class _plain_errors:  # noqa: N801
    """Errors of the network that a retry may cure become RetriableError."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, (ConnectionError, TimeoutError)) or type(error).__name__ in _NETWORK_ERRORS:
            raise RetriableError(f"the object store does not answer: {error}") from error


_NETWORK_ERRORS: Final = {"EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ClientConnectorError"}
