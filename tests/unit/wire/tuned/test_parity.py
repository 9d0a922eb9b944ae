"""Hand-tuned Produce and Fetch codecs equal the generated ones in every version."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.wire.errors import WireError
from moldau.wire.messages import fetch as fetch_messages
from moldau.wire.messages import produce as produce_messages
from moldau.wire.primitives import ZERO_UUID
from moldau.wire.tuned.fetch import (
    FetchAnswer,
    FetchTarget,
    current_leader_tag,
    decode_fetch,
    diverging_epoch_tag,
    encode_fetch,
    node_endpoints_tag,
)
from moldau.wire.tuned.produce import PartitionAnswer, decode_produce, encode_produce

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text(max_size=20)
ids = st.binary(min_size=16, max_size=16)
blobs = st.binary(max_size=300)

PRODUCE_VERSIONS = range(14)
FETCH_VERSIONS = range(4, 19)

per_version = settings(max_examples=20)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@per_version
@given(data=st.data())
def test_produce_requests_are_read_the_same(version: int, data: st.DataObject) -> None:
    message = produce_messages.ProduceRequest(
        transactional_id=data.draw(st.none() | names) if version >= 3 else None,
        acks=data.draw(int16),
        timeout_ms=data.draw(int32),
        topic_data=[
            produce_messages.ProduceRequestTopic(
                name=data.draw(names) if version < 13 else "",
                topic_id=data.draw(ids) if version >= 13 else ZERO_UUID,
                partition_data=[
                    produce_messages.ProduceRequestPartition(index=index, records=records)
                    for index, records in data.draw(st.lists(st.tuples(int32, st.none() | blobs), max_size=3))
                ],
            )
            for _ in range(data.draw(st.integers(0, 3)))
        ],
    )
    call = decode_produce(memoryview(message.encode(version)), version)
    assert (call.transactional_id, call.acks, call.timeout_ms) == (
        message.transactional_id,
        message.acks,
        message.timeout_ms,
    )
    assert call.topics == [
        (topic.topic_id if version >= 13 else topic.name, [(p.index, p.records) for p in topic.partition_data])
        for topic in message.topic_data
    ]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@per_version
@given(data=st.data())
def test_produce_responses_are_written_the_same(version: int, data: st.DataObject) -> None:
    answers = st.lists(st.builds(PartitionAnswer, int32, int16, int64, int64, int64), max_size=3)
    topics = data.draw(st.lists(st.tuples(ids if version >= 13 else names, answers), max_size=3))
    throttle = data.draw(int32)
    expected = produce_messages.ProduceResponse(
        responses=[
            produce_messages.ProduceResponseTopic(
                name=topic if isinstance(topic, str) else "",
                topic_id=topic if isinstance(topic, bytes) else ZERO_UUID,
                partition_responses=[
                    produce_messages.ProduceResponsePartition(
                        index=answer.partition,
                        error_code=answer.error_code,
                        base_offset=answer.base_offset,
                        log_append_time_ms=answer.log_append_time_ms,
                        log_start_offset=answer.log_start_offset,
                    )
                    for answer in partitions
                ],
            )
            for topic, partitions in topics
        ],
        throttle_time_ms=throttle,
    )
    assert encode_produce(version, topics, throttle) == expected.encode(version)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@per_version
@given(data=st.data())
def test_fetch_requests_are_read_the_same(version: int, data: st.DataObject) -> None:
    draw = data.draw
    message = fetch_messages.FetchRequest(
        replica_id=draw(int32) if version < 15 else -1,
        max_wait_ms=draw(int32),
        min_bytes=draw(int32),
        max_bytes=draw(int32),
        isolation_level=draw(st.integers(-128, 127)),
        session_id=draw(int32) if version >= 7 else 0,
        session_epoch=draw(int32) if version >= 7 else -1,
        topics=[
            fetch_messages.FetchRequestTopic(
                topic=draw(names) if version < 13 else "",
                topic_id=draw(ids) if version >= 13 else ZERO_UUID,
                partitions=[
                    fetch_messages.FetchRequestPartition(
                        partition=draw(int32),
                        current_leader_epoch=draw(int32) if version >= 9 else -1,
                        fetch_offset=draw(int64),
                        last_fetched_epoch=draw(int32) if version >= 12 else -1,
                        log_start_offset=draw(int64) if version >= 5 else -1,
                        partition_max_bytes=draw(int32),
                    )
                    for _ in range(draw(st.integers(0, 2)))
                ],
            )
            for _ in range(draw(st.integers(0, 2)))
        ],
        forgotten_topics_data=[
            fetch_messages.FetchRequestForgottenTopic(
                topic=draw(names) if version < 13 else "",
                topic_id=draw(ids) if version >= 13 else ZERO_UUID,
                partitions=draw(st.lists(int32, max_size=3)),
            )
            for _ in range(draw(st.integers(0, 2)) if version >= 7 else 0)
        ],
        rack_id=draw(names) if version >= 11 else "",
    )
    if version >= 15:
        message.replica_state = fetch_messages.FetchRequestReplicaState(replica_id=draw(int32), replica_epoch=7)
    call = decode_fetch(memoryview(message.encode(version)), version)
    replica_id = message.replica_state.replica_id if version >= 15 else message.replica_id
    assert call[:7] == (
        replica_id,
        message.max_wait_ms,
        message.min_bytes,
        message.max_bytes,
        message.isolation_level,
        message.session_id,
        message.session_epoch,
    )
    assert call.topics == [
        (
            topic.topic_id if version >= 13 else topic.topic,
            [
                FetchTarget(
                    p.partition,
                    p.current_leader_epoch,
                    p.fetch_offset,
                    p.last_fetched_epoch,
                    p.log_start_offset,
                    p.partition_max_bytes,
                )
                for p in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    assert call.forgotten == [
        (topic.topic_id if version >= 13 else topic.topic, topic.partitions) for topic in message.forgotten_topics_data
    ]
    assert call.rack_id == message.rack_id


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@per_version
@given(data=st.data())
def test_fetch_responses_are_written_the_same(version: int, data: st.DataObject) -> None:
    draw = data.draw
    diverging = version >= 12 and draw(st.booleans())
    answers = st.lists(
        st.builds(
            FetchAnswer,
            int32,
            int16,
            int64,
            int64,
            int64,
            st.none() | st.lists(st.tuples(int64, int64), max_size=2),
            blobs,
            int32,
            st.just(diverging_epoch_tag(3, 44)) if diverging else st.just(b"\x00"),
        ),
        max_size=3,
    )
    topics = draw(st.lists(st.tuples(ids if version >= 13 else names, answers), max_size=2))
    error, session, throttle = draw(int16), draw(int32), draw(int32)
    expected = fetch_messages.FetchResponse(
        throttle_time_ms=throttle,
        error_code=error,
        session_id=session,
        responses=[
            fetch_messages.FetchResponseTopic(
                topic=topic if isinstance(topic, str) else "",
                topic_id=topic if isinstance(topic, bytes) else ZERO_UUID,
                partitions=[_partition(answer, diverging) for answer in partitions],
            )
            for topic, partitions in topics
        ],
    )
    assert b"".join(encode_fetch(version, error, session, topics, throttle)) == expected.encode(version)


@pytest.mark.parametrize("version", [16, 17, 18])
@pytest.mark.parametrize("rack", [None, "", "r1"])
def test_a_fetch_response_tells_where_the_leader_is(version: int, rack: str | None) -> None:
    answer = FetchAnswer(3, 6, -1, -1, -1, None, b"", -1, current_leader_tag(7, 12))
    tags = node_endpoints_tag([(7, "höst", 9092, rack), (8, "h", 1, None)])
    expected = fetch_messages.FetchResponse(
        responses=[
            fetch_messages.FetchResponseTopic(
                topic_id=bytes(range(16)),
                partitions=[
                    fetch_messages.FetchResponsePartition(
                        partition_index=3,
                        error_code=6,
                        high_watermark=-1,
                        aborted_transactions=None,
                        current_leader=fetch_messages.FetchResponseCurrentLeader(leader_id=7, leader_epoch=12),
                        records=b"",
                    )
                ],
            )
        ],
        node_endpoints=[
            fetch_messages.FetchResponseNodeEndpoint(node_id=7, host="höst", port=9092, rack=rack),
            fetch_messages.FetchResponseNodeEndpoint(node_id=8, host="h", port=1),
        ],
    )
    found = encode_fetch(version, 0, 0, [(bytes(range(16)), [answer])], tags=tags)
    assert b"".join(found) == expected.encode(version)


def _partition(answer: FetchAnswer, diverging: bool) -> fetch_messages.FetchResponsePartition:
    partition = fetch_messages.FetchResponsePartition(
        partition_index=answer.partition,
        error_code=answer.error_code,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.log_start_offset,
        aborted_transactions=None
        if answer.aborted is None
        else [
            fetch_messages.FetchResponseAbortedTransaction(producer_id=producer, first_offset=offset)
            for producer, offset in answer.aborted
        ],
        preferred_read_replica=answer.preferred_read_replica,
        records=answer.records,
    )
    if diverging:
        partition.diverging_epoch = fetch_messages.FetchResponseDivergingEpoch(epoch=3, end_offset=44)
    return partition


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_every_cut_of_a_produce_request_is_refused(version: int) -> None:
    message = produce_messages.ProduceRequest(
        acks=1,
        topic_data=[
            produce_messages.ProduceRequestTopic(
                name="t",
                topic_id=bytes(range(16)),
                partition_data=[produce_messages.ProduceRequestPartition(index=0, records=b"r" * 40)],
            )
        ],
    )
    _every_cut_is_refused(message.encode(version), version, decode_produce)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_every_cut_of_a_fetch_request_is_refused(version: int) -> None:
    message = fetch_messages.FetchRequest(
        topics=[
            fetch_messages.FetchRequestTopic(
                topic="t", topic_id=bytes(range(16)), partitions=[fetch_messages.FetchRequestPartition()]
            )
        ]
    )
    _every_cut_is_refused(message.encode(version), version, decode_fetch)


def _every_cut_is_refused(frame: bytes, version: int, decode: object) -> None:
    for size in range(len(frame)):
        with pytest.raises(WireError):
            decode(memoryview(frame[:size]), version)  # type: ignore[operator]


@pytest.mark.parametrize(("decode", "versions"), [(decode_produce, PRODUCE_VERSIONS), (decode_fetch, FETCH_VERSIONS)])
@given(frame=st.binary(max_size=200))
def test_noise_is_refused_or_read_but_nothing_else(decode: object, versions: range, frame: bytes) -> None:
    for version in versions:
        try:
            decode(memoryview(frame), version)  # type: ignore[operator]
        except WireError:
            pass
