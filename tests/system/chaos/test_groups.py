"""Groups of other clients' consumers that join, leave, die and pause, while the broker stops and dies too.

A producer numbers the records of each partition. Every consumer commits what it has processed. So each number must be
processed at least once, no consumer may skip one, and no commit may move a group back. After every change the group is
stable within a session time-out and a rebalance time-out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection
from tests.system import calls
from tests.system.chaos.group_members import GroupMembers, Member, Processed
from tests.system.chaos.member import Options
from tests.system.chaos.numbered_producer import NumberedProducer
from tests.system.chaos.observer import Observer, Seen, balanced, commits_of, now, settled

TOPIC = "numbers"
GROUP = "members"
PARTITIONS = 6
RECORDS_A_TICK = 12
MOST_MEMBERS = 5
BRIEF_PAUSE_RECORDS = 200

SESSION_MS = 2_500
REBALANCE_MS = 4_000
HEARTBEAT_MS = 250
LATE_S = 4.0
"""A margin for clients that notice a change late: they look for the broker that went away, on busy cores."""

LOOK_EVERY_S = 0.03
CATCH_UP_S = 30.0
SOAK_S = 600

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.min.session.timeout.ms": "500",
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
}


@dataclass(frozen=True)
class Variant:
    """A kind of group and its events, which happen in any order, repeatedly."""

    name: str
    clients: Sequence[str]
    deck: Sequence[str]
    short: Sequence[str]
    """The events of a short run; each happens once."""
    assignors: Sequence[str] = ()
    protocols: Sequence[str] = ("classic",)
    """Assigned to members in turn, as the clients are."""
    static: bool = False
    session_ms: int = SESSION_MS


EVERY_CLIENT = ("confluent-kafka", "kafka-python", "aiokafka")
EVERYTHING = ("join", "leave", "kill", "pause", "pause briefly", "stop the broker", "kill the broker")

VARIANTS = [
    Variant("three clients", EVERY_CLIENT, EVERYTHING, short=EVERYTHING, assignors=("range",)),
    # The members vote, and each prefers another assignor. aiokafka is not in this list: it joins once for each of its
    # assignors, with one more assignor each time. Two aiokafka members that do so in different orders never let the
    # group become stable (0.14.0).
    Variant(
        "two assignors",
        ("confluent-kafka", "kafka-python", "confluent-kafka"),
        EVERYTHING,
        short=("join", "kill the broker", "leave"),
        assignors=("range", "roundrobin"),
    ),
    Variant(
        "cooperative",
        ("confluent-kafka", "kafka-python"),
        EVERYTHING,
        short=("join", "kill", "kill the broker"),
        assignors=("cooperative-sticky",),
    ),
    Variant(
        "static members",
        EVERY_CLIENT,
        ("replace", "replace", "join", "kill", "pause", "pause briefly", "stop the broker", "kill the broker"),
        short=("replace", "join", "pause briefly", "replace", "kill the broker"),
        assignors=("range",),
        static=True,
        session_ms=6_000,
    ),
    Variant(
        "new protocol",
        ("confluent-kafka",) * 3,
        EVERYTHING,
        short=("join", "pause", "leave", "kill the broker"),
        protocols=("consumer",),
    ),
    # aiokafka is not in this list: it fails if a group is upgraded while it joins, since it does not know
    # REBALANCE_IN_PROGRESS as an answer to JoinGroup. No member is paused: when the last member of the new protocol
    # times out, the group becomes classic again, and librdkafka fails when it resumes and gets GROUP_ID_NOT_FOUND.
    Variant(
        "both protocols",
        ("confluent-kafka", "confluent-kafka", "kafka-python"),
        [event for event in EVERYTHING if event != "pause"],
        short=("join", "leave", "leave", "kill the broker"),
        assignors=("range",),
        protocols=("consumer", "classic", "classic"),
    ),
]


class Chaos:
    """The events, one method each. Each method returns when the group is stable again."""

    def __init__(
        self,
        variant: Variant,
        broker: BrokerProcess,
        records: NumberedProducer,
        members: GroupMembers,
        rng: random.Random,
    ) -> None:
        self.variant = variant
        self.broker = broker
        self.records = records
        self.members = members
        self.slowest_s = 0.0
        self._rng = rng
        self._started = 0
        self._observer = Observer(lambda: broker.bootstrap, GROUP)
        self._events: dict[str, Callable[[], None]] = {
            "join": self.join,
            "leave": self.leave,
            "kill": self.kill,
            "pause": self.pause,
            "pause briefly": self.pause_briefly,
            "replace": self.replace,
            "stop the broker": self.stop_broker,
            "kill the broker": self.kill_broker,
        }

    def happen(self, event: str) -> None:
        if event in ("leave", "kill", "pause") and len(self.members.running) < 2:
            self.join()
        if event == "join" and len(self.members.running) >= MOST_MEMBERS:
            self.leave()
        began = now()
        self._events[event]()
        self.members.check()
        total = self.members.processed.total()
        print(f"{event}: {now() - began:.1f} s, {sorted(self.members.running)}, {total} processed")

    # -- members ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start one member of each kind at the same time."""
        members = [self._start() for _ in self.variant.clients]
        for one in members:
            one.wait_ready()
        self._settle()

    def join(self) -> None:
        self._start().wait_ready()
        self._settle()

    def leave(self) -> None:
        self.members.remove(self._any().name).leave()
        self._settle()

    def kill(self) -> None:
        self.members.remove(self._any().name).kill()
        self._settle()

    def pause(self) -> None:
        """Pause a member for longer than its session. The group removes it; it resumes and must join again."""
        paused = self._any()
        paused.pause()
        self._settle(without=paused.name)
        paused.resume()
        self._settle()

    def pause_briefly(self) -> None:
        """Pause a member for less than its session: the group keeps it."""
        one = self._any()
        one.pause()
        target = self.members.processed.total() + BRIEF_PAUSE_RECORDS
        self.members.processed.wait_for(
            lambda: self.members.processed.total() >= target, self.variant.session_ms / 2000
        )
        one.resume()
        self._settle()

    def replace(self) -> None:
        """Kill a static member and start it again within its session. No other member rebalances."""
        old = self._any()
        others = {name: one.rebalances for name, one in self.members.running.items() if name != old.name}
        self.members.remove(old.name).kill()
        self.members.start(old.options).wait_ready()
        self._settle()
        for name, rebalances in others.items():
            one = self.members.running[name]
            assert one.rebalances == rebalances, f"{name} had to rebalance because {old.name} came back: {one.story}"

    # -- the broker ------------------------------------------------------------------------------------------------

    def stop_broker(self) -> None:
        assert self.broker.stop() == 0, self.broker.log
        self.broker.start()
        self._settle()

    def kill_broker(self) -> None:
        self.broker.kill()
        self.broker.start()
        self._settle()

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _start(self) -> Member:
        variant = self.variant
        client = variant.clients[self._started % len(variant.clients)]
        protocol = variant.protocols[self._started % len(variant.protocols)]
        self._started += 1
        name = f"{client}-{self._started}"
        return self.members.start(
            Options(
                client=client,
                bootstrap=self.broker.bootstrap,
                topic=TOPIC,
                group=GROUP,
                name=name,
                assignors=self._rng.sample(variant.assignors, len(variant.assignors)),
                protocol=protocol,
                instance=name if variant.static else None,
                session_ms=variant.session_ms,
                rebalance_ms=max(REBALANCE_MS, variant.session_ms),
                heartbeat_ms=HEARTBEAT_MS,
            )
        )

    def _any(self) -> Member:
        return self._rng.choice(list(self.members.running.values()))

    def _settle(self, without: str = "") -> None:
        """Wait until the group has exactly its living members and reads on, at most for their time-outs."""
        written = list(self.records.written)
        names = set(self.members.running) - {without}
        began = now()
        deadline = began + (self.variant.session_ms + max(REBALANCE_MS, self.variant.session_ms)) / 1000 + LATE_S
        seen = self._observer.look()
        while not (settled(seen, names, PARTITIONS) and self._members_agree(seen)):
            thought = {name: sorted(one.owned) for name, one in self.members.running.items()}
            self.members.check()
            assert now() < deadline, f"not settled after {now() - began:.1f} s: {seen}, members think {thought}"
            with self.members.processed.changed:
                self.members.processed.changed.wait(LOOK_EVERY_S)
            seen = self._observer.look()
        assert balanced(seen), seen
        reached = self.members.processed.wait_for(lambda: not self.members.processed.behind(written), deadline - now())
        assert reached, f"settled, but nobody reads on in {self.members.processed.behind(written)}: {seen}"
        self.slowest_s = max(self.slowest_s, now() - began)

    def _members_agree(self, seen: Seen) -> bool:
        """Whether the members have heard the coordinator's assignment."""
        return all(self.members.running[name].owned == set(indexes) for name, indexes in seen.owned.items())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._observer.close()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_every_record_is_processed_whatever_happens_to_consumers_and_broker(
    tmp_path: Path, seed: int, count: Callable[[int, int], int], variant: Variant
) -> None:
    rng = random.Random(seed)
    duration_s = count(0, SOAK_S)
    until = now() + duration_s
    deck = variant.deck if duration_s else variant.short
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        with RawConnection(broker.bootstrap) as connection:
            calls.create_topic(connection, TOPIC, PARTITIONS)
        processed = Processed(PARTITIONS)
        with (
            NumberedProducer(broker.bootstrap, TOPIC, PARTITIONS, RECORDS_A_TICK) as records,
            GroupMembers(processed) as members,
        ):
            with Chaos(variant, broker, records, members, rng) as chaos:
                chaos.begin()
                dealt = False
                while not dealt or now() < until:
                    for event in rng.sample(deck, len(deck)):
                        chaos.happen(event)
                    dealt = True
            written = records.end()
            assert processed.wait_for(lambda: processed.total() >= sum(written), CATCH_UP_S), (
                f"not processed by any member: {processed.missing(written)}"
            )
            for name in list(members.running):
                members.remove(name).leave()
            members.check()
        assert not processed.missing(written)
        with RawConnection(broker.bootstrap) as connection:
            commits = commits_of(connection, GROUP)
        assert not commits.went_back, commits.went_back[:10]
        assert commits.last == dict(enumerate(written))
        print(f"{sum(written)} records, {commits.count} commits, slowest to settle {chaos.slowest_s:.1f} s")
    assert "handler" not in broker.log
    assert "ERROR" not in broker.log
