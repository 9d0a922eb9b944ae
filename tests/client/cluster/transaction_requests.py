"""Raw requests to the right broker of a cluster: the coordinator of a transaction, the leader of a partition."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from moldau.cluster.image import CONSUMER_OFFSETS, NO_LEADER, TRANSACTION_STATE, ClusterImage
from moldau.testing import Cluster
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.describe_transactions import DescribeTransactionsRequest
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestGroupTopic
from moldau.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.wire.producer_identity import ProducerIdentity
from tests.compat import wire
from tests.compat.transactions import requests
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

NEW_EPOCHS = 5
"""The version of EndTxn that gives the producer a new epoch."""
ADDS, VERIFIES = 12, 11
"""Versions of Produce: in the first the broker adds partitions to the transaction, in the second it only verifies
them."""


class TransactionRequests:
    """Requests of one transactional producer, sent to the broker that each of them needs."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self._connections: dict[int, RawConnection] = {}

    def __enter__(self) -> Self:
        requests.find_coordinator(self.to(self.cluster.live[0].node_id), self.name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections.values():
            connection.close()

    def to(self, broker: int) -> RawConnection:
        if broker not in self._connections:
            self._connections[broker] = RawConnection(self.cluster.brokers[broker].bootstrap_servers)
        return self._connections[broker]

    def gone(self, broker: int) -> None:
        """Forget a connection that was lost."""
        if broker in self._connections:
            self._connections.pop(broker).close()

    # -- the coordinator -------------------------------------------------------------------------------------------

    @property
    def partition(self) -> int:
        """The partition of the transaction topic with this producer's state."""
        return self.cluster.coordinator_partition(TRANSACTION_STATE, self.name)

    @property
    def coordinator(self) -> int:
        return self.cluster.transaction_coordinator(self.name)

    def move_coordinator(self) -> int:
        return self.cluster.move_leader(TRANSACTION_STATE, self.partition)

    def crash_coordinator(self) -> int:
        """Crash the coordinator's broker, and return the new coordinator."""
        lost, index = self.coordinator, self.partition
        self.cluster.brokers[lost].crash()
        self.gone(lost)

        def moved(image: ClusterImage) -> bool:
            state = image.partition(TRANSACTION_STATE, index)
            return state is not None and state.leader not in (lost, NO_LEADER)

        self.cluster.wait_until(moved, "another broker coordinates")
        return self.coordinator

    def init(self, **options: object) -> ProducerIdentity:
        return requests.producer(self.to(self.coordinator), self.name, **options)

    def add(self, who: ProducerIdentity, topic: str, *partitions: int) -> list[ErrorCode]:
        return requests.add_each(self.to(self.coordinator), self.name, who, topic, list(partitions))

    def end(self, who: ProducerIdentity, commit: bool, version: int = NEW_EPOCHS) -> ProducerIdentity:
        """End the transaction, and repeat the request while the coordinator is loading or has moved."""

        def attempt() -> requests.Answer | None:
            answer = requests.end(self.to(self.coordinator), self.name, who, commit, version=version)
            return None if answer.error in requests.RETRIABLE else answer

        answer: requests.Answer = wait_until(attempt)
        assert answer.error == ErrorCode.NONE, answer
        return answer.identity if version >= NEW_EPOCHS else who

    def state(self) -> str:
        coordinator = self.coordinator
        if coordinator < 0:
            return "no coordinator"
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        (found,) = wire.ask(self.to(coordinator), request).transaction_states
        return found.transaction_state or ErrorCode(found.error_code).name

    def await_state(self, state: str) -> None:
        wait_until(lambda: self.state() == state)

    # -- groups ----------------------------------------------------------------------------------------------------

    def group_coordinator(self, group: str) -> int:
        """The group's coordinator. Asking for it creates the offsets topic if it is missing."""
        found = self.cluster.group_coordinator(group)
        if found < 0:
            request = FindCoordinatorRequest(key=group)
            wait_until(lambda: wire.ask(self.to(self.cluster.live[0].node_id), request, 3).error_code == 0)
            self.cluster.wait_until(lambda image: CONSUMER_OFFSETS in image.topics)
            found = self.cluster.group_coordinator(group)
        return found

    def commit_offset(self, who: ProducerIdentity, group: str, topic: str, offset: int) -> None:
        """Commit an offset as part of the transaction."""
        place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[place])],
        )

        def attempt() -> bool:
            answer = wire.ask(self.to(self.group_coordinator(group)), request)
            return bool(answer.topics[0].partitions[0].error_code == ErrorCode.NONE)

        wait_until(attempt)

    def committed_offset(self, group: str, topic: str) -> int:
        """The committed offset, or -1."""
        wanted = OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestGroupTopic(name=topic, partition_indexes=[0])]
        )

        def attempt() -> requests.Outcome | None:
            answer = wire.ask(self.to(self.group_coordinator(group)), OffsetFetchRequest(groups=[wanted]), 9)
            (found,) = answer.groups
            if found.error_code:
                return None
            return requests.Outcome(found.topics[0].partitions[0].committed_offset)

        found: requests.Outcome = wait_until(attempt)
        return int(found.error)

    # -- partitions ------------------------------------------------------------------------------------------------

    def write(
        self,
        who: ProducerIdentity,
        topic: str,
        *values: bytes,
        partition: int = 0,
        sequence: int = 0,
        version: int = ADDS,
    ) -> ErrorCode:
        leader = self.to(self.cluster.leader_of(topic, partition))
        return requests.write(
            leader, self.name, who, topic, *values, partition=partition, sequence=sequence, version=version
        )

    def write_at(
        self, broker: int, who: ProducerIdentity, topic: str, *values: bytes, partition: int, version: int
    ) -> ErrorCode:
        return requests.write(self.to(broker), self.name, who, topic, *values, partition=partition, version=version)

    def try_to_write(self, who: ProducerIdentity, topic: str, *values: bytes, partition: int) -> ErrorCode:
        """Send one Produce request and return the error code."""
        batch = wire.batch_of(
            *values,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            base_sequence=0,
            transactional=True,
        )
        request = wire.produce_request(topic, [(partition, batch)])
        request.transactional_id = self.name
        answer = wire.ask(self.to(self.cluster.leader_of(topic, partition)), request, ADDS)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def stored(self, topic: str, partition: int = 0) -> list[str]:
        """The batches of a partition below the high watermark, each as "data" or "marker"."""
        batches = wire.stored_batches(self.to(self.cluster.leader_of(topic, partition)), topic, partition)
        return ["marker" if header.is_control else "data" for header, _ in batches]

    def is_ended(self, topic: str, partition: int = 0) -> bool:
        """Whether the one batch of a partition has its marker. Two coordinators may each have written one."""
        stored = self.stored(topic, partition)
        return stored[:2] == ["data", "marker"] and "data" not in stored[2:]

    def committed(self, topic: str) -> list[bytes | None]:
        """The records of partition 0 that a consumer with read_committed gets."""
        return requests.committed_values(self.to(self.cluster.leader_of(topic, 0)), topic)
