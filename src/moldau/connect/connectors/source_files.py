"""Files that a file source reads: local paths by glob, other places through fsspec."""

from __future__ import annotations

import glob
import os
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, Final

from moldau.client.errors import MoldauError

HEAD_BYTES: Final = 1024
"""The beginning of a file by which a file that may grow is known again."""


class FileAccessError(MoldauError):
    """Files that cannot be listed or read."""


@dataclass(frozen=True)
class FoundFile:
    """A file as the listing shows it."""

    path: str
    size: int
    version: str
    """Changes when the file is written: the time of the last change, or the tag of an object store."""
    modified_s: float


class SourceFiles:
    """Everything that a pattern matches. Picklable: connections are opened where they are used."""

    def __init__(self, pattern: str, options: Mapping[str, Any]) -> None:
        self.pattern = pattern.removeprefix("file://")
        self.remote = "://" in self.pattern
        self._options = dict(options)

    def listed(self) -> list[FoundFile]:
        """The files, oldest first. Names that begin with a dot or an underscore are hidden."""
        found = self._remote_files() if self.remote else self._local_files()
        visible = [one for one in found if not one.path.rpartition("/")[2].startswith((".", "_"))]
        return sorted(visible, key=lambda one: (one.modified_s, one.path))

    def _local_files(self) -> list[FoundFile]:
        pattern = os.path.join(self.pattern, "*") if os.path.isdir(self.pattern) else self.pattern
        found = []
        for path in glob.iglob(pattern, recursive=True):
            try:
                status = os.stat(path)
            except FileNotFoundError:
                continue
            if os.path.isfile(path):
                found.append(FoundFile(path, status.st_size, str(status.st_mtime_ns), status.st_mtime))
        return found

    def _remote_files(self) -> list[FoundFile]:
        system, pattern = self._system()
        system.invalidate_cache()
        if not glob.has_magic(pattern):
            pattern = f"{pattern.rstrip('/')}/*" if system.isdir(pattern) else pattern
        found = []
        for path, info in system.glob(pattern, detail=True).items():
            if info["type"] == "file":
                modified = info.get("LastModified") or info.get("mtime") or info.get("created") or 0.0
                seconds = modified.timestamp() if hasattr(modified, "timestamp") else float(modified)
                version = str(info.get("ETag") or info.get("etag") or modified)
                found.append(FoundFile(path, int(info["size"]), version, seconds))
        return found

    def _system(self) -> tuple[Any, str]:
        try:
            import fsspec  # type: ignore[import-untyped]

            system, path = fsspec.core.url_to_fs(self.pattern, **self._options)
        except (ImportError, ValueError) as error:
            raise FileAccessError(f"cannot read {self.pattern}: {error}") from error
        return system, path

    def read_at(self, path: str, position: int, length: int) -> bytes:
        """Bytes at a position; fewer only at the end of the file."""
        if length <= 0:
            return b""
        if self.remote:
            data: bytes = self._system()[0].cat_file(path, start=position, end=position + length)
            return data
        with open(path, "rb", buffering=0) as file:
            file.seek(position)
            parts = []
            while length > 0 and (part := file.read(length)):
                parts.append(part)
                length -= len(part)
        return b"".join(parts)

    def open(self, path: str) -> IO[bytes]:
        file: IO[bytes] = self._system()[0].open(path, "rb") if self.remote else open(path, "rb")  # noqa: SIM115
        return file

    def delete(self, path: str) -> None:
        if self.remote:
            self._system()[0].rm_file(path)
        else:
            os.unlink(path)

    def move(self, path: str, directory: str) -> None:
        """Move a file into a directory of the same place. A file of the same name there is kept under another name."""
        name = path.rpartition("/")[2]
        if self.remote:
            import fsspec

            system = self._system()[0]
            target = fsspec.core.url_to_fs(directory, **self._options)[1].rstrip("/")
            system.mv(path, f"{target}/{name}")
            return
        directory = directory.removeprefix("file://")
        os.makedirs(directory, exist_ok=True)
        target, number = os.path.join(directory, name), 0
        while os.path.exists(target):
            number += 1
            target = os.path.join(directory, f"{name}.{number}")
        shutil.move(path, target)


def head_id(files: SourceFiles, found: FoundFile) -> str:
    """The identity of a file that may grow: length and checksum of its beginning."""
    head = files.read_at(found.path, 0, min(HEAD_BYTES, found.size))
    return f"{len(head)}:{zlib.crc32(head):08x}"


def has_id(files: SourceFiles, found: FoundFile, identity: str) -> bool:
    """Whether a file begins as it did when the identity was taken."""
    length = int(identity.partition(":")[0])
    if found.size < length:
        return False
    return f"{length}:{zlib.crc32(files.read_at(found.path, 0, length)):08x}" == identity
