"""Time and randomness as values that are passed in.

Code that decides takes `now` as an argument; only the shell owns a Clock. There is no sleeping here: waiting is the
event loop's business.
"""

from __future__ import annotations

import os
import random
import time
from typing import Protocol


class Clock(Protocol):
    """What a broker knows about time."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970: for what is stored or shown. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards: for time-outs and durations."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class Randomness(Protocol):
    """What a broker needs of chance."""

    def uuid(self) -> bytes:
        """Sixteen bytes of a random (version 4) UUID, never one of Kafka's reserved ids."""
        ...

    def random(self) -> float:
        """A float in [0, 1)."""
        ...


def uuid4_bytes(sixteen: bytes) -> bytes:
    """The version 4 UUID made of these random bytes.

    The version bits also keep it clear of the two ids that Kafka reserves, 0 (none) and 1 (the metadata topic), and
    the first byte is kept below 0xF8 so that its base64 text never begins with a dash, which command lines take for
    an option.
    """
    uuid = bytearray(sixteen)
    if uuid[0] >= 0xF8:
        uuid[0] &= 0x7F
    uuid[6] = uuid[6] & 0x0F | 0x40
    uuid[8] = uuid[8] & 0x3F | 0x80
    return bytes(uuid)


class SystemRandomness:
    """The operating system's entropy for identities, a seeded generator for the rest."""

    __slots__ = ("_generator",)

    def __init__(self) -> None:
        self._generator = random.Random(os.urandom(16))

    def uuid(self) -> bytes:
        return uuid4_bytes(os.urandom(16))

    def random(self) -> float:
        return self._generator.random()


class SeededRandomness:
    """The same choices for the same seed, for tests and simulation."""

    __slots__ = ("_generator",)

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)

    def uuid(self) -> bytes:
        return uuid4_bytes(self._generator.randbytes(16))

    def random(self) -> float:
        return self._generator.random()
