"""A simulated machine, and the lives of the processes on it.

A machine has an address, a disk, a clock that somebody may set wrong, and power. A `Life` is one process on it, from
its start to its end: a broker that is started again is another life on the same machine. Killing a life leaves the
machine as it is (what was written is in the page cache); a loss of power takes what was not synced, and gives a new
boot id.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine
from contextvars import Context
from random import Random
from typing import TYPE_CHECKING, Any

from moldau.testing.memory_disk import MemoryDisk
from moldau.testing.simulation.loop import LIFE, SimulatedLoop

if TYPE_CHECKING:
    from moldau.testing.simulation.network import Network

EPOCH_MS = 1_800_000_000_000
"""The wall clock of every machine when a simulation begins: a round moment in 2027."""

TASKS_KEPT = 256
"""How many ended tasks a life may remember before it looks through them."""


class Machine:
    """See the module."""

    def __init__(self, name: str, address: str, loop: SimulatedLoop, seed: int) -> None:
        self.name = name
        self.address = address
        self.loop = loop
        self.random = Random(seed)
        self.disk = MemoryDisk()
        self.broken: list[str] = []
        """Directories of which no file can be read or written: a disk that is gone, for all processes."""
        self.up = True
        self.clock_offset_ms = 0
        self.boot_id = self._new_boot_id()
        self.life: Life | None = None
        self.on_boot: list[Callable[[], None]] = []
        """What waits for this machine to be there again: packets that nobody answered."""

    def __repr__(self) -> str:
        return self.name

    def _new_boot_id(self) -> str:
        return self.random.randbytes(16).hex()

    def now_ms(self) -> int:
        """The wall clock. It may have been set; see `monotonic` for the one that cannot be."""
        return EPOCH_MS + int(self.loop.time() * 1000) + self.clock_offset_ms

    def monotonic(self) -> float:
        return self.loop.time()

    def begin(self, name: str) -> Life:
        """A process starts."""
        assert self.up, f"{self.name} has no power"
        assert self.life is None or self.life.dead, f"{self.name} runs {self.life}"
        self.life = Life(name, self)
        return self.life

    def lose_power(self, network: Network) -> None:
        """All at once: the process, the connections (without a word to the peers), unsynced bytes."""
        self.up = False
        network.machine_down(self)
        if self.life is not None:
            self.life.end()
        self.disk.lose_power(self.random.getrandbits(64))
        self.boot_id = self._new_boot_id()

    def power_on(self) -> None:
        self.up = True
        waiting, self.on_boot = self.on_boot, []
        for tell in waiting:
            tell()


class Life:
    """One process: what runs in its context is its own, and stops when it is held."""

    def __init__(self, name: str, machine: Machine) -> None:
        self.name = name
        self.machine = machine
        self.held = False
        self.dead = False
        self.context = Context()
        self.context.run(LIFE.set, self)
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
        """Starts a task of this process."""
        return self.context.run(self.loop.create_task, work)

    def soon(self, callback: Callable[..., object], *args: object) -> None:
        """Has this process called, as its loop would be by its sockets."""
        if not self.dead:
            self.loop.call_soon(callback, *args, context=self.context)

    # -- the loop's side -------------------------------------------------------------------------------------------

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
        """As SIGSTOP: nothing of it runs until `release`. Holds nest."""
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
        """The loop's own thread waits for a disk: callbacks go on when it has answered."""
        if not self.dead:
            self.hold()
            self.loop.call_later(seconds, self.release, context=Context())

    def end(self) -> None:
        """Nothing of it runs any more. Its tasks stay suspended where they are until `bury`."""
        self.dead = self.held = True

    def bury(self) -> None:
        """Closes what the dead left suspended, when the simulation is over: whatever they still say goes nowhere."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # coroutines that were about to be begun are not, either
            for task in self._tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    try:
                        task.get_coro().close()
                    except Exception:  # noqa: BLE001 - last words of a process that is dead already
                        continue
            self._tasks.clear()
            self._parked.clear()
