"""Pace of fetch responses for clients that use librdkafka.

librdkafka checks its queue before each fetch. If it is full (`queued.min.messages`, `queued.max.messages.kbytes`),
librdkafka waits up to one second before it looks again, and the application empties the queue long before that. A
broker that sends faster than the application reads causes such a pause for every full queue; one that sends slightly
slower causes none. The protocol does not tell the broker how full the queue is, so the pacer learns from the pauses:

* No response is delayed before the first pause.
* A pause is a fetch that comes 0.2 to 1.5 s after a response, and much later than this client usually needs. A longer
  gap is not a pause: the queue was still full after a second, so the application is the limit.
* After a pause, the pacer spaces the responses further apart. The run of responses before the pause has filled the
  queue, so its pace was too fast. At the average pace of the run and the pause together the queue became empty, so that
  would be too slow. The new pace is between the two, closer to the first.
* Without a pause, the pacer shortens the spacing step by step until it is gone. After each pause it waits longer before
  it starts to do so.

The pace is a minimum time between responses, in proportion to their size. A client that takes longer by itself is
not delayed, nor is a reader that has caught up.
"""

from __future__ import annotations

MEBIBYTE = 1024 * 1024

CAUGHT_UP_S = 0.1
"""A fetch that waited longer for its records belongs to a reader that has caught up. That ends the run."""
RUN_MIN_BYTES = MEBIBYTE
"""A gap after a shorter run is not a pause: the run has filled no queue."""
PACED_RESPONSE_BYTES = MEBIBYTE
"""The size limit of paced responses. Other requests of the connection wait at most for one paced response."""

PAUSE_MIN_S = 0.2
"""librdkafka 2.0 pauses until the current second of its loop is over, later versions for a second. Shorter gaps occur
on busy machines, and cost little."""
PAUSE_MAX_S = 1.5
PAUSE_TO_USUAL = 10
"""A pause is at least this many times as long as the client usually needs. On a slow network all gaps are long."""
USUAL_MIN = 0.001 / MEBIBYTE
USUAL_GROWTH = 1.25
"""The usual gap per byte is the shortest of late. It grows by this factor with every longer gap."""

INTERVAL_MIN = 0.001 / MEBIBYTE
"""In seconds per byte, like all intervals. Pacing ends below it."""
INTERVAL_MAX = 0.032 / MEBIBYTE
"""An application in Python that polls single records of 100 bytes needs about 0.02 s for a MiB."""
DELAY_MIN_S = 0.005
"""A shorter delay is added to the next one. A timer for every response would cost more than the delay: on a busy
machine each timer is late."""
DELAY_MAX_S = 0.05
CREDIT_S = 0.02
"""A client that is late by up to this time may catch up."""

RUN_MIN_S = 0.02
"""A shorter run counts as this long: a single response that fills the queue must not lead to an extreme correction."""
FIRST_CORRECTION = 1.2
"""Small, because a single pause may be an accident: the machine was busy, the application had to wait for something."""
CORRECTION_MIN = 1.05
CORRECTION_EXPONENT = 1 / 3
"""0: keep the pace of the run; 1: take the average pace of the run and the pause."""

HOLD_MIN_S = 2.0
HOLD_MAX_S = 16.0
"""How long the pace is kept after a pause: 2 s at first, twice as long after each further pause. So a reader in a
steady state loses about one second of twenty to pauses."""
STEPS_PER_HOLD = 8
STEP_MAX_S = 1.0
STEP_FACTOR = 0.95


def needs_pacing(client_software: str) -> bool:
    """Whether a client uses librdkafka. Its bindings have it in their version ("2.16.1-librdkafka-2.16.0")."""
    return "rdkafka" in client_software


class FetchPacer:
    """The pace of one connection. It does no I/O: it is told of fetches and responses, and returns delays."""

    __slots__ = (
        "_arrived_at",
        "_due",
        "_hold_s",
        "_interval",
        "_run_began",
        "_run_bytes",
        "_sent_at",
        "_sent_bytes",
        "_step_at",
        "_usual",
        "pauses",
    )

    def __init__(self) -> None:
        self.pauses = 0
        self._interval = 0.0
        self._due = 0.0
        self._hold_s = 0.0
        self._step_at = 0.0
        self._run_began = 0.0
        self._run_bytes = 0
        """The bytes of the run before its last response."""
        self._arrived_at = 0.0
        self._sent_at = 0.0
        self._sent_bytes = 0
        self._usual = float("inf")

    @property
    def pacing(self) -> bool:
        return self._interval > 0

    @property
    def seconds_per_mebibyte(self) -> float:
        return self._interval * MEBIBYTE

    def fetch_arrived(self, now: float) -> float:
        """The seconds that this fetch has to wait before it is answered."""
        self._arrived_at = now
        if not self._sent_bytes:
            return 0.0
        gap = now - self._sent_at
        if gap >= max(PAUSE_MIN_S, PAUSE_TO_USUAL * self._usual * self._sent_bytes):
            self._usual *= USUAL_GROWTH
            if gap <= PAUSE_MAX_S and self._run_bytes + self._sent_bytes >= RUN_MIN_BYTES:
                self._slow_down(now, gap)
            self._end_run()
            self._due = now
            return 0.0
        self._usual = max(USUAL_MIN, min(self._usual * USUAL_GROWTH, gap / self._sent_bytes))
        if not self._interval:
            return 0.0
        if now >= self._step_at:
            self._speed_up(now)
        delay = min(self._due - now, DELAY_MAX_S)
        if delay < DELAY_MIN_S:
            return 0.0
        self._arrived_at += delay
        return delay

    def answered(self, now: float, size: int) -> None:
        """Note a response with `size` bytes of records."""
        if not size or now - self._arrived_at > CAUGHT_UP_S:
            self._end_run()
            if not size:
                return
        if self._sent_bytes:
            self._run_bytes += self._sent_bytes
        else:
            self._run_began = now
        self._sent_at = now
        self._sent_bytes = size
        if self._interval:
            self._due = max(self._due, now - CREDIT_S) + self._interval * size

    def _end_run(self) -> None:
        self._sent_bytes = 0
        self._run_bytes = 0

    def _slow_down(self, now: float, pause_s: float) -> None:
        self.pauses += 1
        run_s = max(self._sent_at - self._run_began, RUN_MIN_S)
        pace = max(self._interval, run_s / (self._run_bytes or self._sent_bytes))
        correction = FIRST_CORRECTION
        if self._interval:
            correction = max(CORRECTION_MIN, (1 + pause_s / run_s) ** CORRECTION_EXPONENT)
        self._interval = min(pace * correction, INTERVAL_MAX)
        self._hold_s = min(max(2 * self._hold_s, HOLD_MIN_S), HOLD_MAX_S)
        self._step_at = now + self._hold_s

    def _speed_up(self, now: float) -> None:
        step_s = min(self._hold_s / STEPS_PER_HOLD, STEP_MAX_S)
        steps = 1 + int((now - self._step_at) / step_s)
        self._interval *= STEP_FACTOR**steps
        self._step_at += steps * step_s
        if self._interval < INTERVAL_MIN:
            self._interval = 0.0
            self._hold_s = 0.0
