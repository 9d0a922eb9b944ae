"""Simulated machine, and the processes that run on it.

A machine has an address, a disk, power, and a wall clock that may be wrong. A `SimulatedProcess` lasts from a start to
an end: a restarted broker is another process on the same machine. Killing a process does not change the machine:
written bytes stay in the page cache. A power loss drops unsynced bytes and changes the boot id.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine
from contextvars import Context
from random import Random
from typing import TYPE_CHECKING, Any

from moldau.testing.memory_disk import MemoryDisk
from moldau.testing.simulation.loop import CURRENT_PROCESS, SimulatedLoop

if TYPE_CHECKING:
    from moldau.testing.simulation.network import SimulatedNetwork

EPOCH_MS = 1_800_000_000_000
"""The wall clock of every machine at the start of a simulation: a round number, in 2027."""

TASKS_KEPT = 256
"""The number of tasks that a process collects before it removes finished ones."""


class Machine:
    """A machine with one process at a time."""

    def __init__(self, name: str, address: str, loop: SimulatedLoop, seed: int) -> None:
        self.name = name
        self.address = address
        self.loop = loop
        self.random = Random(seed)
        self.disk = MemoryDisk()
        self.broken: list[str] = []
        """Directories whose files cannot be read or written by any process: a failed disk."""
        self.up = True
        self.clock_offset_ms = 0
        self.boot_id = self._new_boot_id()
        self.process: SimulatedProcess | None = None
        self.on_boot: list[Callable[[], None]] = []
        """Called when the machine has power again: packets that were not answered."""

    def __repr__(self) -> str:
        return self.name

    def _new_boot_id(self) -> str:
        return self.random.randbytes(16).hex()

    def now_ms(self) -> int:
        """The wall clock, which may have been changed; `monotonic` cannot be."""
        return EPOCH_MS + int(self.loop.time() * 1000) + self.clock_offset_ms

    def monotonic(self) -> float:
        return self.loop.time()

    def begin(self, name: str) -> SimulatedProcess:
        """Start a process."""
        assert self.up, f"{self.name} has no power"
        assert self.process is None or self.process.dead, f"{self.name} runs {self.process}"
        self.process = SimulatedProcess(name, self)
        return self.process

    def lose_power(self, network: SimulatedNetwork) -> None:
        """Lose at once: the process, the connections (without notice to the peers), and unsynced bytes."""
        self.up = False
        network.machine_down(self)
        if self.process is not None:
            self.process.end()
        self.disk.lose_power(self.random.getrandbits(64))
        self.boot_id = self._new_boot_id()

    def power_on(self) -> None:
        self.up = True
        waiting, self.on_boot = self.on_boot, []
        for tell in waiting:
            tell()


class SimulatedProcess:
    """One process. Callbacks in its context belong to it, and do not run while it is held."""

    def __init__(self, name: str, machine: Machine) -> None:
        self.name = name
        self.machine = machine
        self.held = False
        self.dead = False
        self.context = Context()
        self.context.run(CURRENT_PROCESS.set, self)
        self._holds = 0
        self._parked: list[asyncio.Handle] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._purge_at = TASKS_KEPT

    def __repr__(self) -> str:
        return self.name

    @property
    def loop(self) -> SimulatedLoop:
        return self.machine.loop

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task of this process."""
        return self.context.run(self.loop.create_task, work)

    def soon(self, callback: Callable[..., object], *args: object) -> None:
        """Schedule a callback in this process, as its sockets would."""
        if not self.dead:
            self.loop.call_soon(callback, *args, context=self.context)

    # -- called by the loop ----------------------------------------------------------------------------------------

    def park(self, handle: asyncio.Handle) -> None:
        if not self.dead:
            self._parked.append(handle)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        self._tasks.append(task)
        if len(self._tasks) >= self._purge_at:
            self._tasks = [one for one in self._tasks if not one.done()]
            self._purge_at = max(TASKS_KEPT, 2 * len(self._tasks))

    # -- faults ----------------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Pause the process, as SIGSTOP does, until `release`. Holds nest."""
        self._holds += 1
        self.held = True

    def release(self) -> None:
        self._holds -= 1
        if self._holds or self.dead:
            return
        self.held = False
        parked, self._parked = self._parked, []
        for handle in parked:
            self.loop.again(handle)

    def stall(self, seconds: float) -> None:
        """Pause because the loop's thread waits for the disk: callbacks continue after that time."""
        if not self.dead:
            self.hold()
            self.loop.call_later(seconds, self.release, context=Context())

    def end(self) -> None:
        """End the process: none of its callbacks runs any more. Its tasks stay suspended until `bury`."""
        self.dead = self.held = True

    def bury(self) -> None:
        """Close the suspended tasks of a dead process at the end of the simulation. Anything they still do has no
        effect."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # for coroutines that were never started
            for task in self._tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    try:
                        task.get_coro().close()
                    except Exception:  # noqa: BLE001 - errors of a dead process have no meaning
                        continue
            self._tasks.clear()
            self._parked.clear()
