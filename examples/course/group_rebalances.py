"""Chapter 4: rebalances. An eager assignor takes all partitions away; a cooperative one only those that move."""

from __future__ import annotations

from collections.abc import Sequence

from course import broker_address, new_topic

from moldau import Consumer, TopicPartition

PARTITIONS = 6


class Diary:
    """A listener that writes down what happens to a member."""

    def __init__(self) -> None:
        self.revoked: list[int] = []
        self.assigned: list[int] = []

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.revoked += sorted(one.partition for one in partitions)

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.assigned += sorted(one.partition for one in partitions)


def second_member_joins(bootstrap: str, topic: str, assignor: str) -> Diary:
    """What the first member is told when a second one joins."""

    def member() -> Consumer:
        return Consumer(
            bootstrap_servers=bootstrap,
            group_id=f"{topic}-{assignor}",
            partition_assignment_strategy=assignor,
            heartbeat_interval_ms=200,  # a member learns of a rebalance from the response to its next heartbeat
        )

    diary = Diary()
    with member() as first, member() as second:
        first.subscribe([topic], listener=diary)
        while len(first.assignment()) < PARTITIONS:
            first.poll(timeout=0.05)
        diary.assigned.clear()  # from here on: what the second member changes
        second.subscribe([topic])
        while not len(first.assignment()) == len(second.assignment()) == PARTITIONS // 2:
            first.poll(timeout=0.05)
            second.poll(timeout=0.05)
        told = Diary()  # a copy: closing the consumers is a rebalance, too
        told.revoked, told.assigned = list(diary.revoked), list(diary.assigned)
    return told


def main() -> None:
    with broker_address(__doc__) as bootstrap:
        topic = new_topic(bootstrap, "rebalances", partitions=PARTITIONS)
        eager = second_member_joins(bootstrap, topic, "range")
        cooperative = second_member_joins(bootstrap, topic, "cooperative-sticky")
        print(f"range:              revoked {eager.revoked}, assigned again {eager.assigned}")
        print(f"cooperative-sticky: revoked {cooperative.revoked}, assigned again {cooperative.assigned}")
        assert len(eager.revoked) >= PARTITIONS and len(eager.assigned) >= PARTITIONS // 2
        assert len(cooperative.revoked) == PARTITIONS // 2 and not cooperative.assigned


if __name__ == "__main__":
    main()
