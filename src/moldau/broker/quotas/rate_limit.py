"""Rate limits: state machines that count use and say for how long the client must pause.

Time is passed in, in seconds. There are two kinds, because Kafka has two kinds of quotas:

* `RateLimit` holds a steady rate: bytes, request time, connections.
* `TokenBucket` admits bursts: changes of the metadata, which come in bulk and rarely (KIP-599).

`RateLimit` differs from Kafka on purpose. Kafka averages over the last ten to eleven seconds: a client that was idle
sends ten seconds' worth of bytes at once, and is then throttled for most of the next ten. Here a client may run ahead
of its rate by `burst_s` only. So it is served evenly, and its rate holds over every ten seconds, also over the first.
Apart from that, a throttle is as long as in Kafka: the time until the rate is right again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

AHEAD_SHARE: Final = 1 / 50
"""How far a client may run ahead of its byte rate, as a share of the window: 0.2 of 10 seconds."""

SHORTEST_S: Final = 0.002
"""Shorter pauses are left out; the debt stays. A timer may end a pause a little early, and the next request must not be
answered with a throttle of a millisecond then: some clients wait much longer after an empty response."""


class QuotaWindow(NamedTuple):
    """The window of `quota.window.num` samples (the last one is incomplete) of `quota.window.size.seconds` each."""

    samples: int = 11
    sample_s: float = 1.0

    @property
    def seconds(self) -> float:
        """The time over which a rate holds. A single throttle is never longer."""
        return max(1, self.samples - 1) * self.sample_s

    @property
    def ahead_s(self) -> float:
        return self.seconds * AHEAD_SHARE


class RateLimit:
    """One rate. What was used above the rate is a debt that decreases at the rate.

    The debt is kept in units, not in seconds, so that a change of the rate applies to it, too. It is limited to
    `longest_s` of the rate: more is forgiven, so that no request can silence a client for longer.
    """

    __slots__ = ("_debt", "_settled_at", "burst_s", "longest_s", "rate")

    def __init__(self, rate: float, burst_s: float, longest_s: float) -> None:
        self.rate = rate
        """Units per second. 0 throttles every use for the longest time."""
        self.burst_s = burst_s
        self.longest_s = longest_s
        self._debt = 0.0
        self._settled_at = 0.0

    def charge(self, amount: float, now: float) -> float:
        """Count a use, and return the seconds of pause that it needs; 0.0 within the rate."""
        if self.rate <= 0:
            return self.longest_s
        debt = self._debt - (now - self._settled_at) * self.rate
        self._debt = min(max(debt, 0.0) + amount, self.rate * (self.burst_s + self.longest_s))
        self._settled_at = now
        seconds = self._debt / self.rate - self.burst_s
        return seconds if seconds >= SHORTEST_S else 0.0

    def pause(self, now: float) -> float:
        """The seconds until further use is within the rate; 0.0 if it is now."""
        if self.rate <= 0:
            return self.longest_s
        seconds = (self._debt - (now - self._settled_at) * self.rate) / self.rate - self.burst_s
        return min(seconds, self.longest_s) if seconds >= SHORTEST_S else 0.0

    def is_idle(self, now: float) -> bool:
        """Whether there is no debt: then a new limit would decide the same."""
        return self._debt <= (now - self._settled_at) * self.rate

    @property
    def portion(self) -> float:
        """A fitting size for one use of many: less than may be used at once, so that the rate is even."""
        return self.rate * self.burst_s / 2


class TokenBucket:
    """Kafka's token bucket: full at first and after `burst_s` without use. A use is allowed while the bucket is not
    overdrawn, and may overdraw it."""

    __slots__ = ("_filled_at", "_tokens", "burst_s", "rate")

    def __init__(self, rate: float, burst_s: float, now: float) -> None:
        self.rate = rate
        self.burst_s = burst_s
        self._tokens = rate * burst_s
        self._filled_at = now

    def take(self, amount: float, now: float) -> float:
        """Take tokens, and return the seconds until the bucket is no longer overdrawn; 0.0 if it is not."""
        self._fill(now)
        self._tokens -= amount
        return self._overdrawn_s()

    def pause(self, now: float) -> float:
        """The seconds until a use is allowed; 0.0 if it is now."""
        self._fill(now)
        return self._overdrawn_s()

    def is_idle(self, now: float) -> bool:
        """Whether the bucket is full: then a new one would decide the same."""
        self._fill(now)
        return self._tokens >= self.rate * self.burst_s

    def _fill(self, now: float) -> None:
        self._tokens = min(self.rate * self.burst_s, self._tokens + (now - self._filled_at) * self.rate)
        self._filled_at = now

    def _overdrawn_s(self) -> float:
        if self._tokens >= 0:
            return 0.0
        return -self._tokens / self.rate if self.rate > 0 else self.burst_s
