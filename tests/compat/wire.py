"""Protocol operations for tests: one request over a raw connection per function, answered by the message itself.

Versions are fixed, so that a test means the same for every server. Tests of versions pass their own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from moldau.records import BatchHeader, BatchRecord, decode_batch, encode_batch, peek_header
from moldau.wire.api import APIS
from moldau.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestConfig, CreateTopicsRequestTopic
from moldau.wire.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from moldau.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponsePartition,
)
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from moldau.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponsePartition,
)
from moldau.wire.primitives import ZERO_UUID
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

PRODUCE_VERSION = 11
FETCH_VERSION = 12
TOPIC_IDS_FROM = 13  # versions of Produce and of Fetch
ACKS_ALL = -1
MEGABYTE = 1024 * 1024
NO_EPOCH = -1

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3


def ask(connection: RawConnection, request: Any, version: int | None = None) -> Any:
    """Send one request and return the response, in the highest version unless one is given."""
    api = APIS[request.API_KEY]
    chosen = api.max_stable_version if version is None else version
    return connection.call(api.key, chosen, request, api.response_type())


# Topics ---------------------------------------------------------------------------------------------------------------


def create_topic(connection: RawConnection, name: str, partitions: int, configs: dict[str, str]) -> None:
    wanted = CreateTopicsRequestTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreateTopicsRequestConfig(name=key, value=value) for key, value in configs.items()],
    )
    (answer,) = ask(connection, CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)).topics
    assert answer.error_code == 0, answer
    # Apache Kafka answers before all its brokers know the topic.
    wait_until(lambda: is_served(connection, name, partitions))


def is_served(connection: RawConnection, name: str, partitions: int) -> bool:
    topic = describe_topic(connection, name)
    if topic.error_code or len(topic.partitions) != partitions or any(p.leader_id < 0 for p in topic.partitions):
        return False
    indexes = range(partitions)
    answers = list_offsets_of(connection, name, [(index, LATEST) for index in indexes])
    return all(answer.error_code == 0 for answer in answers)


def metadata(connection: RawConnection, names: Sequence[str] | None, *, auto_create: bool = False) -> MetadataResponse:
    wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    answer: MetadataResponse = ask(connection, MetadataRequest(topics=wanted, allow_auto_topic_creation=auto_create))
    return answer


def describe_topic(connection: RawConnection, name: str) -> MetadataResponseTopic:
    (topic,) = metadata(connection, [name]).topics
    return topic


def topic_id(connection: RawConnection, name: str) -> bytes:
    found = describe_topic(connection, name).topic_id
    assert found != ZERO_UUID
    return found


# Records --------------------------------------------------------------------------------------------------------------


def now_ms() -> int:
    return int(time.time() * 1000)


def batch_of(*values: bytes | None, timestamp: int | None = None, **fields: Any) -> bytearray:
    """A batch of keyed records with these values and the current time."""
    made = now_ms() if timestamp is None else timestamp
    return encode_batch(
        [BatchRecord(offset, made, b"key-%d" % offset, value) for offset, value in enumerate(values)], **fields
    )


def produce_request(
    topic: str | bytes, partitions: Sequence[tuple[int, Any]], *, acks: int = ACKS_ALL
) -> ProduceRequest:
    data = [ProduceRequestPartition(index=index, records=records) for index, records in partitions]
    named = {"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[ProduceRequestTopic(partition_data=data, **named)])


def produce(
    connection: RawConnection,
    topic: str | bytes,
    records: Any,
    *,
    partition: int = 0,
    acks: int = ACKS_ALL,
    version: int | None = None,
) -> ProduceResponsePartition:
    """Write a batch and return the response for the partition."""
    if version is None:
        version = TOPIC_IDS_FROM if isinstance(topic, bytes) else PRODUCE_VERSION
    response = ask(connection, produce_request(topic, [(partition, records)], acks=acks), version)
    ((answer,),) = [topic.partition_responses for topic in response.responses]
    return answer


def produced(connection: RawConnection, topic: str, *values: bytes | None, **options: Any) -> int:
    """Write one batch with these values and return its base offset."""
    batch_options = {name: options.pop(name) for name in ("timestamp", "codec") if name in options}
    answer = produce(connection, topic, batch_of(*values, **batch_options), **options)
    assert answer.error_code == 0, answer
    return answer.base_offset


# Fetch ----------------------------------------------------------------------------------------------------------------


def fetch_partition(
    partition: int = 0, offset: int = 0, max_bytes: int = MEGABYTE, **more: Any
) -> FetchRequestPartition:
    return FetchRequestPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, **more)


def fetch_request(
    topic: str | bytes | None,
    partitions: Sequence[FetchRequestPartition] = (),
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 * MEGABYTE,
    **more: Any,
) -> FetchRequest:
    """A fetch of one topic, by name or by id; None for a request without topics."""
    topics = []
    if topic is not None:
        named = {"topic_id": topic} if isinstance(topic, bytes) else {"topic": topic}
        topics = [FetchRequestTopic(partitions=list(partitions), **named)]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=topics, **more)


def fetch(
    connection: RawConnection,
    topic: str | bytes | None,
    partitions: Sequence[FetchRequestPartition] = (),
    *,
    version: int | None = None,
    **options: Any,
) -> FetchResponse:
    if version is None:
        version = TOPIC_IDS_FROM if isinstance(topic, bytes) else FETCH_VERSION
    response: FetchResponse = ask(connection, fetch_request(topic, partitions, **options), version)
    return response


def only_partition(response: FetchResponse) -> FetchResponsePartition:
    ((partition,),) = [topic.partitions for topic in response.responses]
    return partition


def fetch_one(
    connection: RawConnection, topic: str | bytes, offset: int = 0, *, version: int | None = None, **options: Any
) -> FetchResponsePartition:
    """Fetch partition 0 from an offset on."""
    limits = {name: options.pop(name) for name in ("partition_max_bytes",) if name in options}
    wanted = fetch_partition(0, offset, limits.get("partition_max_bytes", MEGABYTE))
    return only_partition(fetch(connection, topic, [wanted], version=version, **options))


def batches_in(records: Any) -> Iterator[tuple[BatchHeader, memoryview]]:
    """All complete batches with their headers. A batch that the byte limit cuts off is left out."""
    view = memoryview(records if records is not None else b"")
    position = 0
    while len(view) - position >= 61:
        header = peek_header(view, position)
        if header.size > len(view) - position:
            return
        yield header, view[position : position + header.size]
        position += header.size


def records_in(records: Any) -> list[BatchRecord]:
    return [record for _, batch in batches_in(records) for record in decode_batch(batch, 0)]


def stored_batches(connection: RawConnection, topic: str, partition: int = 0) -> list[tuple[BatchHeader, bytes]]:
    """Every batch of a partition, as stored."""
    found: list[tuple[BatchHeader, bytes]] = []
    offset = list_offset(connection, topic, EARLIEST, partition=partition).offset
    end = list_offset(connection, topic, LATEST, partition=partition).offset
    while offset < end:
        answer = only_partition(fetch(connection, topic, [fetch_partition(partition, offset)]))
        assert answer.error_code == 0, answer
        got = [(header, bytes(batch)) for header, batch in batches_in(answer.records)]
        assert got, f"nothing at {offset}, although the end is {end}"
        found += got
        offset = got[-1][0].last_offset + 1
    return found


def stored_values(connection: RawConnection, topic: str, partition: int = 0) -> list[bytes | None]:
    batches = stored_batches(connection, topic, partition)
    return [record.value for _, batch in batches for record in decode_batch(batch, 0)]


# Offsets --------------------------------------------------------------------------------------------------------------


def list_offsets_of(
    connection: RawConnection,
    topic: str,
    wanted: Sequence[tuple[int, int]],
    *,
    version: int | None = None,
    isolation_level: int = 0,
    current_leader_epoch: int = NO_EPOCH,
) -> list[ListOffsetsResponsePartition]:
    partitions = [
        ListOffsetsRequestPartition(
            partition_index=index, timestamp=timestamp, current_leader_epoch=current_leader_epoch
        )
        for index, timestamp in wanted
    ]
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsRequestTopic(name=topic, partitions=partitions)],
        timeout_ms=10_000,
    )
    (answer,) = ask(connection, request, version).topics
    found: list[ListOffsetsResponsePartition] = answer.partitions
    return found


def list_offset(
    connection: RawConnection, topic: str, timestamp: int, *, partition: int = 0, **options: Any
) -> ListOffsetsResponsePartition:
    (answer,) = list_offsets_of(connection, topic, [(partition, timestamp)], **options)
    return answer
