"""Data of the demo: a bank's transactions, the limits of its customers, and the expected alerts.

Everything follows from a seed, so the expected alerts are known without the pipeline. Pure functions.

A customer gets an alert if the sum of a time window exceeds the limit that was valid when the window began. Limits
change while transactions flow. Each limit has a start time, and is sent before any transaction of that time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

ACCOUNTS: Final = 100
WINDOW_MS: Final = 5_000
CLOSING: Final = "closing"
"""An account without a limit. Its last transactions close the last windows."""

_CENTS: Final = (100, 50_000)
_LIMIT_FACTORS: Final = (0.95, 1.25)
_CHANGES_A_WINDOW: Final = 10


class BankTransaction(NamedTuple):
    number: int
    account: str
    cents: int
    at_ms: int

    def to_json(self) -> bytes:
        return json.dumps(self._asdict()).encode()


class Limit(NamedTuple):
    """From `from_ms` on, the owner of this account wants alerts for windows with a sum above `cents`."""

    account: str
    cents: int
    from_ms: int

    def to_json(self) -> bytes:
        return json.dumps(self._asdict()).encode()


class Alert(NamedTuple):
    account: str
    window_ms: int
    """The start of the window."""
    cents: int


class Bank:
    """The data of `a_second` transactions per second for `seconds`."""

    def __init__(self, seed: int, begin_ms: int, seconds: int, a_second: int) -> None:
        self._seed = seed
        self.begin_ms = begin_ms - begin_ms % WINDOW_MS
        self.end_ms = self.begin_ms + seconds * 1000
        self.count = seconds * a_second
        self._usual_cents = sum(_CENTS) / 2 * a_second * WINDOW_MS / 1000 / ACCOUNTS

    def transactions(self) -> Iterator[BankTransaction]:
        """The transactions, ordered by time."""
        chance = random.Random(f"transactions {self._seed}")
        span_ms = self.end_ms - self.begin_ms
        for number in range(self.count):
            at_ms = self.begin_ms + number * span_ms // self.count
            yield BankTransaction(number, f"account-{chance.randrange(ACCOUNTS):03d}", chance.randint(*_CENTS), at_ms)

    def limits(self) -> list[Limit]:
        """The limits, ordered by time: one per account at the start, then a few changes per window."""
        chance = random.Random(f"limits {self._seed}")

        def limit(account: int, from_ms: int) -> Limit:
            cents = int(self._usual_cents * chance.uniform(*_LIMIT_FACTORS))
            return Limit(f"account-{account:03d}", cents, from_ms)

        first = [limit(account, self.begin_ms) for account in range(ACCOUNTS)]
        changes = [
            limit(chance.randrange(ACCOUNTS), window_ms)
            for window_ms in range(self.begin_ms + WINDOW_MS, self.end_ms, WINDOW_MS)
            for _ in range(_CHANGES_A_WINDOW)
        ]
        # With two changes of one account in one window, it would be unclear which one is valid.
        unique = {(one.account, one.from_ms): one for one in [*first, *changes]}
        return sorted(unique.values(), key=lambda one: one.from_ms)

    def closing(self, partitions: int) -> list[BankTransaction]:
        """The last transactions, one per partition: they advance the time, so that every window ends."""
        late_ms = self.end_ms + 10 * WINDOW_MS
        return [BankTransaction(self.count + number, CLOSING, 0, late_ms) for number in range(partitions)]

    def alerts(self) -> list[Alert]:
        return expected_alerts(self.transactions(), self.limits())


def expected_alerts(transactions: Iterable[BankTransaction], limits: Iterable[Limit]) -> list[Alert]:
    """The expected alerts, sorted."""
    sums: dict[tuple[str, int], int] = {}
    for one in transactions:
        window = (one.account, one.at_ms - one.at_ms % WINDOW_MS)
        sums[window] = sums.get(window, 0) + one.cents
    by_account: dict[str, list[Limit]] = {}
    for limit in limits:
        by_account.setdefault(limit.account, []).append(limit)
    alerts = []
    for (account, window_ms), cents in sums.items():
        in_force = [limit for limit in by_account.get(account, ()) if limit.from_ms <= window_ms]
        if in_force and cents > max(in_force, key=lambda limit: limit.from_ms).cents:
            alerts.append(Alert(account, window_ms, cents))
    return sorted(alerts)


def parse_alert(value: bytes) -> Alert:
    fields = json.loads(value)
    return Alert(fields["account"], fields["window_ms"], fields["cents"])
