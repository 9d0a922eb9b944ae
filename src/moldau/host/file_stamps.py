"""Stamps of files: whether a file has changed since it was read."""

from __future__ import annotations

import os
from collections.abc import Iterable

FileStamps = tuple[tuple[int, int, int] | None, ...]
"""For each file its time of change, size and inode; None if there is no such file."""


def file_stamps(paths: Iterable[str]) -> FileStamps:
    return tuple(map(_stamp, paths))


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
