"""StreamsGroupDescribe: describes streams groups: topology, members, tasks.

Generated from definitions/89_streams_group_describe.def; change that, not this.
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

unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
unpack_ii = Struct(">ii").unpack_from
unpack_iq = Struct(">iq").unpack_from
unpack_t = Struct(">?").unpack_from
unpack_u = Struct(">H").unpack_from
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack
pack_ii = Struct(">ii").pack
pack_iq = Struct(">iq").pack
pack_t = Struct(">?").pack
pack_u = Struct(">H").pack


class StreamsGroupDescribeRequest(Request):
    """StreamsGroupDescribeRequest, version 0."""

    __slots__ = ("group_ids", "include_authorized_operations")

    API_KEY = 89
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        group_ids: list[str] = EMPTY,
        include_authorized_operations: bool = False,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_ids = [] if group_ids is EMPTY else group_ids
        self.include_authorized_operations = include_authorized_operations
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.group_ids, pos = read_strings(data, pos, True)
        (self.include_authorized_operations,) = unpack_t(data, pos)
        pos += 1
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_strings(write, self.group_ids, True)
        write(pack_t(self.include_authorized_operations))
        write_tags(write, self.unknown_tags)


class StreamsGroupDescribeResponseTopicConfig(WireStruct):
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


class StreamsGroupDescribeResponseTopicInfo(WireStruct):
    """An element of `state_changelog_topics` and `repartition_source_topics`."""

    __slots__ = ("name", "partitions", "replication_factor", "topic_configs")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: list[StreamsGroupDescribeResponseTopicConfig] = EMPTY,
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
            data, pos, version, True, StreamsGroupDescribeResponseTopicConfig.read_from
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


class StreamsGroupDescribeResponseSubtopology(WireStruct):
    """An element of `subtopologies`."""

    __slots__ = (
        "subtopology_id",
        "source_topics",
        "repartition_sink_topics",
        "state_changelog_topics",
        "repartition_source_topics",
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        source_topics: list[str] = EMPTY,
        repartition_sink_topics: list[str] = EMPTY,
        state_changelog_topics: list[StreamsGroupDescribeResponseTopicInfo] = EMPTY,
        repartition_source_topics: list[StreamsGroupDescribeResponseTopicInfo] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = [] if source_topics is EMPTY else source_topics
        self.repartition_sink_topics = [] if repartition_sink_topics is EMPTY else repartition_sink_topics
        self.state_changelog_topics = [] if state_changelog_topics is EMPTY else state_changelog_topics
        self.repartition_source_topics = [] if repartition_source_topics is EMPTY else repartition_source_topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.subtopology_id, pos = read_string(data, pos, True)
        self.source_topics, pos = read_strings(data, pos, True)
        self.repartition_sink_topics, pos = read_strings(data, pos, True)
        self.state_changelog_topics, pos = read_array(
            data, pos, version, True, StreamsGroupDescribeResponseTopicInfo.read_from
        )
        self.repartition_source_topics, pos = read_array(
            data, pos, version, True, StreamsGroupDescribeResponseTopicInfo.read_from
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
        write_strings(write, self.repartition_sink_topics, True)
        write_array(write, self.state_changelog_topics, version, True)
        write_array(write, self.repartition_source_topics, version, True)
        write_tags(write, self.unknown_tags)


class StreamsGroupDescribeResponseTopology(WireStruct):
    """What is in `topology`."""

    __slots__ = ("epoch", "subtopologies")

    def __init__(
        self,
        *,
        epoch: int = 0,
        subtopologies: list[StreamsGroupDescribeResponseSubtopology] | None = None,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.epoch = epoch
        self.subtopologies = subtopologies
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.epoch,) = unpack_i(data, pos)
        pos += 4
        self.subtopologies, pos = read_nullable_array(
            data, pos, version, True, StreamsGroupDescribeResponseSubtopology.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.epoch))
        write_nullable_array(write, self.subtopologies, version, True)
        write_tags(write, self.unknown_tags)


class StreamsGroupDescribeResponseUserEndpoint(WireStruct):
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


class StreamsGroupDescribeResponseClientTag(WireStruct):
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


class StreamsGroupDescribeResponseTaskOffset(WireStruct):
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


class StreamsGroupDescribeResponseTask(WireStruct):
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


class StreamsGroupDescribeResponseAssignment(WireStruct):
    """What is in `assignment` and `target_assignment`."""

    __slots__ = ("active_tasks", "standby_tasks", "warmup_tasks")

    def __init__(
        self,
        *,
        active_tasks: list[StreamsGroupDescribeResponseTask] = EMPTY,
        standby_tasks: list[StreamsGroupDescribeResponseTask] = EMPTY,
        warmup_tasks: list[StreamsGroupDescribeResponseTask] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.active_tasks = [] if active_tasks is EMPTY else active_tasks
        self.standby_tasks = [] if standby_tasks is EMPTY else standby_tasks
        self.warmup_tasks = [] if warmup_tasks is EMPTY else warmup_tasks
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.active_tasks, pos = read_array(data, pos, version, True, StreamsGroupDescribeResponseTask.read_from)
        self.standby_tasks, pos = read_array(data, pos, version, True, StreamsGroupDescribeResponseTask.read_from)
        self.warmup_tasks, pos = read_array(data, pos, version, True, StreamsGroupDescribeResponseTask.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_array(write, self.active_tasks, version, True)
        write_array(write, self.standby_tasks, version, True)
        write_array(write, self.warmup_tasks, version, True)
        write_tags(write, self.unknown_tags)


class StreamsGroupDescribeResponseMember(WireStruct):
    """An element of `members`."""

    __slots__ = (
        "member_id",
        "member_epoch",
        "instance_id",
        "rack_id",
        "client_id",
        "client_host",
        "topology_epoch",
        "process_id",
        "user_endpoint",
        "client_tags",
        "task_offsets",
        "task_end_offsets",
        "assignment",
        "target_assignment",
        "is_classic",
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: StreamsGroupDescribeResponseUserEndpoint | None = None,
        client_tags: list[StreamsGroupDescribeResponseClientTag] = EMPTY,
        task_offsets: list[StreamsGroupDescribeResponseTaskOffset] = EMPTY,
        task_end_offsets: list[StreamsGroupDescribeResponseTaskOffset] = EMPTY,
        assignment: StreamsGroupDescribeResponseAssignment | None = None,
        target_assignment: StreamsGroupDescribeResponseAssignment | None = None,
        is_classic: bool = False,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = [] if client_tags is EMPTY else client_tags
        self.task_offsets = [] if task_offsets is EMPTY else task_offsets
        self.task_end_offsets = [] if task_end_offsets is EMPTY else task_end_offsets
        self.assignment = StreamsGroupDescribeResponseAssignment() if assignment is None else assignment
        self.target_assignment = (
            StreamsGroupDescribeResponseAssignment() if target_assignment is None else target_assignment
        )
        self.is_classic = is_classic
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.member_id, pos = read_string(data, pos, True)
        (self.member_epoch,) = unpack_i(data, pos)
        pos += 4
        self.instance_id, pos = read_nullable_string(data, pos, True)
        self.rack_id, pos = read_nullable_string(data, pos, True)
        self.client_id, pos = read_string(data, pos, True)
        self.client_host, pos = read_string(data, pos, True)
        (self.topology_epoch,) = unpack_i(data, pos)
        pos += 4
        self.process_id, pos = read_string(data, pos, True)
        self.user_endpoint, pos = read_nullable_struct(
            data, pos, version, StreamsGroupDescribeResponseUserEndpoint.read_from
        )
        self.client_tags, pos = read_array(data, pos, version, True, StreamsGroupDescribeResponseClientTag.read_from)
        self.task_offsets, pos = read_array(data, pos, version, True, StreamsGroupDescribeResponseTaskOffset.read_from)
        self.task_end_offsets, pos = read_array(
            data, pos, version, True, StreamsGroupDescribeResponseTaskOffset.read_from
        )
        self.assignment, pos = StreamsGroupDescribeResponseAssignment.read_from(data, pos, version)
        self.target_assignment, pos = StreamsGroupDescribeResponseAssignment.read_from(data, pos, version)
        (self.is_classic,) = unpack_t(data, pos)
        pos += 1
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.member_id, True)
        write(pack_i(self.member_epoch))
        write_nullable_string(write, self.instance_id, True)
        write_nullable_string(write, self.rack_id, True)
        write_string(write, self.client_id, True)
        write_string(write, self.client_host, True)
        write(pack_i(self.topology_epoch))
        write_string(write, self.process_id, True)
        write_nullable_struct(write, self.user_endpoint, version)
        write_array(write, self.client_tags, version, True)
        write_array(write, self.task_offsets, version, True)
        write_array(write, self.task_end_offsets, version, True)
        self.assignment.write_to(write, version)
        self.target_assignment.write_to(write, version)
        write(pack_t(self.is_classic))
        write_tags(write, self.unknown_tags)


class StreamsGroupDescribeResponseGroup(WireStruct):
    """An element of `groups`."""

    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "topology",
        "members",
        "authorized_operations",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        topology: StreamsGroupDescribeResponseTopology | None = None,
        members: list[StreamsGroupDescribeResponseMember] = EMPTY,
        authorized_operations: int = -2147483648,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.topology = topology
        self.members = [] if members is EMPTY else members
        self.authorized_operations = authorized_operations
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.error_message, pos = read_nullable_string(data, pos, True)
        self.group_id, pos = read_string(data, pos, True)
        self.group_state, pos = read_string(data, pos, True)
        self.group_epoch, self.assignment_epoch = unpack_ii(data, pos)
        pos += 8
        self.topology, pos = read_nullable_struct(data, pos, version, StreamsGroupDescribeResponseTopology.read_from)
        self.members, pos = read_array(data, pos, version, True, StreamsGroupDescribeResponseMember.read_from)
        (self.authorized_operations,) = unpack_i(data, pos)
        pos += 4
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_h(self.error_code))
        write_nullable_string(write, self.error_message, True)
        write_string(write, self.group_id, True)
        write_string(write, self.group_state, True)
        write(pack_ii(self.group_epoch, self.assignment_epoch))
        write_nullable_struct(write, self.topology, version)
        write_array(write, self.members, version, True)
        write(pack_i(self.authorized_operations))
        write_tags(write, self.unknown_tags)


class StreamsGroupDescribeResponse(Response):
    """StreamsGroupDescribeResponse, version 0."""

    __slots__ = ("throttle_time_ms", "groups")

    API_KEY = 89
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[StreamsGroupDescribeResponseGroup] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is EMPTY else groups
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        self.groups, pos = read_array(data, pos, version, True, StreamsGroupDescribeResponseGroup.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.throttle_time_ms))
        write_array(write, self.groups, version, True)
        write_tags(write, self.unknown_tags)
