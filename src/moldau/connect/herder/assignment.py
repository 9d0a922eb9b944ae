"""Assignment of connectors to workers: balanced, sticky, and never to two workers at once. No I/O.

A connector with all its tasks is one unit. A worker keeps what it runs over a rebalance. To move a connector, the
leader first assigns it to nobody; its worker stops it and asks for another rebalance, and then the other worker gets it
(incremental cooperative rebalancing, KIP-415). The connectors of a worker that has left the group are free at once, or
after `scheduled.rebalance.max.delay.ms`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.client.errors import MoldauError

PROTOCOL: Final = "moldau"
"""The name of this protocol in the group. Workers of Apache Kafka Connect have other ones ("default", "compatible",
"sessioned"): the coordinator refuses to mix them in one group."""

MEMBER_FORMAT: Final = 1


class AssignmentFormatError(MoldauError):
    """Bytes of another version of Moldau in the group."""


@dataclass(frozen=True)
class WorkerMember:
    """What a worker tells the leader when it joins."""

    url: str
    """Where the other workers reach its REST API."""
    connectors: frozenset[str] = frozenset()
    """What it runs now."""

    def encode(self) -> bytes:
        return _encode({"url": self.url, "connectors": sorted(self.connectors)})

    @classmethod
    def decode(cls, data: bytes) -> WorkerMember:
        value = _decode(data)
        return cls(value["url"], frozenset(value["connectors"]))


@dataclass(frozen=True)
class WorkerAssignment:
    """What the leader tells a worker."""

    leader_url: str
    config_offset: int
    """The worker reads the config topic at least to this offset before it starts anything."""
    connectors: frozenset[str] = frozenset()
    owners: Mapping[str, str] = field(default_factory=dict)
    """The URL of the worker of every assigned connector."""
    delay_ms: int = 0
    """Only for the leader: the time until it may assign the connectors of a lost worker; 0: there are none."""

    def encode(self) -> bytes:
        return _encode(
            {
                "leader_url": self.leader_url,
                "config_offset": self.config_offset,
                "connectors": sorted(self.connectors),
                "owners": dict(self.owners),
                "delay_ms": self.delay_ms,
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> WorkerAssignment:
        value = _decode(data)
        return cls(
            value["leader_url"],
            value["config_offset"],
            frozenset(value["connectors"]),
            value["owners"],
            value["delay_ms"],
        )


def _encode(value: dict[str, Any]) -> bytes:
    return json.dumps({"format": MEMBER_FORMAT, **value}, separators=(",", ":")).encode()


def _decode(data: bytes) -> Any:
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if not isinstance(value, dict) or value.get("format") != MEMBER_FORMAT:
        raise AssignmentFormatError(
            "a worker of the group has another format; run the same version of Moldau on all workers"
        )
    return value


def distribute(connectors: Collection[str], running: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    """The connectors of each member.

    `running` has, by member, what it runs. A connector that has to move is in no set: its member stops it first. The
    numbers of any two members differ by at most one when all that had to move has moved.
    """
    members = sorted(running)
    if not members:
        return {}
    left = set(connectors)
    kept: dict[str, set[str]] = {}
    for member in members:
        # If two members run the same connector, the second one stops it.
        kept[member] = left.intersection(running[member])
        left -= kept[member]
    quotas = _quotas(len(connectors), kept)
    for member, mine in kept.items():
        for surplus in sorted(mine)[quotas[member] :]:
            mine.discard(surplus)
    _place(sorted(left), kept, quotas)
    return kept


def _quotas(total: int, kept: Mapping[str, set[str]]) -> dict[str, int]:
    """How many connectors each member may have. Members that have most get the remainder: less has to move."""
    base, more = divmod(total, len(kept))
    by_load = sorted(kept, key=lambda member: (-len(kept[member]), member))
    return {member: base + (1 if rank < more else 0) for rank, member in enumerate(by_load)}


def _place(free: Iterable[str], kept: Mapping[str, set[str]], quotas: Mapping[str, int]) -> None:
    """Give each free connector to the member with the fewest that has room for it."""
    for connector in free:
        open_to = [member for member in kept if len(kept[member]) < quotas[member]]
        chosen = min(open_to, key=lambda member: (len(kept[member]), member))
        kept[chosen].add(connector)


def needs_rebalance(connectors: Collection[str], owners: Mapping[str, str], urls: Iterable[str]) -> bool:
    """Whether a change of the connectors is a reason to rebalance: one has no worker, or the numbers of two workers
    differ by more than one. `connectors` are without those that wait for a lost worker."""
    counts = dict.fromkeys(urls, 0)
    for connector in connectors:
        if connector not in owners:
            return True
        counts[owners[connector]] = counts.get(owners[connector], 0) + 1
    return max(counts.values(), default=0) - min(counts.values(), default=0) > 1


class TakeoverDelay:
    """The leader's memory of workers that have left: with a delay, their connectors wait for them to come back."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._owners: dict[str, str] = {}
        self._deadlines: dict[str, float] = {}

    def held(self, now: float, connectors: Collection[str], workers: Mapping[str, Collection[str]]) -> set[str]:
        """The connectors that nobody gets yet. `workers` has, by URL, what each one runs."""
        if self._delay_s <= 0:
            return set()
        running = {connector: url for url, mine in workers.items() for connector in mine}
        for connector in connectors:
            if connector in running:
                self._owners[connector] = running[connector]
            owner = self._owners.get(connector)
            if owner is None or owner in workers:
                self._deadlines.pop(connector, None)
            else:
                self._deadlines.setdefault(connector, now + self._delay_s)
        for known in (self._owners, self._deadlines):
            for connector in [one for one in known if one not in connectors]:
                del known[connector]
        return {connector for connector, deadline in self._deadlines.items() if now < deadline}

    def assigned(self, owners: Mapping[str, str]) -> None:
        """Remember who was assigned what."""
        self._owners.update(owners)

    def remaining_s(self, now: float) -> float:
        """The time until the next connector is free; 0 if none is held."""
        waiting = [deadline - now for deadline in self._deadlines.values() if deadline > now]
        return min(waiting, default=0.0)


def assign(
    now: float,
    config_offset: int,
    connectors: Collection[str],
    members: Mapping[str, WorkerMember],
    leader_id: str,
    delay: TakeoverDelay,
) -> dict[str, WorkerAssignment]:
    """The leader's decision: the assignment of every member, by member id."""
    by_url = {member.url: member.connectors for member in members.values()}
    held = delay.held(now, connectors, by_url)
    running = {member_id: member.connectors for member_id, member in members.items()}
    given = distribute([one for one in connectors if one not in held], running)
    owners = {connector: members[member_id].url for member_id, mine in given.items() for connector in mine}
    delay.assigned(owners)
    delay_ms = -int(-delay.remaining_s(now) * 1000 // 1)
    return {
        member_id: WorkerAssignment(
            members[leader_id].url,
            config_offset,
            frozenset(mine),
            owners,
            delay_ms if member_id == leader_id else 0,
        )
        for member_id, mine in given.items()
    }
