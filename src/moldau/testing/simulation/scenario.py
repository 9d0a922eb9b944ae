"""Scenario of a simulation: start a cluster, let clients work under faults, heal everything, read and check.

`simulate(seed)` runs a simulation and returns its result. The same seed gives the same result, to the last line of its
trace.
"""

from __future__ import annotations

import asyncio
import gc
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from moldau.aio import Admin, Producer
from moldau.client.admin.topics import NewTopic
from moldau.client.errors import MoldauError
from moldau.testing.simulation.administrator import Administrator
from moldau.testing.simulation.checkers import Anomaly, judge
from moldau.testing.simulation.clients import (
    Member,
    OffsetWatcher,
    Reader,
    SimulatedClient,
    TransactionalWriter,
    Writer,
)
from moldau.testing.simulation.copier import Copier
from moldau.testing.simulation.history import History, Place
from moldau.testing.simulation.loop import BEGINNING_S, SimulatedLoop, Stuck
from moldau.testing.simulation.nemesis import Nemesis
from moldau.testing.simulation.reading import committed_offsets, read_copies, read_to_the_end
from moldau.testing.simulation.rights import RightsUser, RuleChanger
from moldau.testing.simulation.security import ADMIN, GUARDED, GUEST, STRANGER, worker_rules
from moldau.testing.simulation.security import SHARE as SECURED_SHARE
from moldau.testing.simulation.substitutes import simulated_system
from moldau.testing.simulation.trace import Line, LogListener, Trace, listening
from moldau.testing.simulation.world import World

START_TIMEOUT_S = 60.0
LIVE_WITHIN_S = 60.0
"""The time limit after the last fault within which the cluster must serve everything again."""

LAST_RIGHTS_S = 40.0
"""The time limit for the last changes of rules, which waits twice until all brokers must know them."""

PLAIN, TRANSACTED, COPIED = "plain", "transacted", "copied"
GROUP, COPIERS = "group", "copiers"
PARTITIONS = 2

VARIED = {
    "auto.leader.rebalance.enable": ("true", "true", "false"),
    "log.flush.interval.messages": ("9223372036854775807", "9223372036854775807", "9223372036854775807", "1"),
    "log.roll.ms": ("2000", "7000", "60000"),
    "replica.fetch.max.bytes": ("1048576", "256"),
    "replica.lag.time.max.ms": ("1800", "3000", "6000"),
}
"""Broker settings that vary with the seed, for other code paths and other timings."""

EXPECTED_FAILURES: tuple[type[BaseException], ...] = (OSError,)
"""Exceptions that the code may log as errors when disks and networks fail. Any other is a bug."""


@dataclass(frozen=True)
class Options:
    """Parameters of a simulation that the seed does not decide."""

    faults_s: float = 25.0
    faults: bool = True
    brokers: int | None = None
    """None: the seed decides."""
    pace_s: float | None = None
    """Approximate delay between two actions of a client; None: the seed decides."""
    secured: bool | None = None
    """Whether users log in and need rights; None: the seed decides."""
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """The outcome of one simulation."""

    seed: int
    anomalies: list[Anomaly]
    lines: list[Line]
    digest: str
    simulated_s: float
    counts: Mapping[str, int]
    trace: Trace


def simulate(seed: int, options: Options | None = None, prepare: Callable[[World], None] | None = None) -> Result:
    """Run one simulation. `prepare` may change the world before it begins, for tests."""
    options = options or Options()
    random = Random(seed)
    loop = SimulatedLoop()
    brokers = options.brokers or random.choice((3, 3, 3, 4))
    settings = {name: random.choice(values) for name, values in VARIED.items()}
    world = World(loop, random.getrandbits(64), brokers, {**settings, **options.settings})
    pace_s = random.choice((0.4, 1.0, 2.0))
    world.data = ("/data",) if random.random() < 0.7 else ("/data-1", "/data-2")
    world.pace_s = pace_s if options.pace_s is None else options.pace_s
    if seed % SECURED_SHARE == 0 if options.secured is None else options.secured:
        world.secure(seed)
    listener = LogListener(world.trace)
    loop.set_exception_handler(lambda _loop, context: _unhandled(world, context))
    # Collect cycles only at the end: the time of a collection depends on the process, and collecting costs a quarter.
    collecting = gc.isenabled()
    gc.disable()
    try:
        with listening(listener), simulated_system(loop, random.getrandbits(64)):
            if prepare is not None:
                prepare(world)
            try:
                loop.run_until_complete(_run(world, options, random.getrandbits(64)))
            except Stuck as stuck:
                world.anomaly("stuck", str(stuck))
            finally:
                loop.set_exception_handler(lambda _loop, _context: None)  # errors of closed tasks
                world.bury()
    finally:
        loop.close()
        if collecting:
            gc.enable()
        gc.collect()
    for at_s, who, error in listener.failures:
        if not isinstance(error, EXPECTED_FAILURES):
            world.anomalies.append(
                Anomaly("failure", f"{who} logged {type(error).__name__}: {error}{_where(error)}", at_s)
            )
    history = world.history
    return Result(
        seed,
        sorted([*world.anomalies, *judge(history)], key=lambda anomaly: anomaly.at_s),
        world.trace.lines,
        world.trace.digest(),
        loop.time() - BEGINNING_S,
        {"sent": len(history.sent), "acked": len(history.acked), "seen": len(history.seen), "turns": loop.turns}
        | _attempts(history),
        world.trace,
    )


def _attempts(history: History) -> dict[str, int]:
    """How often users used a right, and were denied one, in a secured cluster."""
    done = sum(attempt.done for attempt in history.attempts)
    return {"allowed": done, "denied": len(history.attempts) - done} if history.rules else {}


def _unhandled(world: World, context: Mapping[str, Any]) -> None:
    error = context.get("exception")
    if isinstance(error, (*EXPECTED_FAILURES, MoldauError)):
        world.trace.add("loop", f"{context['message']}: {error!r}")
    else:
        world.anomaly("failure", f"{context['message']}: {error!r}{_where(error)}")


def _where(error: BaseException | None) -> str:
    """The innermost line of the code that failed."""
    frames = traceback.extract_tb(None if error is None else error.__traceback__)
    return f" in {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno} ({frames[-1].name})" if frames else ""


async def _run(world: World, options: Options, seed: int) -> None:
    nemesis = Nemesis(world, seed)
    if not await _start(world):
        world.anomaly("not live", "the cluster did not come up")
        return
    places = [(topic, index) for topic in (PLAIN, TRANSACTED) for index in range(PARTITIONS)]
    tasks = _begin_clients(world, places)
    if options.faults:
        await nemesis.run(options.faults_s)
        await nemesis.heal()
    else:
        await asyncio.sleep(options.faults_s)
    healed = world.loop.time()
    await _finish(world, places, tasks, healed + LIVE_WITHIN_S)


async def _start(world: World) -> bool:
    starting = [broker.start() for broker in world.brokers]
    await asyncio.wait(starting)
    if not all(broker.serving for broker in world.brokers):
        return False
    process = world.client_process("client-admin")
    await process.run(_create_topics(world))
    return await world.until(lambda: _all_in_sync(world), START_TIMEOUT_S)


async def _create_topics(world: World) -> None:
    factor = min(3, len(world.brokers))
    names = (PLAIN, TRANSACTED, COPIED, *(() if world.security is None else (GUARDED,)))
    async with Admin({**world.client_settings(ADMIN), "client.id": "admin"}) as admin:
        await admin.create_topics([NewTopic(name, PARTITIONS, factor) for name in names])
        if world.security is not None:
            await admin.create_acls(worker_rules())
            await _write_first_record(world)


async def _write_first_record(world: World) -> None:
    """Something to read for users with the right."""
    async with Producer({**world.client_settings(ADMIN), "client.id": "first"}) as producer:
        await (await producer.send(GUARDED, b"first", partition=0))


def _begin_clients(world: World, places: list[Place]) -> list[asyncio.Task[None]]:
    protocol = world.random.choice(("classic", "consumer"))
    plain = [place for place in places if place[0] == PLAIN]
    clients: list[SimulatedClient] = [
        Writer(world, "client-w1", PLAIN, PARTITIONS),
        Writer(world, "client-w2", PLAIN, PARTITIONS, acks="1", idempotent=False),
        TransactionalWriter(world, "client-t1", TRANSACTED, PARTITIONS),
        Reader(world, "client-r1", places, rack="rack-1"),
        Reader(world, "client-r2", places, committed_only=True, rack=world.random.choice(("rack-0", "rack-2"))),
        Member(world, "client-m1", GROUP, PLAIN, protocol),
        Member(world, "client-m2", GROUP, PLAIN, protocol),
        OffsetWatcher(world, "client-o1", GROUP, plain),
    ]
    if world.random.random() < 0.5:
        clients += [Copier(world, f"client-c{number}", COPIERS, PLAIN, COPIED) for number in (1, 2)]
    if world.random.random() < 0.4:
        clients.append(Administrator(world, "client-a1", places))
    if world.security is not None:
        clients += [
            RuleChanger(world, "client-a2"),
            RightsUser(world, "client-g1", GUEST),
            RightsUser(world, "client-s1", STRANGER),
        ]
    return [world.begin(client) for client in clients]


def _all_in_sync(world: World) -> bool:
    """Whether every partition has a leader and all replicas in sync, no reassignment is in progress, and brokers host
    exactly their partitions."""
    states = world.partitions()
    whole = bool(states) and all(
        sorted(state.isr) == sorted(state.replicas) and state.leader >= 0 and not state.adding and not state.removing
        for state in states.values()
    )
    return whole and all(
        broker.broker is not None
        and sorted((one.topic, one.index) for one in broker.broker.replicas)
        == sorted(place for place, state in states.items() if broker.node_id in state.replicas)
        for broker in world.brokers
    )


async def _finish(world: World, places: list[Place], tasks: list[asyncio.Task[None]], deadline: float) -> None:
    """After healing: the cluster has until the deadline to serve everything. Then everything is read and compared."""
    loop = world.loop

    def left_s() -> float:
        return max(0.0, deadline - loop.time())

    if not await world.until(lambda: _all_in_sync(world), left_s()):
        states = [f"{place[0]}-{place[1]} {state}" for place, state in world.partitions().items()]
        world.anomaly("not live", f"not in sync {LIVE_WITHIN_S:.0f} s after the last fault: {'; '.join(states)}")
    for client in world.clients:
        client.stopping = True
    stopped, late = await asyncio.wait(tasks, timeout=max(left_s(), 1.0))
    for client, task in zip(world.clients, tasks, strict=True):
        if task in late:
            world.anomaly("not live", f"{client.name} has not ended")
        elif task in stopped and (error := task.exception()) is not None:
            world.anomaly("failure", f"a client ended with {type(error).__name__}: {error}")
    process = world.client_process("client-final")
    try:
        await process.run(_last_words(world, places, deadline))
        if world.security is not None:
            await process.run(_last_rights(world))
    except (MoldauError, TimeoutError) as error:
        world.anomaly("not live", f"not served {LIVE_WITHIN_S:.0f} s after the last fault: {error}")
    await asyncio.sleep(2.0)  # high watermarks reach the followers with their next fetch
    for broker in world.brokers:
        world.history.replicas.extend(broker.replicas())


async def _last_words(world: World, places: list[Place], deadline: float) -> None:
    """Write one more acknowledged record to every partition, then read everything."""
    loop = world.loop
    async with asyncio.timeout_at(max(deadline, loop.time() + 5.0)):
        plain = [place for place in places if place[0] == PLAIN]
        copied = [(COPIED, index) for _, index in plain]
        await Finisher(world, "client-last").write([*places, *copied])
        world.history.final = await read_to_the_end(world, places, committed_only=False)
        world.history.final_committed = await read_to_the_end(world, places, committed_only=True)
        copies = await read_to_the_end(world, copied, committed_only=True)
        world.history.copies = {place: read_copies(copies[COPIED, place[1]]) for place in plain}
        world.history.copied_to = await committed_offsets(world, COPIERS, plain)


async def _last_rights(world: World) -> None:
    """Change the rules once more, and see the effect."""
    async with asyncio.timeout(LAST_RIGHTS_S):
        await RuleChanger(world, "client-a3").finish(RightsUser(world, "client-g2", GUEST))


class Finisher(Writer):
    """Writes once to every partition, and waits for the acknowledgements."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name, PLAIN, PARTITIONS)

    async def write(self, places: list[Place]) -> None:
        async with Producer(self.settings(acks="all", enable_idempotence=True)) as producer:
            sent = []
            for topic, index in places:
                self.topic = topic
                sent.append(await self.send(producer, index))
            for one in sent:
                await one
