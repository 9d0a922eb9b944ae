"""Hand-written Produce requests equal those of the generated messages."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.client.data_types import Node
from moldau.client.producer import requests
from moldau.client.producer.requests import Part, batch_header, prepare_body
from moldau.records import Codec, check_batch, decode_batch
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponseCurrentLeader,
    ProduceResponseNodeEndpoint,
    ProduceResponsePartition,
    ProduceResponseRecordError,
    ProduceResponseTopic,
)
from tests.unit.client.producer.twins import Harness, reference

VERSIONS = range(requests.MIN_VERSION, 14)
HEADER = b"h" * 61
IDS = {"a": b"A" * 16, "b": b"B" * 16}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "payments"])
def test_a_request_has_the_bytes_of_the_generated_one(version: int, transactional_id: str | None) -> None:
    parts = [
        Part("a", IDS["a"], 0, HEADER, b"one"),
        Part("a", IDS["a"], 7, HEADER, b"x" * 500),
        Part("b", IDS["b"], 1, HEADER, memoryview(b"three")),
    ]
    topics: dict[str, list[ProduceRequestPartition]] = {}
    for part in parts:
        one = ProduceRequestPartition(index=part.partition, records=part.header + bytes(part.body))
        topics.setdefault(part.topic, []).append(one)
    expected = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            ProduceRequestTopic(name=name, topic_id=IDS[name], partition_data=listed) for name, listed in topics.items()
        ],
    )
    assert b"".join(requests.encode(version, -1, 30_000, transactional_id, parts)) == expected.encode(version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "payments"])
def test_a_request_for_one_partition_is_the_same_in_the_fast_path(version: int, transactional_id: str | None) -> None:
    part = Part("a", IDS["a"], 7, HEADER, b"x" * 500)
    start = requests.beginning(version, 1, 30_000, transactional_id, part.topic, part.topic_id, part.partition)
    short = requests.encode_one(version, start, part.header, part.body)
    assert b"".join(short) == b"".join(requests.encode(version, 1, 30_000, transactional_id, [part]))


def answer_of(version: int, name: str = "a", partitions: int = 1, **fields: Any) -> memoryview:
    listed = [ProduceResponsePartition(index=3, base_offset=17, log_append_time_ms=5, **fields)] * partitions
    topic = ProduceResponseTopic(partition_responses=listed)
    if version >= requests.TOPIC_IDS_FROM:
        topic.topic_id = IDS["a"]
    else:
        topic.name = name
    return memoryview(ProduceResponse(responses=[topic], throttle_time_ms=40).encode(version))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_success_of_one_partition_is_decoded_by_the_fast_path(version: int) -> None:
    expected = (17, 5) if version >= requests.FLEXIBLE_FROM else None
    assert requests.acknowledged(answer_of(version), version) == expected
    assert requests.acknowledged(answer_of(version, name="n" * 126), version) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_all_other_responses_are_left_to_the_slow_path(version: int) -> None:
    leader = ProduceResponseCurrentLeader(leader_id=2, leader_epoch=9)
    others = [
        answer_of(version, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        answer_of(version, partitions=2),
        memoryview(ProduceResponse().encode(version)),
    ]
    if version >= 8:
        others.append(answer_of(version, error_message="strange"))
        others.append(answer_of(version, record_errors=[ProduceResponseRecordError(batch_index=0)]))
    if version >= 10:
        others.append(answer_of(version, current_leader=leader))
    if version < requests.TOPIC_IDS_FROM:
        others.append(answer_of(version, name="n" * 200))
    for other in others:
        assert requests.acknowledged(other, version) is None
        requests.decode(other, version)
    whole = answer_of(version)
    for size in range(len(whole) - 6):  # the bytes after it do not concern the partition
        assert requests.acknowledged(whole[:size], version) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_has_the_result_of_each_partition(version: int) -> None:
    good = ProduceResponsePartition(index=3, base_offset=17, log_append_time_ms=5)
    bad = ProduceResponsePartition(
        index=4,
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        error_message="moved" if version >= 8 else None,
        current_leader=ProduceResponseCurrentLeader(leader_id=2, leader_epoch=9) if version >= 10 else None,
    )
    topic = ProduceResponseTopic(partition_responses=[good, bad])
    if version >= requests.TOPIC_IDS_FROM:
        topic.topic_id = IDS["a"]
    else:
        topic.name = "a"
    where = ProduceResponseNodeEndpoint(node_id=2, host="two", port=9092, rack="r")
    response = ProduceResponse(responses=[topic], node_endpoints=[where] if version >= 10 else [])
    (first, second), nodes = requests.decode(memoryview(response.encode(version)), version)
    assert (first.partition, first.code, first.base_offset, first.log_append_time) == (3, 0, 17, 5)
    assert (second.partition, second.code) == (4, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert second.message == ("moved" if version >= 8 else None)
    assert second.leader == ((2, 9) if version >= 10 else None)
    assert (first.topic, first.topic_id) == (("", IDS["a"]) if version >= 13 else ("a", bytes(16)))
    assert nodes == ([Node(2, "two", 9092, "r")] if version >= 10 else [])


def test_a_broker_that_does_not_know_the_leader_names_none() -> None:
    nobody = ProduceResponseCurrentLeader(leader_id=-1, leader_epoch=-1)
    moved = ProduceResponsePartition(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=nobody)
    response = ProduceResponse(responses=[ProduceResponseTopic(partition_responses=[moved])])
    ((answer,), _) = requests.decode(memoryview(response.encode(13)), 13)
    assert answer.leader is None


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("transactional", [False, True])
def test_a_batch_on_the_wire_is_accepted_by_brokers(codec: Codec, transactional: bool) -> None:
    harness = Harness(reference)
    for i in range(5):
        harness.send(b"value-%d" % i, b"key", timestamp=1000 + i)
    (batch,) = harness.drain()
    batch.producer_id, batch.producer_epoch, batch.sequence = 7, 2, 40
    size = prepare_body(batch, codec, None)
    wire = batch_header(batch, codec, transactional) + bytes(batch.body or b"")
    assert len(wire) == size
    info = check_batch(wire, 0)
    assert (info.producer_id, info.producer_epoch, info.base_sequence, info.count) == (7, 2, 40, 5)
    assert info.is_transactional is transactional and info.codec_id == codec
    assert [record.value for record in decode_batch(wire)] == [b"value-%d" % i for i in range(5)]
