"""Requests of system tests: one function per request, with our codec on a blocking connection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from moldau.records import BatchRecord, Codec, decode_batch, encode_batch, peek_header
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from moldau.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
)
from moldau.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponseLogDir,
)
from moldau.wire.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic, FetchResponse
from moldau.wire.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.wire.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
)
from tests.support.raw import RawConnection

# The last versions that name topics by name instead of by id.
PRODUCE_VERSION = 12
FETCH_VERSION = 12

CREATE_TOPICS_VERSION = 7
METADATA_VERSION = 12
LIST_OFFSETS_VERSION = 8
DESCRIBE_LOG_DIRS_VERSION = 4
DESCRIBE_CONFIGS_VERSION = 4

ALL_ACKS = -1
EARLIEST, LATEST = -2, -1
TOPIC, BROKER = 2, 4
TIMEOUT_MS = 15_000
FETCH_BYTES = 4 * 1024 * 1024


def create_topic(
    connection: RawConnection,
    name: str,
    partitions: int = 1,
    configs: dict[str, str] | None = None,
    replication_factor: int = 1,
) -> bytes:
    """Create the topic and return its id."""
    answer = try_create_topic(connection, name, partitions, configs, replication_factor)
    assert answer.error_code == ErrorCode.NONE, (answer.error_code, answer.error_message)
    topic_id: bytes = answer.topic_id
    return topic_id


def try_create_topic(
    connection: RawConnection,
    name: str,
    partitions: int = 1,
    configs: dict[str, str] | None = None,
    replication_factor: int = 1,
) -> Any:
    """The response for the topic, also if it is an error."""
    topic = CreateTopicsRequestTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreateTopicsRequestConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
    return connection.call(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, request, CreateTopicsResponse).topics[0]


def batch_of(values: Iterable[bytes], codec: Codec = Codec.NONE) -> bytes:
    """A batch with these values, without keys and with no timestamps."""
    return bytes(
        encode_batch([BatchRecord(offset, 0, None, value) for offset, value in enumerate(values)], codec=codec)
    )


def produce_body(topic: str, partition: int, batch: bytes, acks: int = ALL_ACKS) -> bytes:
    data = ProduceRequestTopic(name=topic, partition_data=[ProduceRequestPartition(index=partition, records=batch)])
    return ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=[data]).encode(PRODUCE_VERSION)


def produce_answer(connection: RawConnection, correlation_id: int | None = None) -> Any:
    response = connection.receive(ApiKey.PRODUCE, PRODUCE_VERSION, ProduceResponse, correlation_id)
    return response.responses[0].partition_responses[0]


def try_produce(
    connection: RawConnection, topic: str, partition: int, values: Sequence[bytes], acks: int = ALL_ACKS
) -> Any:
    """The response for the partition, also if it is an error."""
    connection.send(ApiKey.PRODUCE, PRODUCE_VERSION, produce_body(topic, partition, batch_of(values), acks))
    return produce_answer(connection)


def produce(
    connection: RawConnection, topic: str, partition: int, values: Sequence[bytes], acks: int = ALL_ACKS
) -> int:
    """Write one batch and return the offset of its first record."""
    answer = try_produce(connection, topic, partition, values, acks)
    assert answer.error_code == ErrorCode.NONE, (ErrorCode(answer.error_code).name, answer.error_message)
    base_offset: int = answer.base_offset
    return base_offset


def fetch_request(
    topic: str,
    partition: int,
    offset: int,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = FETCH_BYTES,
    isolation_level: int = 0,
) -> FetchRequest:
    target = FetchRequestPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=FETCH_BYTES,
        isolation_level=isolation_level,
        session_epoch=-1,
        topics=[FetchRequestTopic(topic=topic, partitions=[target])],
    )


def fetch(connection: RawConnection, topic: str, partition: int, offset: int, **limits: int) -> Any:
    """The response for the partition, also if it is an error. `fetch_request` describes the limits."""
    request = fetch_request(topic, partition, offset, **limits)
    response = connection.call(ApiKey.FETCH, FETCH_VERSION, request, FetchResponse)
    assert response.error_code == ErrorCode.NONE, ErrorCode(response.error_code).name
    return response.responses[0].partitions[0]


def records_in(data: bytes | memoryview | None) -> list[BatchRecord]:
    """All records of the batches in a fetched block."""
    view = memoryview(data or b"")
    found: list[BatchRecord] = []
    position = 0
    while position < len(view):
        size = peek_header(view, position).size
        found += decode_batch(view, position)
        position += size
    return found


def read_all(connection: RawConnection, topic: str, partition: int, start: int = 0) -> list[BatchRecord]:
    """All records from `start` to the high watermark. Fails on any error."""
    found: list[BatchRecord] = []
    offset = start
    while True:
        answer = fetch(connection, topic, partition, offset)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        got = [record for record in records_in(answer.records) if record.offset >= offset]
        if not got:
            assert offset == answer.high_watermark, f"nothing at {offset}, but {answer.high_watermark} is the end"
            return found
        found += got
        offset = got[-1].offset + 1


def offset_of(connection: RawConnection, topic: str, partition: int, spec: int = LATEST) -> int:
    wanted = ListOffsetsRequestPartition(partition_index=partition, timestamp=spec)
    request = ListOffsetsRequest(topics=[ListOffsetsRequestTopic(name=topic, partitions=[wanted])])
    response = connection.call(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request, ListOffsetsResponse)
    answer = response.topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
    offset: int = answer.offset
    return offset


def metadata(connection: RawConnection, *topics: str) -> MetadataResponse:
    """Metadata of these topics, or of all topics. Does not create topics automatically."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in topics] if topics else None, allow_auto_topic_creation=False
    )
    response = connection.call(ApiKey.METADATA, METADATA_VERSION, request, MetadataResponse)
    assert isinstance(response, MetadataResponse)
    return response


def log_dirs(connection: RawConnection) -> dict[str, DescribeLogDirsResponseLogDir]:
    """All data directories, by path."""
    request = DescribeLogDirsRequest(topics=None)
    response = connection.call(ApiKey.DESCRIBE_LOG_DIRS, DESCRIBE_LOG_DIRS_VERSION, request, DescribeLogDirsResponse)
    assert response.error_code == ErrorCode.NONE, ErrorCode(response.error_code).name
    return {directory.log_dir: directory for directory in response.results}


def describe_configs(connection: RawConnection, resource_type: int, name: str) -> dict[str, str | None]:
    resource = DescribeConfigsRequestResource(resource_type=resource_type, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource])
    response = connection.call(ApiKey.DESCRIBE_CONFIGS, DESCRIBE_CONFIGS_VERSION, request, DescribeConfigsResponse)
    result = response.results[0]
    assert result.error_code == ErrorCode.NONE, result.error_message
    return {config.name: config.value for config in result.configs}
