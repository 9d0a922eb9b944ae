"""Move of a log to another data directory: no loss and no duplicates at any crash."""

from __future__ import annotations

import pytest

from moldau.host.fault_points import POINTS
from moldau.host.fs import FileSystem
from moldau.log import file_names
from moldau.log.config import LogConfig
from moldau.log.dirs import LogDirs, LogDirsError
from moldau.log.log import Log
from moldau.log.log_move import Move
from moldau.testing.memory_disk import MemoryDisk
from tests.unit.log.clean.support import Died, Mortal
from tests.unit.log.support import NAME, NOW, TOPIC_ID, append_all, batch, flush, open_dirs, read_all, with_threads

PATHS = ("/one", "/two")
SMALL = LogConfig(segment_bytes=1500, max_message_bytes=1500, index_interval_bytes=150, file_delete_delay_ms=0)


class Machine:
    """Two data directories on a disk that outlives processes."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.start()

    def start(self) -> LogDirs:
        self.mortal = Mortal(self.disk)
        self.dirs = open_dirs(FileSystem(self.mortal, 32), SMALL, PATHS)  # type: ignore[arg-type]
        return self.dirs

    def restart(self, power_loss: int | None = None) -> LogDirs:
        if power_loss is None:
            self.disk.kill_process()
        else:
            self.disk.lose_power(power_loss)
        return self.start()

    def written(self) -> Log:
        log = self.dirs.create(NAME.topic, TOPIC_ID, NAME.partition, SMALL)
        for sequence in range(30):
            log.append(batch(3, producer_id=7, sequence=sequence * 3), sequence // 10, NOW)
        flush(log)
        return log


def other_dir(dirs: LogDirs, log: Log) -> str:
    return next(path for path in PATHS if path != log.data_dir.path)


def begin(dirs: LogDirs, log: Log) -> Move:
    target = next(one for one in dirs.all if one.path == other_dir(dirs, log))
    move = Move(log, target, dirs.randomness.uuid().hex())
    move.begin(NOW)
    move.copy(NOW)
    return move


def finish(dirs: LogDirs, move: Move) -> Log:
    assert move.ready()
    later = move.take_place(NOW)
    dirs.logs[later.name] = later
    move.sync()
    dirs.retire(move.source, later)
    move.clear_up()
    return later


def test_a_moved_log_keeps_all_its_state() -> None:
    machine = Machine()
    log = machine.written()
    log.delete_before(10)
    before = read_all(log)
    target = other_dir(machine.dirs, log)
    later = finish(machine.dirs, begin(machine.dirs, log))
    assert later.directory == f"{target}/{NAME}"
    assert read_all(later) == before
    assert (later.start_offset, later.end_offset, later.topic_id) == (10, 90, TOPIC_ID)
    assert later.epochs.entries() == log.epochs.entries()
    assert later.producers.producers[7].next_sequence == 90
    assert later.append(batch(producer_id=7, sequence=90), 2, NOW).first_offset == 90
    flush(later)
    assert machine.dirs.logs == {NAME: later}
    assert list(machine.dirs.all[PATHS.index(target)].logs) == [NAME]
    restarted = machine.restart()
    assert [record.offset for record in read_all(restarted.logs[NAME])] == list(range(10, 91))
    assert file_names.MOVED not in machine.dirs.fs.listdir(f"{target}/{NAME}")


def test_records_appended_during_the_move_are_moved_too() -> None:
    machine = Machine()
    log = machine.written()
    move = begin(machine.dirs, log)
    append_all(log, 20)
    assert move.lag == 20
    later = finish(machine.dirs, move)
    assert later.end_offset == 110
    assert len(read_all(later)) == 110


def test_a_copy_that_is_less_safe_than_the_log_is_not_ready() -> None:
    machine = Machine()
    log = machine.written()
    move = begin(machine.dirs, log)
    append_all(log, 5)
    flush(log)
    assert not move.ready()
    move.copy(NOW)
    assert move.ready()


def test_a_cancelled_move_leaves_nothing() -> None:
    machine = Machine()
    log = machine.written()
    move = begin(machine.dirs, log)
    move.abandon()
    assert not [name for name in machine.dirs.fs.directories(other_dir(machine.dirs, log)) if "future" in name]
    assert len(read_all(log)) == 90


def test_a_log_can_move_back_and_forth() -> None:
    machine = Machine()
    log = machine.written()
    for _ in range(3):
        log = finish(machine.dirs, begin(machine.dirs, log))
        append_all(log, 1)
        flush(log)
    assert [record.offset for record in read_all(machine.restart().logs[NAME])] == list(range(93))


def steps() -> int:
    machine = Machine()
    log = machine.written()
    before = machine.mortal.changes
    finish(machine.dirs, begin(machine.dirs, log))
    return machine.mortal.changes - before


@pytest.mark.parametrize("power_loss", [None, 1, 2])
def test_a_crash_at_any_step_leaves_one_complete_log(power_loss: int | None) -> None:
    for step in range(steps()):
        machine = Machine()
        log = machine.written()
        expected = read_all(log)
        machine.mortal.dies_at = machine.mortal.changes + step
        with pytest.raises(Died):
            finish(machine.dirs, begin(machine.dirs, log))
        dirs = machine.restart(power_loss)
        assert read_all(dirs.logs[NAME]) == expected, f"after step {step}"
        found = [path for path in PATHS if str(NAME) in dirs.fs.directories(path)]
        assert found == [dirs.logs[NAME].data_dir.path]
        with_threads(dirs.write_checkpoints)  # this also removes leftovers
        assert not [name for path in PATHS for name in dirs.fs.directories(path) if "-future" in name]
        # The next process can move the log again, and append to it.
        later = finish(dirs, begin(dirs, dirs.logs[NAME]))
        assert read_all(later) == expected


def test_all_fault_points_are_passed() -> None:
    passed: list[str] = []
    points = [point for name, point in POINTS.items() if name.startswith("move.")]
    for point in points:
        machine = Machine()
        log = machine.written()
        with point.armed(lambda name=point.name: passed.append(name)):  # type: ignore[misc]
            finish(machine.dirs, begin(machine.dirs, log))
    assert passed == [point.name for point in points]


def test_a_partition_that_exists_twice_without_a_move_is_refused() -> None:
    machine = Machine()
    log = machine.written()
    machine.dirs.release()
    fs = machine.dirs.fs
    (other,) = [path for path in PATHS if path != log.data_dir.path]
    fs.mkdir(f"{other}/{NAME}")
    for file in fs.listdir(log.directory):
        fs.write_atomically(f"{other}/{NAME}/{file}", fs.read_bytes(f"{log.directory}/{file}"))
    with pytest.raises(LogDirsError, match="two data directories"):
        machine.restart()
