"""Substitutes for system time and entropy, for clients.

A broker is constructed with its clock and its randomness. A client creates its own, always through `moldau.host.clock`.
During a simulation, that module gets virtual time and seeded bytes instead of the system's.
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
from moldau.testing.simulation.loop import CURRENT_PROCESS, SimulatedLoop
from moldau.testing.simulation.machine import EPOCH_MS


class _Time:
    """Replaces the module `time`. Each process gets the clock of its machine."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def time_ns(self) -> int:
        process: Any = CURRENT_PROCESS.get()
        if process is None:
            return EPOCH_MS * 1_000_000 + int(self._loop.time() * 1e9)
        return int(process.machine.now_ms()) * 1_000_000

    def monotonic(self) -> float:
        return self._loop.time()


class _Chance:
    """Replaces the module `os` for `urandom`."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def urandom(self, size: int) -> bytes:
        return self._random.randbytes(size)


@contextmanager
def simulated_system(loop: SimulatedLoop, seed: int) -> Iterator[None]:
    """Inside the block, `moldau.host.clock` returns neither real time nor real entropy."""
    replaced: list[tuple[Any, str, Any]] = [
        (system, "time", _Time(loop)),
        (system, "os", _Chance(seed)),
        # The native accumulator reads the system clock itself unless it is given a clock.
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
