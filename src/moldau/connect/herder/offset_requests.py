"""Offsets of a connector, shown, changed and reset: a source's in the offset topic, a sink's in its group.

The group of a sink is `connect-NAME`. Only offsets of a STOPPED connector are changed;
the herder checks that before. The engine fences every worker that ran the connector, and stores the offsets of a source
in a transaction of the connector.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from moldau.aio import Admin
from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError
from moldau.connect.connector import PARTITION_INDEX, PARTITION_OFFSET, PARTITION_TOPIC
from moldau.connect.herder.errors import BadRequestError, HerderError, RequestTimedOutError
from moldau.connect.herder.record_log import RecordLog
from moldau.connect.herder.results import ConnectorOffset, ConnectorOffsets
from moldau.connect.states import ConnectorType
from moldau.connect.stores.offset_store import OffsetState

CHANGE_TIMEOUT_S: Final = 60.0


def sink_group(name: str) -> str:
    """The consumer group that holds the offsets of a sink. `consumer.override.group.id` is refused by validation."""
    return f"connect-{name}"


def sink_offsets(offsets: Sequence[ConnectorOffset]) -> dict[TopicPartition, int | None]:
    """Topic partitions and offsets as a user has given them; None resets a partition. Kafka Connect's error texts."""
    found: dict[TopicPartition, int | None] = {}
    for one in offsets:
        if one.partition is None:
            raise BadRequestError("The partition for a sink connector offset cannot be null or missing")
        if PARTITION_TOPIC not in one.partition or PARTITION_INDEX not in one.partition:
            raise BadRequestError(
                f"The partition for a sink connector offset must contain the keys '{PARTITION_TOPIC}' and "
                f"'{PARTITION_INDEX}'"
            )
        topic, index = one.partition[PARTITION_TOPIC], one.partition[PARTITION_INDEX]
        if topic is None:
            raise BadRequestError("Kafka topic names must be valid strings and may not be null")
        if index is None:
            raise BadRequestError("Kafka partitions must be valid numbers and may not be null")
        offset = None
        if one.offset is not None:
            if PARTITION_OFFSET not in one.offset:
                raise BadRequestError(
                    f"The offset for a sink connector should either be null or contain the key '{PARTITION_OFFSET}'"
                )
            offset = _number(one.offset[PARTITION_OFFSET], "offset", "Offset")
        found[TopicPartition(str(topic), _number(index, "partition", "Partition"))] = offset
    return found


def _is_sink(config: Mapping[str, str], kind: ConnectorType) -> bool:
    """Whether it is a sink. If its class is not installed here, its topics tell."""
    if kind is ConnectorType.UNKNOWN:
        return "topics" in config or "topics.regex" in config
    return kind is ConnectorType.SINK


def _number(value: Any, what: str, title: str) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise BadRequestError(
            f"Failed to parse the following Kafka {what} value in the provided offsets: '{value}'. "
            f"{title} values for sink connectors need to be integers."
        ) from None


NewOffsets = Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
ChangeOffsets = Callable[[str, Mapping[str, str], NewOffsets | None], Awaitable[None]]
"""The engine's `change_offsets`."""


def sink_pair(partition: TopicPartition, offset: int | None) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """A partition and an offset of a sink, in the form of the REST API."""
    place = {PARTITION_TOPIC: partition.topic, PARTITION_INDEX: partition.partition}
    return place, None if offset is None else {PARTITION_OFFSET: offset}


class OffsetRequests:
    """Requests for offsets, for connectors of both types."""

    def __init__(self, offset_log: RecordLog, stored: OffsetState, admin_settings: Mapping[str, Any]) -> None:
        self._log = offset_log
        self._stored = stored
        self._admin_settings = admin_settings

    async def read(self, name: str, config: Mapping[str, str], kind: ConnectorType) -> ConnectorOffsets:
        if _is_sink(config, kind):
            return await self._read_group(sink_group(name))
        await self._log.read_to_end()
        return ConnectorOffsets([ConnectorOffset(*pair) for pair in self._stored.offsets(name)])

    async def alter(
        self,
        name: str,
        config: Mapping[str, str],
        kind: ConnectorType,
        offsets: Sequence[ConnectorOffset],
        change: ChangeOffsets,
    ) -> str:
        if _is_sink(config, kind):
            wanted = sink_offsets(offsets)
            await _change(change, name, config, [sink_pair(*one) for one in wanted.items()])
            await self._alter_group(name, sink_group(name), wanted)
        else:
            pairs = [(one.partition, one.offset) for one in offsets]
            await _change(change, name, config, pairs)
        return "The offsets for this connector have been altered successfully"

    async def reset(self, name: str, config: Mapping[str, str], kind: ConnectorType, change: ChangeOffsets) -> str:
        await _change(change, name, config, None)
        if _is_sink(config, kind):
            group = sink_group(name)
            stored = await self._read_group(group)
            await self._alter_group(name, group, dict.fromkeys(sink_offsets(stored.offsets)))
        return "The offsets for this connector have been reset successfully"

    async def _read_group(self, group: str) -> ConnectorOffsets:
        async with self._admin(f"Failed to retrieve consumer group offsets for {group}") as admin:
            found = await admin.list_group_offsets(group)
        return ConnectorOffsets(
            [
                ConnectorOffset(
                    {PARTITION_TOPIC: partition.topic, PARTITION_INDEX: partition.partition},
                    {PARTITION_OFFSET: committed.offset},
                )
                for partition, committed in sorted(found.items())
            ]
        )

    async def _alter_group(self, name: str, group: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        kept = {partition: offset for partition, offset in offsets.items() if offset is not None}
        gone = [partition for partition, offset in offsets.items() if offset is None]
        async with self._admin(f"Failed to alter consumer group offsets for connector {name}") as admin:
            if kept:
                await admin.alter_group_offsets(group, kept)
            if gone:
                await admin.delete_group_offsets(group, gone)

    @asynccontextmanager
    async def _admin(self, failure: str) -> AsyncIterator[Admin]:
        try:
            async with Admin(self._admin_settings) as admin:
                yield admin
        except MoldauError as error:
            raise HerderError(f"{failure}: {error}") from error


async def _change(change: ChangeOffsets, name: str, config: Mapping[str, str], offsets: NewOffsets | None) -> None:
    try:
        async with asyncio.timeout(CHANGE_TIMEOUT_S):
            await change(name, config, offsets)
    except TimeoutError:
        raise RequestTimedOutError(
            f"Request timed out. The offsets of connector {name} may change later; read them before you try again"
        ) from None
    except MoldauError as error:
        raise HerderError(f"Failed to modify offsets for connector {name}: {error}") from error
