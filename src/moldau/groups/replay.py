"""Replay of stored records into groups.

Stored state of groups changes only here: when a shard loads, and after each of its decisions is stored.
"""

from __future__ import annotations

from typing import cast

from moldau.groups.classic_group import ClassicGroup
from moldau.groups.consumer_group import ConsumerGroup, SubscribedTopic
from moldau.groups.consumer_group_draft import current_from, member_from, target_from
from moldau.groups.group import Group
from moldau.groups.stored_records import KeyType, decode_key, decode_value
from moldau.host.event_log import event_logger
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
from moldau.wire.stored.consumer_group_partition_metadata import ConsumerGroupPartitionMetadataValue
from moldau.wire.stored.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from moldau.wire.stored.consumer_group_target_assignment_metadata import ConsumerGroupTargetAssignmentMetadataValue
from moldau.wire.stored.group_metadata import GroupMetadataKey, GroupMetadataValue

log = event_logger(__name__)

_OFFSET_KEYS = (b"\x00\x01", b"\x00\x00")
_LAST_OFFSET_KEY = 1


class StoredGroups:
    """All groups of a partition, by id."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self._pending: dict[int, dict[str, Group]] = {}
        """By producer id: the groups in which its open transaction has offsets, so that a marker finds them."""

    def made(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id)
        return group

    # -- offsets ---------------------------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> None:
        if key[1] <= _LAST_OFFSET_KEY and not key[0]:
            # The fast path: most records are offsets, and a coordinator serves requests only after it has replayed all.
            end = 4 + (key[2] << 8 | key[3])
            group = self.groups.get(key[4:end].decode())
            if group is None:
                if value is None:
                    return
                group = self.made(key[4:end].decode())
            offsets = group.offsets
            if value is None or offsets.pending:
                offsets.store(key[end:], value)
                self._remove_if_empty(group)
            else:
                offsets.committed[key[end:]] = value
            return
        try:
            self._replay_other(key, value)
        except (WireError, ValueError) as error:
            # A later version of Kafka may have written it. Only this record is skipped; the others are replayed.
            log.error("a record of __consumer_offsets cannot be read", extra={"key": key.hex(), "reason": str(error)})

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Replay an offset of an open transaction. Other records are never stored in a transaction."""
        if key[:2] not in _OFFSET_KEYS:
            return
        end = 4 + (key[2] << 8 | key[3])
        group = self.made(key[4:end].decode())
        group.offsets.store_pending(producer_id, key[end:], value)
        self._pending.setdefault(producer_id, {})[group.id] = group

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        for group_id in self._pending.pop(producer_id, {}):
            group = self.groups.get(group_id)
            if group is not None:
                group.offsets.end_transaction(producer_id, committed)
                self._remove_if_empty(group)

    # -- members ---------------------------------------------------------------------------------------------------

    def _replay_other(self, key: bytes, value: bytes | None) -> None:
        found = decode_key(key)
        if found is None:
            return
        key_type, name = found
        decoded = None if value is None else decode_value(key_type, value)
        if key_type == KeyType.GROUP_METADATA:
            self._replay_classic(cast(GroupMetadataKey, name).group, cast(GroupMetadataValue | None, decoded))
        else:
            self._replay_consumer(key_type, name, decoded)

    def _replay_classic(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if value is None:
            group = self.groups.get(group_id)
            if group is not None and group.classic is not None:
                group.classic = None
                self._remove_if_empty(group)
            return
        group = self.made(group_id)
        if group.classic is None:
            group.classic = ClassicGroup(group_id)
        group.consumer = None
        group.classic.apply(value)

    def _replay_consumer(self, key_type: int, key: Message, value: Message | None) -> None:
        group_id = cast(ConsumerGroupMetadataKey, key).group_id
        group = self.groups.get(group_id)
        if value is None and (group is None or group.consumer is None):
            return
        if group is None:
            group = self.made(group_id)
        if group.consumer is None:
            group.consumer = ConsumerGroup(group_id)
            group.classic = None
        consumer = group.consumer
        if key_type == KeyType.CONSUMER_GROUP_METADATA:
            if value is None:
                group.consumer = None
                self._remove_if_empty(group)
            else:
                consumer.epoch = cast(ConsumerGroupMetadataValue, value).epoch
        elif key_type == KeyType.CONSUMER_GROUP_PARTITION_METADATA:
            topics = cast(ConsumerGroupPartitionMetadataValue, value).topics if value is not None else []
            consumer.topics = {one.topic_name: SubscribedTopic(one.topic_id, one.num_partitions) for one in topics}
            self.topics_replayed(group_id)
        elif key_type == KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA:
            consumer.target_epoch = (
                cast(ConsumerGroupTargetAssignmentMetadataValue, value).assignment_epoch if value is not None else 0
            )
        else:
            _replay_member(consumer, key_type, key, value)

    def topics_replayed(self, group_id: str) -> None:
        """Called when the topics of a consumer group were replayed. `GroupShard` overrides it."""

    def _remove_if_empty(self, group: Group) -> None:
        if group.classic is None and group.consumer is None and not group.offsets:
            self.groups.pop(group.id, None)


def _replay_member(consumer: ConsumerGroup, key_type: int, key: Message, value: Message | None) -> None:
    if key_type == KeyType.CONSUMER_GROUP_MEMBER_METADATA:
        member_id = cast(ConsumerGroupMemberMetadataKey, key).member_id
        if value is None:
            consumer.remove_member(member_id)
        else:
            consumer.set_member(member_from(member_id, cast(ConsumerGroupMemberMetadataValue, value)))
    elif key_type == KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER:
        target = cast(ConsumerGroupTargetAssignmentMemberValue | None, value)
        consumer.set_target(
            cast(ConsumerGroupTargetAssignmentMemberKey, key).member_id, None if target is None else target_from(target)
        )
    elif key_type == KeyType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT:
        current = cast(ConsumerGroupCurrentMemberAssignmentValue | None, value)
        consumer.set_current(
            cast(ConsumerGroupCurrentMemberAssignmentKey, key).member_id,
            None if current is None else current_from(current),
        )
