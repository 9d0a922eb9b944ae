"""Records of `__consumer_offsets`: keys and values in Kafka's formats, to bytes and back.

Most records are committed offsets. They stay encoded in memory: a group maps the tail of the key (topic and partition)
to the bytes of the value, and a value is decoded when it is requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from moldau.wire.errors import WireError
from moldau.wire.message import Message
from moldau.wire.stored.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from moldau.wire.stored.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from moldau.wire.stored.consumer_group_metadata import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from moldau.wire.stored.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from moldau.wire.stored.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from moldau.wire.stored.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from moldau.wire.stored.group_metadata import GroupMetadataKey, GroupMetadataValue
from moldau.wire.stored.offset_commit import OffsetCommitValue

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_SIZE: Final = Struct(">H")
_OFFSET_VALUE: Final = Struct(">hqi")  # version 3: version, offset, leader epoch
_OFFSET_VALUE_3: Final = 3
_OFFSET_VALUE_WITH_EXPIRY: Final = 1
_GROUP_METADATA: Final = 3
_INT64: Final = Struct(">q")


class KeyType(IntEnum):
    """The first two bytes of a key."""

    OFFSET_COMMIT_0 = 0
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8


KEYS: Final[Mapping[int, type[Message]]] = {
    KeyType.GROUP_METADATA: GroupMetadataKey,
    KeyType.CONSUMER_GROUP_METADATA: ConsumerGroupMetadataKey,
    KeyType.CONSUMER_GROUP_PARTITION_METADATA: ConsumerGroupPartitionMetadataKey,
    KeyType.CONSUMER_GROUP_MEMBER_METADATA: ConsumerGroupMemberMetadataKey,
    KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: ConsumerGroupTargetAssignmentMetadataKey,
    KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: ConsumerGroupTargetAssignmentMemberKey,
    KeyType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: ConsumerGroupCurrentMemberAssignmentKey,
}
VALUES: Final[Mapping[int, type[Message]]] = {
    KeyType.GROUP_METADATA: GroupMetadataValue,
    KeyType.CONSUMER_GROUP_METADATA: ConsumerGroupMetadataValue,
    KeyType.CONSUMER_GROUP_PARTITION_METADATA: ConsumerGroupPartitionMetadataValue,
    KeyType.CONSUMER_GROUP_MEMBER_METADATA: ConsumerGroupMemberMetadataValue,
    KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: ConsumerGroupTargetAssignmentMetadataValue,
    KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: ConsumerGroupTargetAssignmentMemberValue,
    KeyType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: ConsumerGroupCurrentMemberAssignmentValue,
}


# -- committed offsets -------------------------------------------------------------------------------------------------


class CommittedOffset(NamedTuple):
    """A decoded offset commit."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int
    """-1 if the retention of the broker applies."""


def offset_tail(topic: str, partition: int) -> bytes:
    """The part of an offset key after the group id: topic and partition."""
    name = topic.encode()
    return _SIZE.pack(len(name)) + name + _INT32.pack(partition)


def parse_tail(tail: bytes) -> tuple[str, int]:
    """Topic and partition from the tail of an offset key."""
    (size,) = _SIZE.unpack_from(tail)
    return tail[2 : 2 + size].decode(), _INT32.unpack_from(tail, 2 + size)[0]


def offset_key(group_id: bytes, tail: bytes) -> bytes:
    return b"\x00\x01" + _SIZE.pack(len(group_id)) + group_id + tail


def offset_value(offset: int, leader_epoch: int, metadata: str, commit_ms: int, expire_ms: int = -1) -> bytes:
    text = metadata.encode()
    if expire_ms >= 0:
        return b"".join(
            (
                _INT16.pack(_OFFSET_VALUE_WITH_EXPIRY),
                _INT64.pack(offset),
                _SIZE.pack(len(text)),
                text,
                _INT64.pack(commit_ms),
                _INT64.pack(expire_ms),
            )
        )
    return (
        _OFFSET_VALUE.pack(_OFFSET_VALUE_3, offset, leader_epoch)
        + _SIZE.pack(len(text))
        + text
        + _INT64.pack(commit_ms)
    )


def parse_offset(value: bytes) -> CommittedOffset:
    """Decode an offset value of any version; WireError if it is not valid."""
    (version,) = _INT16.unpack_from(value)
    if version == _OFFSET_VALUE_3:
        _, offset, leader_epoch = _OFFSET_VALUE.unpack_from(value)
        (size,) = _SIZE.unpack_from(value, 14)
        return CommittedOffset(
            offset, leader_epoch, value[16 : 16 + size].decode(), _INT64.unpack_from(value, 16 + size)[0], -1
        )
    message = OffsetCommitValue.decode(value, version, 2)
    return CommittedOffset(
        message.offset, message.leader_epoch, message.metadata, message.commit_timestamp, message.expire_timestamp
    )


# -- other records ----------------------------------------------------------------------------------------------------


def encode_key(key_type: KeyType, key: Message) -> bytes:
    return _INT16.pack(key_type) + key.encode(key_type)


def encode_value(value: Message, version: int = 0) -> bytes:
    return _INT16.pack(version) + value.encode(version)


def decode_key(key: bytes) -> tuple[int, Message] | None:
    """The type and the key; None for an unknown type, which a later version of Kafka may write."""
    (key_type,) = _INT16.unpack_from(key)
    cls = KEYS.get(key_type)
    return None if cls is None else (key_type, cls.decode(key, key_type, 2))


def decode_value(key_type: int, value: bytes) -> Message:
    (version,) = _INT16.unpack_from(value)
    cls = VALUES[key_type]
    if version > cls.MAX_VERSION:
        raise WireError(f"{cls.__name__} of version {version} is from a later Kafka")
    return cls.decode(value, version, 2)


def group_metadata_record(group_id: str, value: GroupMetadataValue) -> tuple[bytes, bytes]:
    return encode_key(KeyType.GROUP_METADATA, GroupMetadataKey(group=group_id)), encode_value(value, _GROUP_METADATA)


def group_metadata_tombstone(group_id: str) -> tuple[bytes, None]:
    return encode_key(KeyType.GROUP_METADATA, GroupMetadataKey(group=group_id)), None


Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id."""


def sorted_partitions(partitions: Partitions) -> Iterable[tuple[bytes, list[int]]]:
    """Topics and partitions in a fixed order, so that equal assignments have equal bytes."""
    return [(topic, sorted(partitions[topic])) for topic in sorted(partitions) if partitions[topic]]
