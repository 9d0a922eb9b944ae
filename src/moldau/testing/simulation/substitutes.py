"""Time and chance for code that asks the system: clients, which are given neither.

A broker gets its clock and its randomness handed in. A client makes its own, always through `moldau.host.clock`; for as
long as a simulation runs, that module's system calls answer with the simulated time and with seeded bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any

from moldau.client.producer import core as producer_core
from moldau.client.producer.engine import Accumulator
from moldau.host import clock as system
from moldau.testing.simulation.loop import LIFE, SimulatedLoop
from moldau.testing.simulation.machine import EPOCH_MS


class _Time:
    """Stands where the module `time` does. Each process is told the clock of its machine."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def time_ns(self) -> int:
        life: Any = LIFE.get()
        if life is None:
            return EPOCH_MS * 1_000_000 + int(self._loop.time() * 1e9)
        return int(life.machine.now_ms()) * 1_000_000

    def monotonic(self) -> float:
        return self._loop.time()


class _Chance:
    """Stands where the module `os` does, as far as entropy is concerned."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def urandom(self, size: int) -> bytes:
        return self._random.randbytes(size)


@contextmanager
def simulated_system(loop: SimulatedLoop, seed: int) -> Iterator[None]:
    """Inside of the block nobody learns the real time or gets real entropy from `moldau.host.clock`."""
    replaced: list[tuple[Any, str, Any]] = [
        (system, "time", _Time(loop)),
        (system, "os", _Chance(seed)),
        # The native accumulator reads the system's clock by itself unless it is given one.
        (producer_core, "Accumulator", partial(Accumulator, clock=system.SystemClock())),
    ]
    before = [getattr(module, name) for module, name, _ in replaced]
    for module, name, value in replaced:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(replaced, before, strict=True):
            setattr(module, name, value)
