"""Reads from a broker: by followers, by consumers of a leader, by consumers of a follower."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from moldau.settings.replication import RACK_AWARE
from moldau.testing.cluster import Cluster
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    DeleteRecordsResponse,
)
from moldau.wire.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestReplicaState,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from moldau.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from moldau.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
)
from tests.replication.scripted_partition import ScriptedPartition
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until
from tests.unit.log.support import batch

QUIET = {"replica.fetch.wait.max.ms": 20_000}


@pytest.fixture
def scripted() -> Iterator[ScriptedPartition]:
    with Cluster(3, QUIET) as cluster:
        yield ScriptedPartition(cluster)


@contextmanager
def connection(scripted: ScriptedPartition, broker: int) -> Iterator[RawConnection]:
    with RawConnection(scripted.cluster.brokers[broker].bootstrap_servers) as raw:
        yield raw


def topic_id(scripted: ScriptedPartition) -> bytes:
    return scripted.look(0, lambda partition: partition.topic_id)


def epoch_of(scripted: ScriptedPartition, broker: int) -> int:
    return scripted.cluster.brokers[broker].look(lambda served: served.metadata.broker_epoch)


def request(
    scripted: ScriptedPartition,
    *,
    offset: int = 0,
    epoch: int = -1,
    last_epoch: int = -1,
    replica: tuple[int, int] | None = None,
    rack: str = "",
) -> FetchRequest:
    state = None if replica is None else FetchRequestReplicaState(replica_id=replica[0], replica_epoch=replica[1])
    partition = FetchRequestPartition(
        current_leader_epoch=epoch, fetch_offset=offset, last_fetched_epoch=last_epoch, partition_max_bytes=1 << 20
    )
    topic = FetchRequestTopic(topic=scripted.topic, topic_id=topic_id(scripted), partitions=[partition])
    return FetchRequest(replica_state=state, rack_id=rack, max_wait_ms=0, topics=[topic])


def fetch(scripted: ScriptedPartition, broker: int, version: int = 17, **what: object) -> FetchResponsePartition:
    with connection(scripted, broker) as raw:
        call: Callable[..., FetchRequest] = request
        answer = raw.call(ApiKey.FETCH, version, call(scripted, **what), FetchResponse)
        found: FetchResponsePartition = answer.responses[0].partitions[0]
        return found


# Followers ------------------------------------------------------------------------------------------------------------


def test_a_follower_reads_beyond_the_high_watermark_and_a_consumer_does_not(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    scripted.isolate(1)
    scripted.isolate(2)
    scripted.write(0, "a")
    as_follower = fetch(scripted, 0, replica=(1, epoch_of(scripted, 1)), epoch=scripted.epoch)
    assert as_follower.error_code == 0
    assert as_follower.records
    as_consumer = fetch(scripted, 0)
    assert (as_consumer.error_code, as_consumer.high_watermark, as_consumer.records) == (0, 0, b"")


def test_a_request_with_a_wrong_leader_epoch_is_an_error(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    scripted.elect(0)
    replica = (1, epoch_of(scripted, 1))
    codes = [fetch(scripted, 0, replica=replica, epoch=scripted.epoch + step).error_code for step in (-1, 0, 1)]
    assert codes == [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NONE, ErrorCode.UNKNOWN_LEADER_EPOCH]


def test_a_follower_with_an_old_broker_epoch_and_an_unknown_replica_get_nothing(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    scripted.write(0, "a")
    scripted.wait_copied(0)
    earlier = fetch(scripted, 0, replica=(1, epoch_of(scripted, 1) - 1), epoch=scripted.epoch)
    stranger = fetch(scripted, 0, replica=(77, 5), epoch=scripted.epoch)
    assert earlier.error_code == stranger.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_followers_do_not_serve_other_followers(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    answer = fetch(scripted, 1, replica=(2, epoch_of(scripted, 2)), epoch=scripted.epoch)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# Consumers ------------------------------------------------------------------------------------------------------------


def test_a_follower_serves_committed_records_to_consumers(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    scripted.write(0, "a", "b")
    wait_until(lambda: scripted.high_watermark(1) == 2, "the follower has the high watermark")
    answer = fetch(scripted, 1, offset=1)
    assert (answer.error_code, answer.high_watermark) == (0, 2)
    assert answer.records
    assert fetch(scripted, 1, version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, (
        "a client that only knows leaders must be refused"
    )


def test_an_offset_not_yet_on_a_follower_is_not_out_of_range(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    assert fetch(scripted, 1, offset=5).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert fetch(scripted, 0, offset=5).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_wrong_broker_names_the_leader_and_its_address(scripted: ScriptedPartition) -> None:
    leader = scripted.cluster.leader_of(scripted.topic)
    other = (leader + 1) % 3
    state = scripted.cluster.brokers[other].look(lambda served: served.image.partition(scripted.topic, 0))
    assert state is not None
    with connection(scripted, other) as raw:
        records = ProduceRequestPartition(index=0, records=bytes(batch()))
        data = ProduceRequestTopic(name=scripted.topic, topic_id=topic_id(scripted), partition_data=[records])
        produced = raw.call(ApiKey.PRODUCE, 12, ProduceRequest(acks=1, topic_data=[data]), ProduceResponse)
        fenced = request(scripted, epoch=state.leader_epoch - 1, replica=(leader, 0))
        fetched = raw.call(ApiKey.FETCH, 17, fenced, FetchResponse)
    port = int(scripted.cluster.brokers[leader].bootstrap_servers.rpartition(":")[2])
    answer: ProduceResponsePartition = produced.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    for hint, nodes in (
        (answer.current_leader, produced.node_endpoints),
        (fetched.responses[0].partitions[0].current_leader, fetched.node_endpoints),
    ):
        assert hint is not None
        assert (hint.leader_id, hint.leader_epoch) == (leader, state.leader_epoch)
        assert [(node.node_id, node.port) for node in nodes] == [(leader, port)]


def list_latest(scripted: ScriptedPartition, broker: int) -> tuple[int, int]:
    wanted = ListOffsetsRequestPartition(timestamp=-1, current_leader_epoch=-1)
    message = ListOffsetsRequest(topics=[ListOffsetsRequestTopic(name=scripted.topic, partitions=[wanted])])
    with connection(scripted, broker) as raw:
        answer = raw.call(ApiKey.LIST_OFFSETS, 7, message, ListOffsetsResponse).topics[0].partitions[0]
        return answer.error_code, answer.offset


def test_a_new_leader_answers_no_latest_offset_before_it_knows_the_high_watermark(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    scripted.isolate(2)
    scripted.write(0, "a")
    scripted.wait_copied(0, 1)
    scripted.elect(1, known_to=[1])
    assert list_latest(scripted, 1)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert list_latest(scripted, 2)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    scripted.tell(1, known_to=[0, 2])
    wait_until(lambda: scripted.high_watermark(1) == 1, "the followers have fetched")
    assert list_latest(scripted, 1) == (0, 1)


@pytest.mark.parametrize(("rack", "serves"), [("east", None), ("west", 1), ("nowhere", None), ("", None)])
def test_a_consumer_is_sent_to_the_replica_in_its_rack(rack: str, serves: int | None) -> None:
    racks = ["east", "west", "west"]
    with Cluster(3, {**QUIET, "replica.selector.class": RACK_AWARE}, racks=racks) as cluster:
        scripted = ScriptedPartition(cluster)
        scripted.elect(0, isr=[0, 1])
        scripted.write(0, "a")
        wait_until(lambda: scripted.high_watermark(1) == 1, "committed")
        answer = fetch(scripted, 0, rack=rack)
        assert answer.error_code == 0
        assert answer.preferred_read_replica == (-1 if serves is None else serves)
        assert bool(answer.records) == (serves is None)
        if serves is not None:
            there = fetch(scripted, serves, rack=rack)
            assert there.records
            assert there.preferred_read_replica == -1


# Deleting records -----------------------------------------------------------------------------------------------------


def delete_before(scripted: ScriptedPartition, broker: int, offset: int, timeout_ms: int = 10_000) -> tuple[int, int]:
    wanted = DeleteRecordsRequestPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsRequestTopic(name=scripted.topic, partitions=[wanted])
    with connection(scripted, broker) as raw:
        message = DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)
        answer = raw.call(ApiKey.DELETE_RECORDS, 2, message, DeleteRecordsResponse).topics[0].partitions[0]
        return answer.error_code, answer.low_watermark


def test_records_are_deleted_when_they_are_on_every_replica(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    scripted.write(0, "a", "b", "c")
    wait_until(lambda: scripted.high_watermark(0) == 3, "committed")
    assert delete_before(scripted, 0, 2) == (0, 2)
    assert [scripted.values(broker) for broker in range(3)] == [["c"]] * 3
    assert delete_before(scripted, 1, 3)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_deletion_is_not_confirmed_while_a_replica_is_missing(scripted: ScriptedPartition) -> None:
    scripted.elect(0)
    scripted.write(0, "a", "b")
    wait_until(lambda: scripted.high_watermark(0) == 2, "committed")
    scripted.isolate(2)
    assert delete_before(scripted, 0, 1, timeout_ms=300) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert scripted.values(0) == ["b"]
