"""Nemesis: a schedule of faults that follows from the seed.

Each simulation enables only some kinds of faults, with its own frequency: rare combinations occur sooner that way than
if all kinds were always enabled. Faults overlap. `heal` repairs everything at the end.

Some failures need several faults within milliseconds, on brokers with certain roles. At random that would happen once
in thousands of simulations. Sequences do it on purpose: they read from the store who leads and who is in sync, and then
inject one fault after another. Most simulations have at least one sequence.

Power losses are limited by the durability model (`World.may_lose_power`). All other faults may hit any broker at any
time, including all brokers at once.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any

from moldau.cluster.image import NO_LEADER, PartitionState
from moldau.testing.memory_disk import DEFAULT_CAPACITY
from moldau.testing.simulation.brokers import SimulatedBroker
from moldau.testing.simulation.machine import Machine
from moldau.testing.simulation.world import World

RESTART_TIMEOUT_S = 30.0

SEQUENCE_CHANCE = 0.4
"""The probability that a simulation has a given sequence."""

MOMENT_S = 0.005
"""The interval at which a sequence checks what was stored."""


class Nemesis:
    """The faults of one world."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = Random(seed)
        self.kinds: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "resets": self.resets,
            "slow link": self.slow_link,
            "partition": self.partition,
            "one-way partition": self.one_way_partition,
            "partial partition": self.partial_partition,
            "cut off from the store": self.cut_from_store,
            "kill": self.kill,
            "power loss": self.power_loss,
            "pause": self.pause,
            "restart": self.restart,
            "rolling restart": self.rolling_restart,
            "slow disk": self.slow_disk,
            "full disk": self.full_disk,
            "disk error": self.disk_error,
            "disk gone": self.disk_gone,
            "clock jump": self.clock_jump,
            "store connection lost": self.store_connection_lost,
            "session expiry": self.session_expiry,
            "slow store server": self.slow_store_server,
        }
        sequences: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "comeback": self.comeback,
            "succession": self.succession,
        }
        count = self.random.choice((2, 3, 4, 6, 9))
        enabled = self.random.sample(sorted(self.kinds), count)
        enabled += [name for name in sorted(sequences) if self.random.random() < SEQUENCE_CHANCE]
        self.enabled = sorted(enabled)
        self.kinds |= sequences
        self.interval_s = self.random.choice((0.7, 1.5, 3.0, 6.0))
        self._tasks: list[asyncio.Task[None]] = []
        self._busy: dict[SimulatedBroker, None] = {}
        """Brokers that are being stopped or started, so that only one task does it at a time."""

    def note(self, what: str) -> None:
        self.world.trace.add("nemesis", what)

    async def run(self, duration_s: float) -> None:
        """Inject faults for this long."""
        self.note(f"faults: {', '.join(self.enabled)}; every {self.interval_s} s")
        loop = self.world.loop
        ends = loop.time() + duration_s
        while loop.time() < ends:
            await asyncio.sleep(min(self.random.expovariate(1 / self.interval_s), ends - loop.time()))
            strike = self.kinds[self.random.choice(self.enabled)]
            self._tasks.append(loop.create_task(strike()))
        await asyncio.gather(*self._tasks)

    async def heal(self) -> None:
        """Repair everything: links, disks, processes. Clocks are not set back."""
        self.note("heals")
        world = self.world
        for server in world.ensemble.servers[1:]:
            server.lag_s = 0.02
        for broker in world.brokers:
            self._mend_disk(broker)
        for broker in world.brokers:
            if broker.process is not None and self._directory_failed(broker):
                broker.kill()
            await self._start(broker)

    # -- choosing targets ------------------------------------------------------------------------------------------

    def _broker(self) -> SimulatedBroker:
        return self.random.choice(self.world.brokers)

    def _free_broker(self) -> SimulatedBroker | None:
        """A running broker that is not being started or stopped."""
        free = [broker for broker in self.world.brokers if broker not in self._busy and broker.process is not None]
        return self.random.choice(free) if free else None

    def _seconds(self, at_least: float, at_most: float) -> float:
        return self.random.uniform(at_least, at_most)

    def _machines(self) -> list[Machine]:
        clients = [process.machine for process in self.world.processes if process.machine.name.startswith("client")]
        return [broker.machine for broker in self.world.brokers] + clients

    # -- network faults --------------------------------------------------------------------------------------------

    async def resets(self) -> None:
        connections = self.world.network.connections()
        chosen = self.random.sample(connections, min(len(connections), self.random.randint(1, 6)))
        self.note(f"resets {len(chosen)} of {len(connections)} connections")
        for connection in chosen:
            self.world.network.reset(connection)

    async def slow_link(self) -> None:
        one, other = self.random.sample(self._machines(), 2)
        slow_s, seconds = self.random.choice((0.02, 0.1, 0.5)), self._seconds(1, 10)
        self.note(f"slow link {one} to {other}: up to {slow_s} s more, for {seconds:.1f} s")
        link = self.world.network.link(one, other)
        link.slow_s += slow_s
        await asyncio.sleep(seconds)
        link.slow_s -= slow_s

    async def _cut_for(self, links: Sequence[tuple[Machine, Machine]], seconds: float) -> None:
        for source, target in links:
            self.world.network.cut(source, target)
        await asyncio.sleep(seconds)
        for source, target in links:
            self.world.network.mend(source, target)

    async def partition(self) -> None:
        """Cut one broker from the others, perhaps also from the store and from some clients."""
        alone = self._broker().machine
        others = [machine for machine in self._machines() if machine is not alone and self.random.random() < 0.8]
        if self.random.random() < 0.6:
            others.append(self.world.store_machine)
        seconds = self._seconds(0.3, 12)
        self.note(f"cuts {alone} from {', '.join(map(str, others))} for {seconds:.1f} s")
        await self._cut_for([pair for one in others for pair in ((alone, one), (one, alone))], seconds)

    async def one_way_partition(self) -> None:
        alone = self._broker().machine
        others = [broker.machine for broker in self.world.brokers if broker.machine is not alone]
        if self.random.random() < 0.4:
            others.append(self.world.store_machine)
        seconds, outwards = self._seconds(0.3, 12), self.random.random() < 0.5
        pairs = [(alone, one) if outwards else (one, alone) for one in others]
        self.note(f"cuts the way {'out of' if outwards else 'into'} {alone} ({len(pairs)} links) for {seconds:.1f} s")
        await self._cut_for(pairs, seconds)

    async def partial_partition(self) -> None:
        if len(self.world.brokers) < 2:
            return
        one, other = self.random.sample([broker.machine for broker in self.world.brokers], 2)
        seconds = self._seconds(0.3, 12)
        self.note(f"cuts {one} from {other} for {seconds:.1f} s")
        await self._cut_for([(one, other), (other, one)], seconds)

    async def cut_from_store(self) -> None:
        count = self.random.choice((1, 1, 2, len(self.world.brokers)))
        chosen = [broker.machine for broker in self.random.sample(self.world.brokers, count)]
        store, seconds = self.world.store_machine, self._seconds(0.3, 12)
        self.note(f"cuts {', '.join(map(str, chosen))} from the store for {seconds:.1f} s")
        await self._cut_for([pair for one in chosen for pair in ((one, store), (store, one))], seconds)

    # -- process and machine faults --------------------------------------------------------------------------------

    async def kill(self) -> None:
        broker = self._broker()
        if broker.process is not None:
            await self._strike_down(broker, broker.kill, self._seconds(0.1, 10))

    async def power_loss(self) -> None:
        broker = self._broker()
        if broker.process is not None and self.world.may_lose_power(broker):
            await self._strike_down(broker, broker.lose_power, self._seconds(0.3, 10))

    async def _strike_down(self, broker: SimulatedBroker, strike: Callable[[], None], down_s: float) -> None:
        """Inject a fault, then start the broker again, unless another task already stops or starts it and will do
        that."""
        looked_after = broker in self._busy
        self._busy[broker] = None
        strike()
        if not looked_after:
            await asyncio.sleep(down_s)
            await self._start(broker)

    async def pause(self) -> None:
        broker = self._free_broker()
        process = None if broker is None else broker.process
        if process is not None:
            seconds = self.random.choice((self._seconds(0.05, 1), self._seconds(1, 12)))
            self.note(f"pauses {process} for {seconds:.1f} s")
            process.hold()
            await asyncio.sleep(seconds)
            process.release()
            self.note(f"{process} continues")

    async def restart(self) -> None:
        broker = self._free_broker()
        if broker is not None and broker.serving:
            await self._restart(broker)

    async def rolling_restart(self) -> None:
        self.note("restarts all brokers, one after the other")
        for broker in self.world.brokers:
            if broker not in self._busy and broker.serving:
                await self._restart(broker)
                await asyncio.sleep(self._seconds(0, 3))

    async def _restart(self, broker: SimulatedBroker) -> None:
        self._busy[broker] = None
        stopped = broker.stop()
        if not await self.world.until(lambda: stopped.done() or broker.process is None, RESTART_TIMEOUT_S):
            broker.kill()
        await asyncio.sleep(self._seconds(0.05, 2))
        await self._start(broker)

    async def _start(self, broker: SimulatedBroker) -> None:
        """Start the broker, and retry until it serves."""
        self._busy[broker] = None
        # A broker without its only disk cannot start: the task that repairs the disk starts it.
        seconds = 5.0 if broker.machine.broken else RESTART_TIMEOUT_S
        deadline = self.world.loop.time() + seconds
        while not broker.serving and self.world.loop.time() < deadline:
            if broker.process is None:
                broker.power_on()
                broker.start()
            await self.world.until(lambda: broker.serving or broker.process is None, deadline - self.world.loop.time())
            await asyncio.sleep(self._seconds(0.05, 1))
        self._busy.pop(broker, None)

    # -- fault sequences -------------------------------------------------------------------------------------------

    async def comeback(self) -> None:
        """A follower goes down and returns, and responses to it are slow. As soon as the store has it in the ISR again,
        the leader that added it dies, perhaps together with all other in-sync replicas. Then the follower may have to
        lead.
        """
        chosen = self._in_sync(followers=1)
        if chosen is None:
            return
        follower = self.random.choice(chosen[1:])
        strike = follower.lose_power if self.world.may_lose_power(follower) else follower.kill
        down_s = self.random.choice((self._seconds(0.05, 1), self._seconds(4, 8)))
        slow_s = self.random.choice((0.02, 0.1, 0.5))
        self.note(f"{follower} comes back in {down_s:.1f} s; answers to it take up to {slow_s} s more")
        links = [self.world.network.link(one.machine, follower.machine) for one in self.world.brokers]
        for link in links:
            link.slow_s += slow_s
        down = self.world.loop.create_task(self._strike_down(follower, strike, down_s))
        taken_in = await self._taken_in(follower, down_s + self._seconds(2, 6))
        if taken_in is not None:
            await self._bereave(
                follower, taken_in, self.random.choice((0.0, self._seconds(0, 0.1), self._seconds(0, 1)))
            )
        await down
        for link in links:
            link.slow_s -= slow_s

    async def succession(self) -> None:
        """An in-sync follower gets no records for a moment, too short to leave the ISR. Meanwhile the leader dies,
        perhaps together with all other in-sync replicas. The records of this follower must be enough.
        """
        chosen = self._in_sync(followers=2)
        if chosen is not None:
            await self._bereave(self.random.choice(chosen[1:]), chosen, self._seconds(0.1, 1.5))

    def _in_sync(self, followers: int) -> list[SimulatedBroker] | None:
        """The leader of some partition and its in-sync followers, at least this many. All of them serve."""
        found = [self._members(state) for state in self.world.partitions().values() if state.leader >= 0]
        fit = [
            members
            for members in found
            if len(members) > followers and all(one.serving and one not in self._busy for one in members)
        ]
        return self.random.choice(fit) if fit else None

    def _members(self, state: PartitionState) -> list[SimulatedBroker]:
        """The brokers in the ISR, the leader first."""
        by_id = {broker.node_id: broker for broker in self.world.brokers}
        return [by_id[state.leader], *(by_id[one] for one in state.isr if one != state.leader)]

    async def _taken_in(self, broker: SimulatedBroker, timeout_s: float) -> list[SimulatedBroker] | None:
        """The ISR of the first partition that adds the broker to its ISR again, as soon as that is stored."""
        world, deadline = self.world, self.world.loop.time() + timeout_s
        known, states = -1, world.partitions()
        while world.loop.time() < deadline:
            if world.ensemble.index != known:
                known, before, states = world.ensemble.index, states, world.partitions()
                taking = [
                    state
                    for place, state in states.items()
                    if place in before
                    and broker.node_id not in before[place].isr
                    and broker.node_id in state.isr
                    and state.leader not in (NO_LEADER, broker.node_id)
                ]
                if taking:
                    return self._members(self.random.choice(taking))
            await asyncio.sleep(MOMENT_S)
        return None

    async def _bereave(self, heir: SimulatedBroker, members: Sequence[SimulatedBroker], in_s: float) -> None:
        """Kill the first of the members, or all of them except the heir.

        Mostly the heir is cut off from them at once, so that it does not even get what they sent before they died. That
        arrives when they are back and other brokers lead.
        """
        others = [one for one in members if one is not heir]
        victims = others if self.random.random() < 0.6 else others[:1]
        links = [(one.machine, heir.machine) for one in victims] if self.random.random() < 0.7 else []
        self.note(f"{', '.join(map(str, victims))} die in {in_s:.3f} s{', cut from' if links else ', before'} {heir}")
        for source, target in links:
            self.world.network.cut(source, target)
        await asyncio.sleep(in_s)
        living = [one for one in victims if one.process is not None]
        await asyncio.gather(*(self._strike_down(one, one.kill, self._seconds(0.1, 6)) for one in living))
        for source, target in links:
            self.world.network.mend(source, target)

    # -- disk and clock faults -------------------------------------------------------------------------------------

    async def slow_disk(self) -> None:
        broker = self._broker()
        fs = broker.fs
        if fs is not None and broker.process is not None:
            slow_s, seconds = self.random.choice((0.005, 0.05, 0.3)), self._seconds(1, 8)
            self.note(f"the disk of {broker} takes up to {slow_s} s per call, for {seconds:.1f} s")
            fs.calls.slow_s = slow_s
            await asyncio.sleep(seconds)
            fs.calls.slow_s = 0.0

    async def full_disk(self) -> None:
        broker = self._free_broker()
        if broker is not None:
            disk, seconds = broker.machine.disk, self._seconds(1, 6)
            total, free = disk.space("/")
            room = self.random.randint(0, 4096)
            self.note(f"the disk of {broker} has {room} bytes left, for {seconds:.1f} s")
            disk.capacity = total - free + room
            await asyncio.sleep(seconds)
            await self._replace_disk(broker)

    async def disk_error(self) -> None:
        broker = self._free_broker()
        if broker is not None and broker.fs is not None:
            call, directory = (
                self.random.choice(("pwritev", "fdatasync", "preadv")),
                self.random.choice(self.world.data),
            )
            self.note(f"the disk of {broker} fails a {call} in {directory}")
            broker.fs.fail(call, errno.EIO, path=f"{directory}/*", after=self.random.randint(0, 5))
            await asyncio.sleep(self._seconds(1, 6))
            await self._replace_disk(broker)

    async def disk_gone(self) -> None:
        """A data directory fails for a while, perhaps during a restart. A broker that starts without it considers its
        records lost."""
        broker = self._free_broker()
        if broker is not None and not broker.machine.broken and self.world.may_lose_power(broker):
            broker.may_lack_records = True
            directory = self.random.choice(self.world.data)
            self.note(f"{directory} of {broker} fails")
            broker.machine.broken.append(directory)
            await asyncio.sleep(self._seconds(0.5, 6))
            if self.random.random() < 0.5 and broker not in self._busy:
                await self._strike_down(broker, broker.kill, self._seconds(0.1, 2))
            self.note(f"{directory} of {broker} is repaired")
            await self._replace_disk(broker)

    async def _replace_disk(self, broker: SimulatedBroker) -> None:
        """Repair the disk, and restart a broker that has taken a directory offline."""
        self._mend_disk(broker)
        if broker not in self._busy and (broker.process is None or self._directory_failed(broker)):
            self._busy[broker] = None
            broker.kill()
            await self._start(broker)

    def _mend_disk(self, broker: SimulatedBroker) -> None:
        broker.machine.disk.capacity = DEFAULT_CAPACITY
        broker.machine.broken.clear()
        if broker.fs is not None:
            broker.fs.heal()

    def _directory_failed(self, broker: SimulatedBroker) -> bool:
        return broker.broker is not None and broker.broker.log_dirs.any_offline

    async def clock_jump(self) -> None:
        machine = self.random.choice(self._machines())
        jump_ms = self.random.choice((-3_600_000, -60_000, -1_000, 1_000, 60_000, 3_600_000))
        self.note(f"the clock of {machine} jumps by {jump_ms} ms")
        machine.clock_offset_ms += jump_ms

    # -- store faults ----------------------------------------------------------------------------------------------

    async def store_connection_lost(self) -> None:
        broker = self._broker()
        session = self.world.session_of(broker)
        process = broker.process
        if session is not None and process is not None:
            self.note(f"{process} loses its connection to the store")
            process.soon(session.break_connection)

    async def session_expiry(self) -> None:
        broker = self._broker()
        session = self.world.session_of(broker)
        if session is not None:
            self.note(f"the session of {broker} expires")
            self.world.ensemble.expire(session)

    async def slow_store_server(self) -> None:
        server = self.random.choice(self.world.ensemble.servers[1:])
        server.lag_s, seconds = self.random.choice((0.2, 1.0, 3.0)), self._seconds(1, 10)
        self.note(f"a server of the store lags by up to {server.lag_s} s for {seconds:.1f} s")
        await asyncio.sleep(seconds)
        server.lag_s = 0.02
