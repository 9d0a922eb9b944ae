"""Clock and randomness, passed in as arguments.

Code that makes decisions takes `now` as an argument; only the outermost code owns a Clock. There is no sleep here:
waiting is done by the event loop.
"""

from __future__ import annotations

import os
import random
import time
from typing import Protocol


class Clock(Protocol):
    """The two clocks of a broker."""

    def now_ms(self) -> int:
        """Wall clock in milliseconds since 1970, for stored and displayed times. May jump."""
        ...

    def monotonic(self) -> float:
        """Monotonic clock in seconds, for timeouts and durations."""
        ...


class SystemClock:
    """The clocks of the machine."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class Randomness(Protocol):
    """The source of random values of a broker."""

    def uuid(self) -> bytes:
        """The sixteen bytes of a random (version 4) UUID, never one of Kafka's reserved ids."""
        ...

    def random(self) -> float:
        """A float in [0, 1)."""
        ...


def uuid4_bytes(sixteen: bytes) -> bytes:
    """The version 4 UUID made of these random bytes.

    The version bits also exclude the two ids that Kafka reserves, 0 (none) and 1 (the metadata topic). The first byte
    is kept below 0xF8 so that the base64 text never starts with a dash, which a command line would parse as an
    option.
    """
    uuid = bytearray(sixteen)
    if uuid[0] >= 0xF8:
        uuid[0] &= 0x7F
    uuid[6] = uuid[6] & 0x0F | 0x40
    uuid[8] = uuid[8] & 0x3F | 0x80
    return bytes(uuid)


class SystemRandomness:
    """The operating system's entropy for ids, a seeded generator for the rest."""

    __slots__ = ("_generator",)

    def __init__(self) -> None:
        self._generator = random.Random(os.urandom(16))

    def uuid(self) -> bytes:
        return uuid4_bytes(os.urandom(16))

    def random(self) -> float:
        return self._generator.random()


class SeededRandomness:
    """The same values for the same seed, for tests and simulation."""

    __slots__ = ("_generator",)

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)

    def uuid(self) -> bytes:
        return uuid4_bytes(self._generator.randbytes(16))

    def random(self) -> float:
        return self._generator.random()
