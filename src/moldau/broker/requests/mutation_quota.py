"""Controller mutation quota (KIP-599): limits how many partitions a client creates and deletes per second.

A request may use what the token bucket of its client has, and overdraw it once. While it is overdrawn,

* a request of a new version is refused topic by topic, with THROTTLING_QUOTA_EXCEEDED (strict);
* a request of an older version, whose clients do not know that error, is carried out (permissive).

A request that was refused, or that an older client had carried out, is throttled: `throttle_time_ms` says when the
bucket is no longer overdrawn, and the broker reads no further request from the client meanwhile, for at most the window
of the quota. As in Kafka, a new client that has overdrawn its bucket is not throttled for it: its next request is
refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from moldau.cluster.errors import Refusal
from moldau.security.quota_entities import CONTROLLER_MUTATION_RATE
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.connection.session import Request

REFUSED: Final = "The throttling quota has been exceeded."
"""Kafka's message for THROTTLING_QUOTA_EXCEEDED."""

NEVER_STRICT: Final = 1 << 15
"""For an API whose responses cannot refuse a change: it is carried out, and its client is throttled."""

W = TypeVar("W")
A = TypeVar("A")


class MutationQuota:
    """The quota of one request."""

    __slots__ = ("_bucket", "_now", "_pause_s", "_request", "_strict")

    def __init__(self, request: Request, strict_from: int) -> None:
        self._request = request
        self._strict = request.version >= strict_from
        self._now = request.broker.loop.time
        self._pause_s = 0.0
        active = request.broker.quotas.active
        self._bucket = request.session.quota.limits(request.client_id).mutations if active else None

    @property
    def unlimited(self) -> bool:
        return self._bucket is None

    def take(self, partitions: int) -> Refusal | None:
        """Use the quota for this number of partitions. Returns None, or the refusal if it is exceeded."""
        bucket = self._bucket
        if bucket is not None:
            now = self._now()
            if not self._strict:
                self._pause_s = bucket.take(partitions, now)
            elif (pause_s := bucket.pause(now)) > 0:
                self._pause_s = pause_s
                return Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, REFUSED)
            else:
                bucket.take(partitions, now)
        return None

    async def apply(
        self,
        wanted: Sequence[W],
        check: Callable[[Sequence[W]], Awaitable[list[A | Refusal]]],
        change: Callable[[Sequence[W]], Awaitable[list[A | Refusal]]],
        partitions: Callable[[W, A], int],
    ) -> list[A | Refusal]:
        """Carry out the changes that the quota allows. Changes that would be refused anyway do not use it: `check`
        tells them apart."""
        if self.unlimited or not wanted:
            return await change(wanted)
        answers: dict[int, A | Refusal] = dict(enumerate(await check(wanted)))
        for place, answer in answers.items():
            if not isinstance(answer, Refusal):
                answers[place] = self.take(partitions(wanted[place], answer)) or answer
        allowed = [place for place, answer in answers.items() if not isinstance(answer, Refusal)]
        if allowed:
            changed = await change([wanted[place] for place in allowed])
            answers.update(zip(allowed, changed, strict=True))
        return list(answers.values())

    def throttle_ms(self) -> int:
        """Throttle the client if this request was above its quota. Returns `throttle_time_ms` of the response."""
        seconds = min(self._pause_s, self._request.broker.quotas.longest_mutation_pause_s)
        if not self._request.session.quota.throttle(CONTROLLER_MUTATION_RATE, seconds):
            return 0
        return max(1, round(seconds * 1000))
