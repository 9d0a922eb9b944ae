"""StreamsGroupHeartbeat: joins, stays in, leaves and is assigned tasks by a streams group.

Generated from definitions/88_streams_group_heartbeat.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Request, Response, WireStruct
from moldau.wire.primitives import (
    EMPTY,
    NO_TAGS,
    Data,
    Write,
    read_array,
    read_nullable_array,
    read_nullable_string,
    read_nullable_struct,
    read_numbers,
    read_string,
    read_strings,
    read_tags,
    write_array,
    write_nullable_array,
    write_nullable_string,
    write_nullable_struct,
    write_numbers,
    write_string,
    write_strings,
    write_tags,
)

unpack_b = Struct(">b").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
unpack_ii = Struct(">ii").unpack_from
unpack_iiii = Struct(">iiii").unpack_from
unpack_iq = Struct(">iq").unpack_from
unpack_t = Struct(">?").unpack_from
unpack_u = Struct(">H").unpack_from
pack_b = Struct(">b").pack
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack
pack_ii = Struct(">ii").pack
pack_iiii = Struct(">iiii").pack
pack_iq = Struct(">iq").pack
pack_t = Struct(">?").pack
pack_u = Struct(">H").pack


class StreamsGroupHeartbeatRequestTopicConfig(WireStruct):
    """An element of `topic_configs`."""

    __slots__ = ("key", "value")

    def __init__(
        self,
        *,
        key: str = "",
        value: str = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.key = key
        self.value = value
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.key, pos = read_string(data, pos, True)
        self.value, pos = read_string(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.key, True)
        write_string(write, self.value, True)
        write_tags(write, self.unknown_tags)


class StreamsGroupHeartbeatRequestTopicInfo(WireStruct):
    """An element of `state_changelog_topics` and `repartition_source_topics`."""

    __slots__ = ("name", "partitions", "replication_factor", "topic_configs")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: list[StreamsGroupHeartbeatRequestTopicConfig] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = [] if topic_configs is EMPTY else topic_configs
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.name, pos = read_string(data, pos, True)
        self.partitions, self.replication_factor = unpack_ih(data, pos)
        pos += 6
        self.topic_configs, pos = read_array(
            data, pos, version, True, StreamsGroupHeartbeatRequestTopicConfig.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.name, True)
        write(pack_ih(self.partitions, self.replication_factor))
        write_array(write, self.topic_configs, version, True)
        write_tags(write, self.unknown_tags)


class StreamsGroupHeartbeatRequestCopartitionGroup(WireStruct):
    """An element of `copartition_groups`."""

    __slots__ = ("source_topics", "source_topic_regex", "repartition_source_topics")

    def __init__(
        self,
        *,
        source_topics: list[int] = EMPTY,
        source_topic_regex: list[int] = EMPTY,
        repartition_source_topics: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.source_topics = [] if source_topics is EMPTY else source_topics
        self.source_topic_regex = [] if source_topic_regex is EMPTY else source_topic_regex
        self.repartition_source_topics = [] if repartition_source_topics is EMPTY else repartition_source_topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.source_topics, pos = read_numbers(data, pos, True, "h")
        self.source_topic_regex, pos = read_numbers(data, pos, True, "h")
        self.repartition_source_topics, pos = read_numbers(data, pos, True, "h")
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_numbers(write, self.source_topics, True, "h")
        write_numbers(write, self.source_topic_regex, True, "h")
        write_numbers(write, self.repartition_source_topics, True, "h")
        write_tags(write, self.unknown_tags)


class StreamsGroupHeartbeatRequestSubtopology(WireStruct):
    """An element of `subtopologies`."""

    __slots__ = (
        "subtopology_id",
        "source_topics",
        "source_topic_regex",
        "state_changelog_topics",
        "repartition_sink_topics",
        "repartition_source_topics",
        "copartition_groups",
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        source_topics: list[str] = EMPTY,
        source_topic_regex: list[str] = EMPTY,
        state_changelog_topics: list[StreamsGroupHeartbeatRequestTopicInfo] = EMPTY,
        repartition_sink_topics: list[str] = EMPTY,
        repartition_source_topics: list[StreamsGroupHeartbeatRequestTopicInfo] = EMPTY,
        copartition_groups: list[StreamsGroupHeartbeatRequestCopartitionGroup] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = [] if source_topics is EMPTY else source_topics
        self.source_topic_regex = [] if source_topic_regex is EMPTY else source_topic_regex
        self.state_changelog_topics = [] if state_changelog_topics is EMPTY else state_changelog_topics
        self.repartition_sink_topics = [] if repartition_sink_topics is EMPTY else repartition_sink_topics
        self.repartition_source_topics = [] if repartition_source_topics is EMPTY else repartition_source_topics
        self.copartition_groups = [] if copartition_groups is EMPTY else copartition_groups
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.subtopology_id, pos = read_string(data, pos, True)
        self.source_topics, pos = read_strings(data, pos, True)
        self.source_topic_regex, pos = read_strings(data, pos, True)
        self.state_changelog_topics, pos = read_array(
            data, pos, version, True, StreamsGroupHeartbeatRequestTopicInfo.read_from
        )
        self.repartition_sink_topics, pos = read_strings(data, pos, True)
        self.repartition_source_topics, pos = read_array(
            data, pos, version, True, StreamsGroupHeartbeatRequestTopicInfo.read_from
        )
        self.copartition_groups, pos = read_array(
            data, pos, version, True, StreamsGroupHeartbeatRequestCopartitionGroup.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.subtopology_id, True)
        write_strings(write, self.source_topics, True)
        write_strings(write, self.source_topic_regex, True)
        write_array(write, self.state_changelog_topics, version, True)
        write_strings(write, self.repartition_sink_topics, True)
        write_array(write, self.repartition_source_topics, version, True)
        write_array(write, self.copartition_groups, version, True)
        write_tags(write, self.unknown_tags)


class StreamsGroupHeartbeatRequestTopology(WireStruct):
    """What is in `topology`."""

    __slots__ = ("epoch", "subtopologies")

    def __init__(
        self,
        *,
        epoch: int = 0,
        subtopologies: list[StreamsGroupHeartbeatRequestSubtopology] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.epoch = epoch
        self.subtopologies = [] if subtopologies is EMPTY else subtopologies
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.epoch,) = unpack_i(data, pos)
        pos += 4
        self.subtopologies, pos = read_array(
            data, pos, version, True, StreamsGroupHeartbeatRequestSubtopology.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.epoch))
        write_array(write, self.subtopologies, version, True)
        write_tags(write, self.unknown_tags)


class StreamsGroupHeartbeatRequestTask(WireStruct):
    """An element of `active_tasks`, `standby_tasks` and `warmup_tasks`."""

    __slots__ = ("subtopology_id", "partitions")

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partitions: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.subtopology_id, pos = read_string(data, pos, True)
        self.partitions, pos = read_numbers(data, pos, True, "i")
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.subtopology_id, True)
        write_numbers(write, self.partitions, True, "i")
        write_tags(write, self.unknown_tags)


class StreamsGroupHeartbeatRequestUserEndpoint(WireStruct):
    """What is in `user_endpoint`."""

    __slots__ = ("host", "port")

    def __init__(
        self,
        *,
        host: str = "",
        port: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.host = host
        self.port = port
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.host, pos = read_string(data, pos, True)
        (self.port,) = unpack_u(data, pos)
        pos += 2
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.host, True)
        write(pack_u(self.port))
        write_tags(write, self.unknown_tags)


class StreamsGroupHeartbeatRequestClientTag(WireStruct):
    """An element of `client_tags`."""

    __slots__ = ("key", "value")

    def __init__(
        self,
        *,
        key: str = "",
        value: str = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.key = key
        self.value = value
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.key, pos = read_string(data, pos, True)
        self.value, pos = read_string(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.key, True)
        write_string(write, self.value, True)
        write_tags(write, self.unknown_tags)


class StreamsGroupHeartbeatRequestTaskOffset(WireStruct):
    """An element of `task_offsets` and `task_end_offsets`."""

    __slots__ = ("subtopology_id", "partition", "offset")

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partition: int = 0,
        offset: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partition = partition
        self.offset = offset
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.subtopology_id, pos = read_string(data, pos, True)
        self.partition, self.offset = unpack_iq(data, pos)
        pos += 12
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.subtopology_id, True)
        write(pack_iq(self.partition, self.offset))
        write_tags(write, self.unknown_tags)


class StreamsGroupHeartbeatRequest(Request):
    """StreamsGroupHeartbeatRequest, version 0."""

    __slots__ = (
        "group_id",
        "member_id",
        "member_epoch",
        "endpoint_information_epoch",
        "instance_id",
        "rack_id",
        "rebalance_timeout_ms",
        "topology",
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "process_id",
        "user_endpoint",
        "client_tags",
        "task_offsets",
        "task_end_offsets",
        "shutdown_application",
    )

    API_KEY = 88
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        endpoint_information_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        topology: StreamsGroupHeartbeatRequestTopology | None = None,
        active_tasks: list[StreamsGroupHeartbeatRequestTask] | None = None,
        standby_tasks: list[StreamsGroupHeartbeatRequestTask] | None = None,
        warmup_tasks: list[StreamsGroupHeartbeatRequestTask] | None = None,
        process_id: str | None = None,
        user_endpoint: StreamsGroupHeartbeatRequestUserEndpoint | None = None,
        client_tags: list[StreamsGroupHeartbeatRequestClientTag] | None = None,
        task_offsets: list[StreamsGroupHeartbeatRequestTaskOffset] | None = None,
        task_end_offsets: list[StreamsGroupHeartbeatRequestTaskOffset] | None = None,
        shutdown_application: bool = False,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.endpoint_information_epoch = endpoint_information_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology = topology
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = client_tags
        self.task_offsets = task_offsets
        self.task_end_offsets = task_end_offsets
        self.shutdown_application = shutdown_application
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.group_id, pos = read_string(data, pos, True)
        self.member_id, pos = read_string(data, pos, True)
        self.member_epoch, self.endpoint_information_epoch = unpack_ii(data, pos)
        pos += 8
        self.instance_id, pos = read_nullable_string(data, pos, True)
        self.rack_id, pos = read_nullable_string(data, pos, True)
        (self.rebalance_timeout_ms,) = unpack_i(data, pos)
        pos += 4
        self.topology, pos = read_nullable_struct(data, pos, version, StreamsGroupHeartbeatRequestTopology.read_from)
        self.active_tasks, pos = read_nullable_array(
            data, pos, version, True, StreamsGroupHeartbeatRequestTask.read_from
        )
        self.standby_tasks, pos = read_nullable_array(
            data, pos, version, True, StreamsGroupHeartbeatRequestTask.read_from
        )
        self.warmup_tasks, pos = read_nullable_array(
            data, pos, version, True, StreamsGroupHeartbeatRequestTask.read_from
        )
        self.process_id, pos = read_nullable_string(data, pos, True)
        self.user_endpoint, pos = read_nullable_struct(
            data, pos, version, StreamsGroupHeartbeatRequestUserEndpoint.read_from
        )
        self.client_tags, pos = read_nullable_array(
            data, pos, version, True, StreamsGroupHeartbeatRequestClientTag.read_from
        )
        self.task_offsets, pos = read_nullable_array(
            data, pos, version, True, StreamsGroupHeartbeatRequestTaskOffset.read_from
        )
        self.task_end_offsets, pos = read_nullable_array(
            data, pos, version, True, StreamsGroupHeartbeatRequestTaskOffset.read_from
        )
        (self.shutdown_application,) = unpack_t(data, pos)
        pos += 1
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.group_id, True)
        write_string(write, self.member_id, True)
        write(pack_ii(self.member_epoch, self.endpoint_information_epoch))
        write_nullable_string(write, self.instance_id, True)
        write_nullable_string(write, self.rack_id, True)
        write(pack_i(self.rebalance_timeout_ms))
        write_nullable_struct(write, self.topology, version)
        write_nullable_array(write, self.active_tasks, version, True)
        write_nullable_array(write, self.standby_tasks, version, True)
        write_nullable_array(write, self.warmup_tasks, version, True)
        write_nullable_string(write, self.process_id, True)
        write_nullable_struct(write, self.user_endpoint, version)
        write_nullable_array(write, self.client_tags, version, True)
        write_nullable_array(write, self.task_offsets, version, True)
        write_nullable_array(write, self.task_end_offsets, version, True)
        write(pack_t(self.shutdown_application))
        write_tags(write, self.unknown_tags)


class StreamsGroupHeartbeatResponseStatus(WireStruct):
    """An element of `status`."""

    __slots__ = ("status_code", "status_detail")

    def __init__(
        self,
        *,
        status_code: int = 0,
        status_detail: str = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.status_code = status_code
        self.status_detail = status_detail
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.status_code,) = unpack_b(data, pos)
        pos += 1
        self.status_detail, pos = read_string(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_b(self.status_code))
        write_string(write, self.status_detail, True)
        write_tags(write, self.unknown_tags)


class StreamsGroupHeartbeatResponseTask(WireStruct):
    """An element of `active_tasks`, `standby_tasks` and `warmup_tasks`."""

    __slots__ = ("subtopology_id", "partitions")

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partitions: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.subtopology_id, pos = read_string(data, pos, True)
        self.partitions, pos = read_numbers(data, pos, True, "i")
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.subtopology_id, True)
        write_numbers(write, self.partitions, True, "i")
        write_tags(write, self.unknown_tags)


class StreamsGroupHeartbeatResponseUserEndpoint(WireStruct):
    """What is in `user_endpoint`."""

    __slots__ = ("host", "port")

    def __init__(
        self,
        *,
        host: str = "",
        port: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.host = host
        self.port = port
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.host, pos = read_string(data, pos, True)
        (self.port,) = unpack_u(data, pos)
        pos += 2
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.host, True)
        write(pack_u(self.port))
        write_tags(write, self.unknown_tags)


class StreamsGroupHeartbeatResponseTopicPartitions(WireStruct):
    """An element of `active_partitions` and `standby_partitions`."""

    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.topic, pos = read_string(data, pos, True)
        self.partitions, pos = read_numbers(data, pos, True, "i")
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.topic, True)
        write_numbers(write, self.partitions, True, "i")
        write_tags(write, self.unknown_tags)


class StreamsGroupHeartbeatResponseEndpointPartitions(WireStruct):
    """An element of `partitions_by_user_endpoint`."""

    __slots__ = ("user_endpoint", "active_partitions", "standby_partitions")

    def __init__(
        self,
        *,
        user_endpoint: StreamsGroupHeartbeatResponseUserEndpoint | None = None,
        active_partitions: list[StreamsGroupHeartbeatResponseTopicPartitions] = EMPTY,
        standby_partitions: list[StreamsGroupHeartbeatResponseTopicPartitions] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.user_endpoint = StreamsGroupHeartbeatResponseUserEndpoint() if user_endpoint is None else user_endpoint
        self.active_partitions = [] if active_partitions is EMPTY else active_partitions
        self.standby_partitions = [] if standby_partitions is EMPTY else standby_partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.user_endpoint, pos = StreamsGroupHeartbeatResponseUserEndpoint.read_from(data, pos, version)
        self.active_partitions, pos = read_array(
            data, pos, version, True, StreamsGroupHeartbeatResponseTopicPartitions.read_from
        )
        self.standby_partitions, pos = read_array(
            data, pos, version, True, StreamsGroupHeartbeatResponseTopicPartitions.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        self.user_endpoint.write_to(write, version)
        write_array(write, self.active_partitions, version, True)
        write_array(write, self.standby_partitions, version, True)
        write_tags(write, self.unknown_tags)


class StreamsGroupHeartbeatResponse(Response):
    """StreamsGroupHeartbeatResponse, version 0."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "acceptable_recovery_lag",
        "task_offset_interval_ms",
        "status",
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "endpoint_information_epoch",
        "partitions_by_user_endpoint",
    )

    API_KEY = 88
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str = "",
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        acceptable_recovery_lag: int = 0,
        task_offset_interval_ms: int = 0,
        status: list[StreamsGroupHeartbeatResponseStatus] | None = EMPTY,
        active_tasks: list[StreamsGroupHeartbeatResponseTask] | None = None,
        standby_tasks: list[StreamsGroupHeartbeatResponseTask] | None = None,
        warmup_tasks: list[StreamsGroupHeartbeatResponseTask] | None = None,
        endpoint_information_epoch: int = 0,
        partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponseEndpointPartitions] | None = None,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.acceptable_recovery_lag = acceptable_recovery_lag
        self.task_offset_interval_ms = task_offset_interval_ms
        self.status = [] if status is EMPTY else status
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.endpoint_information_epoch = endpoint_information_epoch
        self.partitions_by_user_endpoint = partitions_by_user_endpoint
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.error_message, pos = read_nullable_string(data, pos, True)
        self.member_id, pos = read_string(data, pos, True)
        self.member_epoch, self.heartbeat_interval_ms, self.acceptable_recovery_lag, self.task_offset_interval_ms = (
            unpack_iiii(data, pos)
        )
        pos += 16
        self.status, pos = read_nullable_array(data, pos, version, True, StreamsGroupHeartbeatResponseStatus.read_from)
        self.active_tasks, pos = read_nullable_array(
            data, pos, version, True, StreamsGroupHeartbeatResponseTask.read_from
        )
        self.standby_tasks, pos = read_nullable_array(
            data, pos, version, True, StreamsGroupHeartbeatResponseTask.read_from
        )
        self.warmup_tasks, pos = read_nullable_array(
            data, pos, version, True, StreamsGroupHeartbeatResponseTask.read_from
        )
        (self.endpoint_information_epoch,) = unpack_i(data, pos)
        pos += 4
        self.partitions_by_user_endpoint, pos = read_nullable_array(
            data, pos, version, True, StreamsGroupHeartbeatResponseEndpointPartitions.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.throttle_time_ms, self.error_code))
        write_nullable_string(write, self.error_message, True)
        write_string(write, self.member_id, True)
        write(
            pack_iiii(
                self.member_epoch,
                self.heartbeat_interval_ms,
                self.acceptable_recovery_lag,
                self.task_offset_interval_ms,
            )
        )
        write_nullable_array(write, self.status, version, True)
        write_nullable_array(write, self.active_tasks, version, True)
        write_nullable_array(write, self.standby_tasks, version, True)
        write_nullable_array(write, self.warmup_tasks, version, True)
        write(pack_i(self.endpoint_information_epoch))
        write_nullable_array(write, self.partitions_by_user_endpoint, version, True)
        write_tags(write, self.unknown_tags)
