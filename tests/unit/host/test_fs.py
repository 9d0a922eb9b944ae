"""Files on the real disk: appending, reading, the descriptor pool and its pins, locks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moldau.host.fs import AlreadyLocked, FileChanged, LocalFileSystem


@pytest.fixture
def fs() -> LocalFileSystem:
    return LocalFileSystem(max_open_files=3)


def test_appended_data_can_be_read_at_any_position(fs: LocalFileSystem, tmp_path: Path) -> None:
    file = fs.create(str(tmp_path / "f"))
    file.append([b"hello ", bytearray(b"wor"), memoryview(b"ld")])
    assert file.size == 11
    assert file.read(0, 100) == b"hello world"
    assert file.read(4, 3) == b"o w"
    assert file.read(11, 5) == b""
    assert file.read(50, 5) == b""


def test_more_buffers_than_one_system_call_takes_are_all_written(fs: LocalFileSystem, tmp_path: Path) -> None:
    file = fs.create(str(tmp_path / "f"))
    file.append([b"%04d" % n for n in range(3000)])
    assert file.read(0, 20_000) == b"".join(b"%04d" % n for n in range(3000))


def test_just_written_bytes_come_from_the_page_cache(fs: LocalFileSystem, tmp_path: Path) -> None:
    file = fs.create(str(tmp_path / "f"))
    file.append([b"x" * 10_000])
    assert file.read_cached(100, 50) == bytearray(b"x" * 50)
    assert file.read_cached(9_990, 50) == bytearray(b"x" * 10)


def test_a_truncated_file_continues_at_its_new_end(fs: LocalFileSystem, tmp_path: Path) -> None:
    file = fs.create(str(tmp_path / "f"))
    file.append([b"abcdef"])
    file.truncate(3)
    file.append([b"X"])
    assert file.read(0, 10) == b"abcX"
    with pytest.raises(ValueError, match="cannot truncate"):
        file.truncate(5)


def test_open_descriptors_never_exceed_the_bound_and_the_least_recently_used_goes_first(
    fs: LocalFileSystem, tmp_path: Path
) -> None:
    files = [fs.create(str(tmp_path / str(n))) for n in range(5)]
    for file in files[:3]:
        file.append([b"x"])
    files[0].append([b"x"])
    files[3].append([b"x"])
    assert len(fs.pool) == 3
    assert [file.fd >= 0 for file in files] == [True, False, True, True, False]
    assert files[1].read(0, 1) == b"x"  # opened again when needed
    assert len(fs.pool) == 3


def test_a_pinned_descriptor_is_never_closed(fs: LocalFileSystem, tmp_path: Path) -> None:
    files = [fs.create(str(tmp_path / str(n))) for n in range(6)]
    fd = fs.pool.pin(files[0])
    for file in files[1:]:
        file.append([b"x"])
    assert files[0].fd == fd
    files[0].close()
    assert os.fstat(fd).st_size == 0  # still open: closing waits for the pin
    fs.pool.unpin(files[0])
    assert files[0].fd == -1
    assert len(fs.pool) <= 3


def test_the_bound_gives_way_only_while_everything_is_pinned(fs: LocalFileSystem, tmp_path: Path) -> None:
    files = [fs.create(str(tmp_path / str(n))) for n in range(5)]
    for file in files:
        fs.pool.pin(file)
    assert len(fs.pool) == 5
    for file in files:
        fs.pool.unpin(file)
    fs.create(str(tmp_path / "another")).append([b"x"])
    assert len(fs.pool) == 3


def test_a_file_with_a_remembered_size_is_checked_when_it_is_first_used(fs: LocalFileSystem, tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    fs.create(path).append([b"12345"])
    assert fs.open(path, size=5).read(0, 5) == b"12345"
    with pytest.raises(FileChanged, match="5 bytes instead of 4"):
        fs.open(path, size=4).read(0, 4)
    with pytest.raises(FileNotFoundError):
        fs.open(str(tmp_path / "gone"), size=4).append([b"x"])


def test_a_renamed_file_stays_usable_and_a_removed_one_is_gone(fs: LocalFileSystem, tmp_path: Path) -> None:
    file = fs.create(str(tmp_path / "f"))
    file.append([b"abc"])
    file.rename(str(tmp_path / "g"))
    file.close()
    assert file.read(0, 3) == b"abc"
    assert fs.listdir(str(tmp_path)) == ["g"]
    file.remove()
    assert fs.listdir(str(tmp_path)) == []


def test_write_atomically_replaces_the_content_and_leaves_nothing_beside_it(
    fs: LocalFileSystem, tmp_path: Path
) -> None:
    path = str(tmp_path / "c")
    fs.write_atomically(path, b"one")
    fs.write_atomically(path, b"two", sync=False)
    assert fs.read_bytes(path) == b"two"
    assert fs.listdir(str(tmp_path)) == ["c"]


def test_directories_are_made_with_parents_and_removed_with_content(fs: LocalFileSystem, tmp_path: Path) -> None:
    deep = str(tmp_path / "a" / "b" / "c")
    fs.mkdir(deep)
    fs.mkdir(deep)
    fs.create(deep + "/f")
    fs.sync_dir(deep)
    assert fs.directories(str(tmp_path / "a")) == ["b"]
    fs.remove_tree(str(tmp_path / "a"))
    fs.remove_tree(str(tmp_path / "a"))
    assert not fs.exists(deep)
    assert fs.free_bytes(str(tmp_path)) <= fs.total_bytes(str(tmp_path))


def test_a_second_lock_on_the_same_file_is_refused_with_the_process_id_of_the_holder(
    fs: LocalFileSystem, tmp_path: Path
) -> None:
    path = str(tmp_path / ".lock")
    lock = fs.lock(path)
    with pytest.raises(AlreadyLocked) as refused:
        LocalFileSystem(max_open_files=3).lock(path)
    assert refused.value.pid == os.getpid()
    lock.release()
    fs.lock(path).release()
