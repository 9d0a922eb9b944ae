"""File system with injected faults: faults as configured, and realistic power losses."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from moldau.host.fs import SyncFailed
from moldau.host.syscalls import LinuxCalls
from moldau.testing.faulty_fs import FaultyFileSystem
from moldau.testing.memory_disk import MemoryDisk

SEEDS = range(200)


def test_it_is_a_file_system() -> None:
    fs = FaultyFileSystem()
    fs.mkdir("/a/b")
    file = fs.create("/a/b/f")
    file.append([b"hello", b" world"])
    assert file.read(6, 5) == b"world"
    assert file.read_cached(0, 5) == bytearray(b"hello")
    file.truncate(5)
    assert fs.read_bytes("/a/b/f") == b"hello"
    assert fs.listdir("/a/b") == ["f"]
    fs.rename("/a/b", "/a/c")
    assert fs.read_bytes("/a/c/f") == b"hello"
    fs.remove_tree("/a")
    assert fs.listdir("/") == []


@pytest.mark.parametrize(
    "attempt",
    [
        lambda fs: fs.open("/missing"),
        lambda fs: fs.listdir("/missing"),
        lambda fs: fs.create("/missing/f"),
        lambda fs: fs.rename("/missing", "/x"),
        lambda fs: fs.remove("/missing"),
    ],
)
def test_a_missing_file_is_an_error_as_on_a_real_disk(attempt: object) -> None:
    with pytest.raises(FileNotFoundError):
        attempt(FaultyFileSystem())  # type: ignore[operator]


def test_a_power_loss_keeps_synced_data_and_any_part_of_the_rest() -> None:
    found: set[bytes] = set()
    for seed in SEEDS:
        fs = FaultyFileSystem()
        file = fs.create("/f")
        file.append([b"safe"])
        file.sync()
        fs.sync_dir("/")
        file.append([b"maybe"])
        content = fs.after_power_loss(seed).read_bytes("/f")
        assert content.startswith(b"safe")
        assert len(content) <= 9
        found.add(content)
    assert {b"safe", b"safemaybe", b"safemay"} <= found
    assert any(content[4:].strip(b"\0") not in (b"", *(b"maybe"[:n] for n in range(6))) for content in found)


def test_the_same_seed_loses_the_same() -> None:
    def crash(seed: int) -> dict[str, bytes]:
        fs = FaultyFileSystem()
        for number in range(5):
            fs.create(f"/{number}").append([b"x" * 10_000])
        fs = fs.after_power_loss(seed)
        return {name: fs.read_bytes(f"/{name}") for name in fs.listdir("/")}

    assert crash(5) == crash(5)
    assert any(crash(seed) != crash(5) for seed in range(5))


def test_a_name_that_was_not_synced_may_be_lost_with_its_file() -> None:
    outcomes = set()
    for seed in SEEDS:
        fs = FaultyFileSystem()
        fs.create("/f").sync()
        outcomes.add(fs.after_power_loss(seed).exists("/f"))
    assert outcomes == {True, False}


def test_a_rename_that_was_not_synced_happened_or_did_not_and_nothing_between() -> None:
    outcomes = set()
    for seed in SEEDS:
        fs = FaultyFileSystem()
        fs.write_atomically("/f", b"old")
        fs.write_atomically("/g", b"new")
        fs.rename("/g", "/f")
        fs = fs.after_power_loss(seed)
        outcomes.add((fs.read_bytes("/f"), fs.exists("/g")))
    assert outcomes == {(b"old", True), (b"new", False)}


def test_an_atomic_write_is_the_old_content_or_the_new_one_whatever_happens() -> None:
    for seed in SEEDS:
        for step in range(6):
            fs = FaultyFileSystem()
            fs.write_atomically("/f", b"old")
            for call in ("create", "pwritev", "fdatasync", "rename", "fsync"):
                fs.fail(call, errno.EIO, after=0 if step == 0 else step - 1, times=None)
            try:
                fs.write_atomically("/f", b"new")
                expected = {b"new"}
            except OSError:
                expected = {b"old", b"new"}
            assert fs.after_power_loss(seed).read_bytes("/f") in expected


def test_a_killed_process_loses_its_descriptors_and_locks_and_no_bytes() -> None:
    fs = FaultyFileSystem()
    lock = fs.lock("/lock")
    file = fs.create("/f")
    file.append([b"abc"])
    after = fs.after_kill()
    after.lock("/lock")
    assert after.read_bytes("/f") == b"abc"
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.append([b"ghost"])
    lock.release()


def test_dirty_bytes_of_a_failed_fsync_are_gone_even_if_a_later_one_would_succeed() -> None:
    found: set[bytes] = set()
    for seed in range(20):
        fs = FaultyFileSystem()
        file = fs.create("/f")
        fs.sync_dir("/")
        file.append([b"gone"])
        fs.fail("fdatasync", errno.EIO)
        with pytest.raises(OSError, match="Input/output"):
            file.sync()
        with pytest.raises(SyncFailed):
            file.sync()
        fs.open("/f").sync()  # another handle does not know of the error and reports success
        found.add(fs.after_power_loss(seed).read_bytes("/f"))
    assert b"" in found


def test_a_full_disk_takes_the_bytes_that_fit() -> None:
    fs = FaultyFileSystem(MemoryDisk(capacity=10))
    file = fs.create("/f")
    file.append([b"12345678"])
    with pytest.raises(OSError, match="No space left"):
        file.append([b"12345678"])
    assert file.size == 8
    assert fs.size("/f") == 8  # truncated
    assert fs.free_bytes("/") == 2
    file.append([b"12"])


def test_faults_occur_where_and_as_often_as_configured() -> None:
    fs = FaultyFileSystem()
    good, bad = fs.create("/good"), fs.create("/bad")
    fs.fail("pwritev", errno.EIO, path="/bad", after=1, times=2)
    bad.append([b"1"])
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            bad.append([b"2"])
        good.append([b"x"])
    bad.append([b"3"])
    assert fs.read_bytes("/bad") == b"13"


def test_slow_files_are_never_in_the_cache_and_take_their_time() -> None:
    fs = FaultyFileSystem()
    slept: list[float] = []
    fs.calls._sleep = slept.append
    fs.slow("/slow*", 0.5)
    for name in ("/slow", "/fast"):
        fs.create(name).append([b"abc"])
    assert fs.open("/slow").read_cached(0, 3) is None
    assert slept == []
    assert fs.open("/slow").read(0, 3) == b"abc"
    assert slept == [0.5]
    assert fs.open("/fast").read_cached(0, 3) == bytearray(b"abc")


def test_faults_can_be_put_on_top_of_the_real_disk(tmp_path: Path) -> None:
    fs = FaultyFileSystem(LinuxCalls())
    file = fs.create(str(tmp_path / "f"))
    file.append([b"abc"])
    fs.fail("pwritev", errno.ENOSPC, path="*/f", partial=1)
    with pytest.raises(OSError, match="No space left"):
        file.append([b"def"])
    assert (tmp_path / "f").read_bytes() == b"abc"


def test_files_give_descriptors_back_when_the_process_has_none_left() -> None:
    fs = FaultyFileSystem()
    files = [fs.create(f"/{number}") for number in range(5)]
    for file in files[:4]:
        file.append([b"x"])
    fs.fail("open", errno.EMFILE)
    files[4].append([b"x"])
    assert [file.fd >= 0 for file in files] == [False, False, True, True, True]
