"""Renamed files: threads that open a file during its rename can read it."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.host.fs import FileSystem
from moldau.testing.memory_disk import MemoryDisk


class MeddlingDisk(MemoryDisk):
    """A disk on which a file is renamed just before, or just after, the system opens it by name."""

    def __init__(self) -> None:
        super().__init__()
        self.before_open: Any = None

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        meddle, self.before_open = self.before_open, None
        if meddle is not None:
            meddle()
        return super().open(path, flags, mode)


def disk_with_file() -> tuple[MeddlingDisk, FileSystem]:
    disk = MeddlingDisk()
    fs = FileSystem(disk, 4)
    fs.create("/a").append([b"content"])
    return disk, fs


def test_a_file_renamed_between_name_and_open_is_found_under_its_new_name() -> None:
    disk, fs = disk_with_file()
    file = fs.open("/a")
    disk.before_open = lambda: file.rename("/b")
    assert bytes(file.read(0, 100)) == b"content"
    assert file.path == "/b"


def test_a_file_opened_before_its_rename_is_done_is_found_under_the_old_name() -> None:
    _, fs = disk_with_file()
    file = fs.open("/a")
    file.path = "/b"  # the state during `rename`, before the system has answered
    assert bytes(file.read(0, 100)) == b"content"


def test_a_failed_rename_keeps_the_old_name() -> None:
    _, fs = disk_with_file()
    file = fs.open("/a")
    with pytest.raises(FileNotFoundError):
        file.rename("/nowhere/b")
    assert file.path == "/a"
    assert bytes(file.read(0, 100)) == b"content"


def test_a_removed_file_is_not_found_under_another_name() -> None:
    _, fs = disk_with_file()
    file = fs.open("/a")
    fs.remove("/a")
    with pytest.raises(FileNotFoundError):
        file.read(0, 100)


def test_a_file_that_took_the_old_name_is_another_one() -> None:
    _, fs = disk_with_file()
    file = fs.open("/a")
    file.rename("/b")
    fs.create("/a").append([b"another"])
    fs.remove("/b")
    with pytest.raises(FileNotFoundError):
        file.read(0, 100)
