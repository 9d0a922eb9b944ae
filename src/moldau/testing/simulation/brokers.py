"""Simulated broker: the real broker on a simulated machine, with any number of restarts."""

from __future__ import annotations

import asyncio
import hashlib
from posixpath import join
from typing import TYPE_CHECKING

from moldau.broker.assembly import assemble
from moldau.broker.broker import Broker
from moldau.cluster.store import Store, StoreError
from moldau.host.clock import SeededRandomness
from moldau.log.errors import LogError
from moldau.records.batch_layout import BATCH_STEP, LENGTH_END
from moldau.replication.partition import Partition
from moldau.testing.memory_disk import MemoryDisk
from moldau.testing.simulation.disk import SimulatedFileSystem
from moldau.testing.simulation.history import Led, Replica
from moldau.testing.simulation.machine import Machine, SimulatedProcess
from moldau.testing.simulation.security import PROTOCOL
from moldau.testing.simulation.threads import SimulatedThreads

if TYPE_CHECKING:
    from moldau.testing.simulation.world import World

PORT = 9092
STOP_TIMEOUT_S = 30.0
"""A clean stop that takes longer is aborted, as an operator would do."""

FACTOR = 3
FACTOR_SETTINGS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)
IN_SYNC_SETTINGS = ("min.insync.replicas", "transaction.state.log.min.isr")

SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    # In a quiet cluster most events are fetches without records.
    "replica.fetch.wait.max.ms": "1500",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "log.retention.ms": "-1",
    # Clocks of clients and brokers jump by hours.
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    # The replicas are compared by their bytes, which compaction changes; compaction has its own tests.
    "log.cleaner.enable": "false",
}
"""Settings that differ from a broker's defaults: small values, so that a minute covers what otherwise takes days."""


class SimulatedBroker:
    """A broker and its machine. The simulation calls its methods, not the broker's own process."""

    def __init__(self, world: World, node_id: int, machine: Machine) -> None:
        self.node_id = node_id
        self.machine = machine
        self.broker: Broker | None = None
        """The broker that runs, or that ran last."""
        self.fs: SimulatedFileSystem | None = None
        self.may_lack_records = False
        """It has lost records, or believes so, and has not fetched them again: see `World.may_lose_power`."""
        self.serving = False
        self._world = world
        self._started = 0

    def __repr__(self) -> str:
        return self.machine.name

    @property
    def address(self) -> str:
        return f"{self.machine.name}:{PORT}"

    @property
    def process(self) -> SimulatedProcess | None:
        process = self.machine.process
        return process if process is not None and not process.dead else None

    # -- lifecycle -------------------------------------------------------------------------------------------------

    def start(self) -> asyncio.Task[None]:
        """Start a new process. The task ends when the broker serves, or when the start failed."""
        self._started += 1
        process = self.machine.begin(f"{self.machine.name}.{self._started}")
        self._world.processes.append(process)
        self._world.trace.add(process, "starts")
        return process.run(self._live(process))

    async def _live(self, process: SimulatedProcess) -> None:
        machine = self.machine
        threads = SimulatedThreads(process)
        self.fs = SimulatedFileSystem(process, threads)
        security = self._world.security
        texts = {
            **SETTINGS,
            **self._world.broker_settings,
            **({} if security is None else security.broker_settings()),
            "node.id": str(self.node_id),
            "broker.rack": f"rack-{self.node_id % 3}",
            "listeners": f"{'PLAINTEXT' if security is None else PROTOCOL}://{self.address}",
            "log.dirs": ",".join(self._world.data),
        }
        factor = min(FACTOR, len(self._world.brokers))
        texts |= dict.fromkeys(FACTOR_SETTINGS, str(factor)) | dict.fromkeys(IN_SYNC_SETTINGS, str(min(2, factor)))
        try:
            broker = await assemble(
                texts,
                fs=self.fs,
                clock=machine,
                randomness=SeededRandomness(machine.random.getrandbits(64)),
                threads=threads,
                boot_id=machine.boot_id,
                open_store=lambda: self._open_store(process),
            )
            self.broker = broker
            broker.replicas.on_leadership(lambda partition, leads: self._led(process, partition, leads))
            await broker.start()
        except (OSError, StoreError, LogError) as error:
            # The process reports the error and exits; the nemesis starts it again.
            self._world.trace.add(process, f"could not start: {type(error).__name__}: {error}")
            self._exit(process)
            return
        self.serving = True
        self._world.trace.add(process, "serves")

    async def _open_store(self, process: SimulatedProcess) -> Store:
        return await self._world.open_store(process)

    def _led(self, process: SimulatedProcess, partition: Partition, leads: bool) -> None:
        place = (partition.topic, partition.index)
        if leads:
            led = Led(place, partition.leader_epoch, str(process), self._world.trace.now_s(), partition.topic_id)
            self._world.history.led.append(led)
        self._world.trace.add(
            process, f"{'leads' if leads else 'no longer leads'} {place[0]}-{place[1]} epoch {partition.leader_epoch}"
        )

    def stop(self) -> asyncio.Task[None]:
        """Stop cleanly, as with SIGTERM."""
        process = self.process
        assert process is not None
        self._world.trace.add(process, "begins a clean stop")
        return process.run(self._stop(process))

    async def _stop(self, process: SimulatedProcess) -> None:
        self.serving = False
        assert self.broker is not None
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self.broker.stop()
        except (OSError, StoreError, LogError) as error:
            self._world.trace.add(process, f"stopped badly: {type(error).__name__}: {error}")
        self._world.trace.add(process, "stopped")
        self._exit(process)

    def _exit(self, process: SimulatedProcess) -> None:
        self.serving = False
        process.end()
        self._world.network.process_died(process)
        self.machine.disk.kill_process()

    def kill(self) -> None:
        """Kill the process as `kill -9` would: what it wrote stays in the page cache of its machine."""
        process = self.process
        if process is not None:
            self._world.trace.add(process, "is killed")
            self._exit(process)

    def lose_power(self) -> None:
        self._world.trace.add(self.machine.process or self.machine, "loses power")
        self.serving = False
        self.may_lack_records = True
        self.machine.lose_power(self._world.network)

    def power_on(self) -> None:
        if not self.machine.up:
            self._world.trace.add(self.machine, "has power again")
            self.machine.power_on()

    # -- disk contents ---------------------------------------------------------------------------------------------

    def replicas(self) -> list[Replica]:
        """Every partition that it hosts, as it is in its files."""
        assert self.broker is not None
        found = []
        for partition in self.broker.replicas:
            folder = partition.log.directory
            batches = tuple(
                batch
                for path in _logs(self.machine.disk, folder)
                for batch in _batches(_whole(self.machine.disk, path))
            )
            found.append(
                Replica(
                    (partition.topic, partition.index),
                    self.node_id,
                    partition.log.start_offset,
                    partition.high_watermark,
                    batches,
                )
            )
        return found


def _logs(disk: MemoryDisk, folder: str) -> list[str]:
    return sorted(join(folder, name) for name, _ in disk.scan(folder) if name.endswith(".log"))


def _whole(disk: MemoryDisk, path: str) -> bytes:
    data = bytearray(disk.stat_size(path))
    fd = disk.open(path, 0)
    disk.preadv(fd, [data], 0)
    disk.close(fd)
    return bytes(data)


def _batches(data: bytes) -> list[tuple[int, int, str]]:
    found = []
    position = 0
    while position + BATCH_STEP.size <= len(data):
        base, length, _, last = BATCH_STEP.unpack_from(data, position)
        end = position + LENGTH_END + length
        if length <= 0 or end > len(data):
            break
        found.append((base, base + last, hashlib.sha1(data[position:end], usedforsecurity=False).hexdigest()[:8]))
        position = end
    return found
