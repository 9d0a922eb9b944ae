"""Simulated two-broker cluster on real sockets: leaders move, logs are truncated, answers fail as ordered.

It serves one partition, on the test's event loop, with only the APIs that a consumer uses. A single broker process
cannot produce these cases.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from moldau.client.consumer.position_rules import EARLIEST_TIMESTAMP
from moldau.records.batch_layout import BatchRecord
from moldau.records.encode import encode_batch
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.header import decode_request_header, encode_response_header
from moldau.wire.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApiKey
from moldau.wire.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponseCurrentLeader,
    FetchResponseNodeEndpoint,
    FetchResponsePartition,
    FetchResponseTopic,
)
from moldau.wire.messages.list_offsets import (
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from moldau.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)

TOPIC = "orders"
TOPIC_ID = bytes(15) + b"\7"
SERVED = (
    ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH,
)  # fmt: skip
IDLE_S = 0.01
"""The longest time that a fetch without records waits."""


class Log:
    """The batches of a partition, with one record each: its value and its leader epoch."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, int]] = []

    def append(self, epoch: int, *values: bytes) -> None:
        self.records += [(value, epoch) for value in values]

    def read(self, offset: int, most: int) -> bytes:
        found = b""
        for at in range(offset, len(self.records)):
            value, epoch = self.records[at]
            batch = bytes(encode_batch([BatchRecord(at, 1, None, value)], leader_epoch=epoch))
            if found and len(found) + len(batch) > most:
                break
            found += batch
        return found

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The last epoch up to this one that has records, and the offset after them."""
        mine = [(at, one) for at, (_, one) in enumerate(self.records) if one <= epoch]
        return (mine[-1][1], mine[-1][0] + 1) if mine else (-1, -1)


class Cluster:
    """Brokers 1 and 2 with a log each, and the ordered faults."""

    def __init__(self) -> None:
        self.leader, self.epoch = 1, 1
        self.logs = {1: Log(), 2: Log()}
        self.ports: dict[int, int] = {}
        self.fetched_from: list[int] = []
        self.asked: list[int] = []
        self.described = 0
        self.names_leader = False
        self.topic_error = ErrorCode.NONE
        self.spoil: Callable[[int, FetchRequest], FetchResponse | None] = lambda node, request: None
        """A function that may answer a fetch instead of the broker."""

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def write(self, *values: bytes) -> None:
        """Append to both logs, as replication does."""
        for log in self.logs.values():
            log.append(self.epoch, *values)

    def move(self, leader: int) -> None:
        self.leader, self.epoch = leader, self.epoch + 1

    # -- answers ---------------------------------------------------------------------------------------------------

    async def answer(self, node: int, key: ApiKey, version: int, request: Any) -> Any:
        match key:
            case ApiKey.API_VERSIONS:
                apis = [
                    ApiVersionsResponseApiKey(
                        api_key=one, min_version=APIS[one].min_version, max_version=APIS[one].max_stable_version
                    )
                    for one in SERVED
                ]
                return ApiVersionsResponse(api_keys=apis)
            case ApiKey.METADATA:
                return self.metadata()
            case ApiKey.FETCH:
                return await self.fetch(node, request)
            case ApiKey.LIST_OFFSETS:
                asked = request.topics[0].partitions[0]
                offset = 0 if asked.timestamp == EARLIEST_TIMESTAMP else len(self.logs[node].records)
                part = ListOffsetsResponsePartition(error_code=self.not_led_by(node, asked), offset=offset)
                return ListOffsetsResponse(topics=[ListOffsetsResponseTopic(name=TOPIC, partitions=[part])])
            case _:
                asked = request.topics[0].partitions[0]
                self.asked.append(asked.leader_epoch)
                epoch, end = self.logs[node].end_of(asked.leader_epoch)
                code = self.not_led_by(node, asked)
                part = OffsetForLeaderEpochResponsePartition(error_code=code, leader_epoch=epoch, end_offset=end)
                topic = OffsetForLeaderEpochResponseTopic(topic=TOPIC, partitions=[part])
                return OffsetForLeaderEpochResponse(topics=[topic])

    def not_led_by(self, node: int, asked: Any) -> ErrorCode:
        if node != self.leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if asked.current_leader_epoch not in (-1, self.epoch):
            older = asked.current_leader_epoch < self.epoch
            return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE

    def metadata(self) -> MetadataResponse:
        self.described += 1
        part = MetadataResponsePartition(
            leader_id=self.leader, leader_epoch=self.epoch, replica_nodes=[1, 2], isr_nodes=[1, 2]
        )
        topic = MetadataResponseTopic(error_code=self.topic_error, name=TOPIC, topic_id=TOPIC_ID, partitions=[part])
        brokers = [
            MetadataResponseBroker(node_id=node, host="127.0.0.1", port=port) for node, port in self.ports.items()
        ]
        return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=[topic])

    async def fetch(self, node: int, request: FetchRequest) -> FetchResponse:
        spoilt = self.spoil(node, request)
        if spoilt is not None:
            return spoilt
        if not request.topics:
            await asyncio.sleep(IDLE_S)  # a long poll without records
            return FetchResponse()
        asked = request.topics[0].partitions[0]
        code = self.not_led_by(node, asked)
        log = self.logs[node]
        if not code and asked.fetch_offset > len(log.records):
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        return await self.records(node, log, asked, code)

    async def records(self, node: int, log: Log, asked: Any, code: ErrorCode = ErrorCode.NONE) -> FetchResponse:
        data = b"" if code else log.read(asked.fetch_offset, asked.partition_max_bytes)
        if data:
            self.fetched_from.append(node)
        else:
            await asyncio.sleep(IDLE_S)  # a long poll without records
        answer = fetched(
            error_code=code, high_watermark=len(log.records), last_stable_offset=len(log.records), records=data
        )
        if code and self.names_leader:
            leader = FetchResponseCurrentLeader(leader_id=self.leader, leader_epoch=self.epoch)
            answer.responses[0].partitions[0].current_leader = leader
            port = self.ports[self.leader]
            answer.node_endpoints = [FetchResponseNodeEndpoint(node_id=self.leader, host="127.0.0.1", port=port)]
        return answer

    # -- sockets ---------------------------------------------------------------------------------------------------

    async def serve(self, node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                header, at = decode_request_header(frame)
                key = ApiKey(header.api_key)
                request = APIS[key].request_type().decode(frame, header.api_version, at)
                answer = await self.answer(node, key, header.api_version, request)
                head = encode_response_header(key, header.api_version, header.correlation_id)
                body = head + answer.encode(header.api_version)
                writer.write(struct.pack(">i", len(body)) + body)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


def fetched(**fields: Any) -> FetchResponse:
    """A fetch response for the partition."""
    part = FetchResponsePartition(log_start_offset=0, aborted_transactions=None, **fields)
    return FetchResponse(responses=[FetchResponseTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[part])])


@asynccontextmanager
async def running() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    servers = []
    for node in cluster.logs:
        server = await asyncio.start_server(
            lambda reader, writer, node=node: cluster.serve(node, reader, writer), "127.0.0.1", 0
        )
        cluster.ports[node] = server.sockets[0].getsockname()[1]
        servers.append(server)
    try:
        yield cluster
    finally:
        for server in servers:
            server.close()
