"""Simulated machines: disks, clocks, threads, and what survives a crash."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator

import pytest

from moldau.client.producer import core as producer_core
from moldau.host import clock as system
from moldau.host.clock import SystemClock, SystemRandomness
from moldau.testing.simulation.disk import SimulatedFileSystem
from moldau.testing.simulation.loop import BEGINNING_S, SimulatedLoop
from moldau.testing.simulation.machine import EPOCH_MS, Machine, SimulatedProcess
from moldau.testing.simulation.network import SimulatedNetwork
from moldau.testing.simulation.substitutes import simulated_system
from moldau.testing.simulation.threads import SimulatedThreads


class Place:
    """One machine, with a process that has files and threads."""

    def __init__(self) -> None:
        self.loop = SimulatedLoop()
        self.network = SimulatedNetwork(self.loop, 1, pytest.fail)
        self.machine = Machine("one", "10.0.0.1", self.loop, 1)
        self.network.add(self.machine)
        self.begin()

    def begin(self) -> None:
        self.process: SimulatedProcess = self.machine.begin("one")
        self.threads = SimulatedThreads(self.process)
        self.fs = SimulatedFileSystem(self.process, self.threads)

    def write(self, path: str, data: bytes, *, sync: bool) -> None:
        file = self.fs.create(path)
        file.append([data])
        if sync:
            file.sync()
            self.fs.sync_dir("/")
        file.close()


@pytest.fixture
def place() -> Iterator[Place]:
    place = Place()
    yield place
    place.loop.close()


def test_written_data_survives_a_kill_and_synced_data_a_power_loss(place: Place) -> None:
    place.write("/synced", b"safe", sync=True)
    place.write("/written", b"in the page cache", sync=False)
    before = place.machine.boot_id
    place.process.end()
    place.machine.disk.kill_process()
    place.begin()
    assert place.fs.read_bytes("/written") == b"in the page cache"
    assert place.machine.boot_id == before
    found = set()
    for _ in range(20):
        place.machine.lose_power(place.network)
        place.machine.power_on()
        place.begin()
        assert place.fs.read_bytes("/synced") == b"safe"
        found.add(place.fs.exists("/written"))
        place.fs.remove("/written", missing_ok=True)
        place.write("/written", b"again", sync=False)
    assert found == {True, False}
    assert place.machine.boot_id != before


def test_nothing_that_a_dead_process_does_reaches_the_disk(place: Place) -> None:
    place.write("/a", b"1", sync=True)
    place.process.end()
    with pytest.raises(OSError, match="this process has ended"):
        place.write("/b", b"2", sync=False)
    with pytest.raises(OSError, match="this process has ended"):
        place.fs.remove("/a")


def test_a_slow_disk_delays_the_job_of_a_thread_or_the_whole_process(place: Place) -> None:
    place.write("/a", b"1", sync=True)
    place.fs.calls.slow_s = 1.0

    async def in_a_thread() -> float:
        began = place.loop.time()
        await place.threads.run("lane", place.write, "/b", b"2", sync=True)
        return place.loop.time() - began

    async def on_the_loop() -> float:
        began = place.loop.time()
        place.write("/c", b"3", sync=True)
        await asyncio.sleep(0)
        return place.loop.time() - began

    assert place.loop.run_until_complete(place.process.run(in_a_thread())) > 0.1
    assert place.loop.run_until_complete(place.process.run(on_the_loop())) > 0.1


def test_a_failed_disk_raises_the_errors_of_a_real_one(place: Place) -> None:
    place.fs.fail("pwritev", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        place.write("/a", b"1", sync=False)
    place.write("/b", b"2", sync=False)


def test_jobs_take_effect_at_a_random_moment_while_others_run(place: Place) -> None:
    done: list[str] = []

    async def scenario() -> None:
        jobs = [place.process.loop.create_task(place.threads.run(f"{n}", done.append, f"job {n}")) for n in range(5)]
        done.append("others")
        await asyncio.gather(*jobs)

    place.loop.run_until_complete(place.process.run(scenario()))
    assert done[0] == "others"
    assert sorted(done[1:]) == [f"job {n}" for n in range(5)]
    assert done[1:] != sorted(done[1:])


def test_the_wall_clock_may_jump_and_the_monotonic_clock_does_not(place: Place) -> None:
    assert place.machine.now_ms() == EPOCH_MS + int(BEGINNING_S * 1000)
    before = place.machine.monotonic()
    place.machine.clock_offset_ms -= 3_600_000
    assert place.machine.now_ms() == EPOCH_MS + int(BEGINNING_S * 1000) - 3_600_000
    assert place.machine.monotonic() == before


def test_clients_get_neither_real_time_nor_real_randomness(place: Place) -> None:
    real = system.time
    with simulated_system(place.loop, seed=1):
        assert SystemClock().now_ms() == EPOCH_MS + int(BEGINNING_S * 1000)
        assert SystemClock().monotonic() == BEGINNING_S
        first = SystemRandomness().uuid()
        sends = producer_core.Accumulator(1000, 0.0, 1 << 20, 1 << 20, lambda: None, pytest.fail)
        sends.know_topic("t", 1, [0])
        sends.send("t", b"v", partition=0)
        (queue,) = sends.collect(1e9)[0]
        assert sends.oldest(queue) == BEGINNING_S, "compiled code reads the real clock unless it is given another"
    with simulated_system(place.loop, seed=1):
        assert SystemRandomness().uuid() == first
    assert system.time is real
