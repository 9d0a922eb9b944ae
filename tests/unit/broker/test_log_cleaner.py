"""Log cleaner: selection of logs, checkpoints, and failures."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

from moldau.broker.log_cleaner import REST_AFTER_FAILURE_S, LogCleaner
from moldau.cluster.image import PartitionState
from moldau.host.clock import SeededRandomness
from moldau.log import file_names
from moldau.log.config import LogConfig
from moldau.log.dirs import LogDirs
from moldau.replication.partition import Partition
from moldau.settings import BrokerSettings
from moldau.testing.faulty_fs import FaultyFileSystem
from tests.unit.log.clean.support import COMPACTED, committed, complete, flush, offsets, put
from tests.unit.log.support import ROOT, TOPIC_ID, FixedClock, InlineThreads, close_dirs, open_dirs

CHECKPOINT = f"{ROOT}/cleaner-offset-checkpoint"


class CleanerSetup:
    """The logs of a broker, without the broker."""

    def __init__(self, fs: FaultyFileSystem | None = None, config: LogConfig = COMPACTED) -> None:
        self.fs = fs or FaultyFileSystem()
        self.clock = FixedClock()
        self.config = config
        self.dirs: LogDirs = open_dirs(self.fs, config, clock=self.clock)
        self.partitions = [self._partition(log) for log in self.dirs.logs.values()]
        self.settings = BrokerSettings({})

    def _partition(self, log: Any) -> Partition:
        partition = Partition(log.topic, TOPIC_ID, log.partition, log, log.end_offset)
        partition.lead(1, PartitionState((1,), (1,), 1, 0, 0), 0.0)
        partition.refresh(0.0, 30.0)
        return partition

    def add(self, topic: str, config: LogConfig | None = None) -> Partition:
        partition = self._partition(self.dirs.create(topic, TOPIC_ID, 0, config or self.config))
        self.partitions.append(partition)
        return partition

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.partitions)

    def flush(self, partition: Partition) -> None:
        flush(partition.log)

    def cleaning(self) -> LogCleaner:
        return LogCleaner(lambda: self.settings, self, self.dirs, InlineThreads(), self.clock, SeededRandomness(1))

    def restart(self) -> CleanerSetup:
        close_dirs(self.dirs)
        return CleanerSetup(self.fs, self.config)


def run(
    scenario: Callable[[CleanerSetup], Coroutine[Any, Any, None]], setup: CleanerSetup | None = None
) -> CleanerSetup:
    """Run a scenario in a setup that was created before, because creating one runs its own event loop."""
    setup = setup or CleanerSetup()
    asyncio.run(scenario(setup))
    return setup


def settle(partition: Partition) -> None:
    complete(partition.log)
    partition.advance()


def dirty(partition: Partition, turns: int = 5) -> None:
    for turn in range(turns):
        put(partition.log, ("a", f"{turn}"), ("b", f"{turn}"))
    settle(partition)


def test_the_dirtiest_log_is_cleaned_first_and_all_are_cleaned() -> None:
    async def scenario(setup: CleanerSetup) -> None:
        some, more, none = setup.add("some"), setup.add("more"), setup.add("none", LogConfig())
        cleaning = setup.cleaning()
        dirty(some)
        assert await cleaning.clean_one()
        dirty(some)
        dirty(more)
        dirty(none)
        assert await cleaning.clean_one()
        assert offsets(more.log) == [8, 9]
        assert offsets(some.log)[0] == 8
        assert await cleaning.clean_one()
        assert offsets(some.log) == [18, 19]
        assert not await cleaning.clean_one()
        assert len(offsets(none.log)) == 10
        assert cleaning.counts.cleanings == 3

    run(scenario)


def test_the_end_of_a_cleaning_is_remembered_across_restarts() -> None:
    async def first(setup: CleanerSetup) -> None:
        dirty(setup.add("t"))
        await setup.cleaning().clean_one()

    setup = run(first)
    assert setup.fs.read_bytes(CHECKPOINT) == b"0\n1\nt 0 10\n"
    later = setup.restart()

    async def second(later: CleanerSetup) -> None:
        cleaning = later.cleaning()
        await cleaning.remember()
        assert not await cleaning.clean_one()
        dirty(later.partitions[0])
        assert await cleaning.clean_one()
        assert offsets(later.partitions[0].log) == [18, 19]

    run(second, later)
    assert later.fs.read_bytes(CHECKPOINT) == b"0\n1\nt 0 20\n"


def test_a_log_that_is_closed_after_a_clean_stop_is_opened_only_when_its_cleaning_is_due() -> None:
    setup = CleanerSetup()
    dirty(setup.add("due"))
    settle(setup.add("idle"))
    later = setup.restart()

    async def scenario(later: CleanerSetup) -> None:
        cleaning = later.cleaning()
        assert await cleaning.clean_one()
        assert not await cleaning.clean_one()

    run(scenario, later)
    by_topic = {partition.topic: partition.log for partition in later.partitions}
    assert offsets(by_topic["due"]) == [8, 9]
    assert by_topic["idle"].untouched


def test_a_checkpoint_after_the_end_of_a_log_is_ignored() -> None:
    setup = CleanerSetup()
    dirty(setup.add("t"))
    setup.fs.write_atomically(CHECKPOINT, b"0\n2\nt 0 99\ngone 3 5\n")

    async def scenario(setup: CleanerSetup) -> None:
        cleaning = setup.cleaning()
        await cleaning.remember()
        await cleaning.clean_one()

    run(scenario, setup)
    assert offsets(setup.partitions[0].log) == [8, 9]
    assert setup.fs.read_bytes(CHECKPOINT) == b"0\n1\nt 0 10\n"


def test_a_truncated_log_is_dirty_after_the_truncation() -> None:
    async def scenario(setup: CleanerSetup) -> None:
        partition = setup.add("t")
        cleaning = setup.cleaning()
        dirty(partition)
        await cleaning.clean_one()
        cleaning.truncated(partition.log, 4)
        dirty(partition)
        assert await cleaning.clean_one()
        assert cleaning.counts.cleanings == 2

    run(scenario)


def test_a_topic_that_is_created_again_is_cleaned_from_its_start() -> None:
    async def scenario(setup: CleanerSetup) -> None:
        partition = setup.add("t")
        cleaning = setup.cleaning()
        dirty(partition)
        await cleaning.clean_one()
        setup.dirs.delete(partition.log)
        setup.partitions.clear()
        again = setup.add("t")
        dirty(again, turns=3)
        assert await cleaning.clean_one()
        assert offsets(again.log) == [4, 5]
        assert setup.fs.read_bytes(CHECKPOINT) == b"0\n1\nt 0 6\n"

    run(scenario)


def test_keys_that_do_not_fit_in_memory_are_cleaned_in_several_passes_without_a_pause() -> None:
    async def scenario(setup: CleanerSetup) -> None:
        setup.settings = BrokerSettings({"log.cleaner.dedupe.buffer.size": "4096"})
        partition = setup.add("t")
        for turn in range(2):
            for number in range(500):
                put(partition.log, (f"{number}", f"{turn}"))
        settle(partition)
        cleaning = setup.cleaning()
        assert await cleaning.clean_one()
        assert cleaning.counts.cleanings > 3
        assert offsets(partition.log) == list(range(500, 1000))
        assert not await cleaning.clean_one()

    run(scenario, CleanerSetup(config=replace(COMPACTED, segment_bytes=100_000, max_message_bytes=100_000)))


def test_a_log_that_cannot_be_cleaned_does_not_block_others() -> None:
    async def scenario(setup: CleanerSetup) -> None:
        broken, sound = setup.add("broken"), setup.add("sound")
        dirty(broken)
        dirty(sound)
        inode = setup.fs.disk._seen[f"{broken.log.directory}/{file_names.segment_file(0, file_names.LOG)}"]
        assert inode is not None
        inode.data[75] ^= 1
        cleaning = setup.cleaning()
        while await cleaning.clean_one():
            pass
        assert cleaning.counts.failures == 1
        assert offsets(sound.log) == [8, 9]
        assert not [name for name in setup.fs.listdir(broken.log.directory) if name.endswith(file_names.CLEANED)]
        setup.clock.ms += 10**9
        assert not await cleaning.clean_one(), "a damaged log must not be tried again"

    run(scenario)


def test_a_cleaning_that_failed_with_a_full_disk_is_tried_again_later() -> None:
    async def scenario(setup: CleanerSetup) -> None:
        partition = setup.add("t")
        dirty(partition)
        setup.fs.fail("pwritev", errno.ENOSPC, path="*.cleaned", times=None)
        cleaning = setup.cleaning()
        assert await cleaning.clean_one()
        assert not await cleaning.clean_one()
        assert len(offsets(partition.log)) == 10
        assert not [name for name in setup.fs.listdir(partition.log.directory) if name.endswith(file_names.CLEANED)]
        setup.fs.heal()
        setup.clock.ms += int(REST_AFTER_FAILURE_S * 1000)
        assert await cleaning.clean_one()
        assert offsets(partition.log) == [8, 9]

    run(scenario)


def test_a_disk_failure_during_a_swap_takes_the_directory_offline_and_the_next_start_finishes_the_swap() -> None:
    setup = CleanerSetup()
    partition = setup.add("t")
    dirty(partition)
    expected = committed(partition.log)

    async def scenario(setup: CleanerSetup) -> None:
        setup.fs.fail("rename", errno.EIO, path="*.swap", times=None)
        cleaning = setup.cleaning()
        assert await cleaning.clean_one()
        assert cleaning.counts.failures == 1
        assert not setup.dirs.online

    run(scenario, setup)
    setup.dirs.release()
    later = CleanerSetup(setup.fs.after_kill(), setup.config)
    assert offsets(later.partitions[0].log) == [8, 9]
    assert committed(later.partitions[0].log) == expected


def test_a_log_that_changes_while_it_is_cleaned_keeps_its_segments() -> None:
    async def scenario(setup: CleanerSetup) -> None:
        partition = setup.add("t")
        dirty(partition)
        dirty(partition)
        cleaning = setup.cleaning()
        worker = cleaning._worker

        class Meddler:
            async def run(self, job: Any, seed: bytes, take: Any) -> Any:
                async def late(replacement: Any) -> None:
                    partition.log.delete_before(10)  # records are deleted, and with them the first segment
                    await take(replacement)

                return await worker.run(job, seed, late)

            async def stop(self) -> None: ...

        cleaning._worker = Meddler()
        assert await cleaning.clean_one()
        assert cleaning.counts.cleanings == 0
        assert offsets(partition.log) == list(range(10, 20))
        left = [
            name
            for name in setup.fs.listdir(partition.log.directory)
            if name.endswith((file_names.CLEANED, file_names.SWAP))
        ]
        assert not left

    run(scenario)


def test_a_recovered_log_is_flushed_and_then_cleaned() -> None:
    setup = CleanerSetup()
    dirty(setup.add("t"))
    setup.dirs.release()
    later = CleanerSetup(setup.fs.after_kill(), setup.config)

    async def scenario(later: CleanerSetup) -> None:
        cleaning = later.cleaning()
        assert await cleaning.clean_one()

    run(scenario, later)
    assert offsets(later.partitions[0].log) == [8, 9]


def test_a_cleaner_that_is_turned_off_does_nothing() -> None:
    async def scenario(setup: CleanerSetup) -> None:
        dirty(setup.add("t"))
        setup.settings = BrokerSettings({"log.cleaner.enable": "false"})
        cleaning = setup.cleaning()
        await cleaning.start()
        await cleaning.stop()
        assert len(offsets(setup.partitions[0].log)) == 10

    run(scenario)


def test_stopping_waits_only_for_the_current_work() -> None:
    async def scenario(setup: CleanerSetup) -> None:
        dirty(setup.add("t"))
        cleaning = setup.cleaning()
        await cleaning.start()
        async with asyncio.timeout(5):
            await cleaning.stop()

    run(scenario)
