"""Broker errors about groups, their members and their offsets."""

from __future__ import annotations

from moldau.client.broker_errors.base import BrokerError
from moldau.wire.errors import ErrorCode as Code

__all__ = [
    "CommitFailed",
    "CoordinatorLoadInProgress",
    "CoordinatorNotAvailable",
    "FencedInstanceId",
    "FencedMemberEpoch",
    "GroupIdNotFound",
    "GroupMaxSizeReached",
    "GroupNotEmpty",
    "GroupSubscribedToTopic",
    "IllegalGeneration",
    "InconsistentGroupProtocol",
    "InvalidGroupId",
    "InvalidRegularExpression",
    "InvalidSessionTimeout",
    "NotCoordinator",
    "OffsetMetadataTooLarge",
    "RebalanceInProgress",
    "StaleMemberEpoch",
    "UnknownMemberId",
    "UnreleasedInstanceId",
    "UnstableOffsetCommit",
    "UnsupportedAssignor",
]


class CommitFailed(
    BrokerError,
    says="the group has assigned the partitions to other members: poll was not called for max.poll.interval.ms, or the "
    "session expired; records since the last commit will be read again",
): ...


class IllegalGeneration(
    BrokerError,
    code=Code.ILLEGAL_GENERATION,
    says="the group has a newer generation, and this member is not part of it; it joins again at the next poll",
): ...


class UnknownMemberId(
    BrokerError,
    code=Code.UNKNOWN_MEMBER_ID,
    says="the group has no such member, or has removed it because its session expired",
): ...


class RebalanceInProgress(
    BrokerError, code=Code.REBALANCE_IN_PROGRESS, says="the group is rebalancing; call poll, then try again"
): ...


class FencedInstanceId(
    BrokerError,
    code=Code.FENCED_INSTANCE_ID,
    says="another consumer has joined with the same group.instance.id; give each consumer its own",
): ...


class UnreleasedInstanceId(
    BrokerError,
    code=Code.UNRELEASED_INSTANCE_ID,
    says="an active member has this group.instance.id; give each consumer its own",
): ...


class FencedMemberEpoch(
    BrokerError, code=Code.FENCED_MEMBER_EPOCH, says="the group has removed this member; it must join again"
): ...


class StaleMemberEpoch(
    BrokerError,
    code=Code.STALE_MEMBER_EPOCH,
    says="the request has an older member epoch than the group; try again after the next poll",
): ...


class InconsistentGroupProtocol(
    BrokerError,
    code=Code.INCONSISTENT_GROUP_PROTOCOL,
    says="this member has no assignor in common with the other members, or the group has another protocol; "
    "check partition.assignment.strategy and group.protocol",
): ...


class UnsupportedAssignor(
    BrokerError,
    code=Code.UNSUPPORTED_ASSIGNOR,
    says="the broker does not have the assignor that group.remote.assignor names; choose another one",
): ...


class InvalidSessionTimeout(
    BrokerError,
    code=Code.INVALID_SESSION_TIMEOUT,
    says="session.timeout.ms is outside the limits of the broker "
    "(group.min.session.timeout.ms to group.max.session.timeout.ms)",
): ...


class InvalidGroupId(
    BrokerError, code=Code.INVALID_GROUP_ID, says="the group.id is not valid; it must not be empty"
): ...


class GroupIdNotFound(BrokerError, code=Code.GROUP_ID_NOT_FOUND, says="the group does not exist"): ...


class GroupNotEmpty(BrokerError, code=Code.NON_EMPTY_GROUP, says="the group has members; stop them first"): ...


class GroupSubscribedToTopic(
    BrokerError, code=Code.GROUP_SUBSCRIBED_TO_TOPIC, says="members of the group read this topic; stop them first"
): ...


class GroupMaxSizeReached(
    BrokerError,
    code=Code.GROUP_MAX_SIZE_REACHED,
    says="the group has the largest number of members that the broker allows (group.max.size)",
): ...


class InvalidRegularExpression(
    BrokerError, code=Code.INVALID_REGULAR_EXPRESSION, says="the pattern is not valid; use the syntax of RE2"
): ...


class OffsetMetadataTooLarge(
    BrokerError,
    code=Code.OFFSET_METADATA_TOO_LARGE,
    says="the metadata of the offset is longer than offset.metadata.max.bytes of the broker",
): ...


class UnstableOffsetCommit(
    BrokerError,
    code=Code.UNSTABLE_OFFSET_COMMIT,
    says="an open transaction commits these offsets; try again when it has ended",
): ...


class CoordinatorNotAvailable(
    BrokerError, code=Code.COORDINATOR_NOT_AVAILABLE, says="no coordinator is available at the moment; try again"
): ...


class CoordinatorLoadInProgress(
    BrokerError, code=Code.COORDINATOR_LOAD_IN_PROGRESS, says="the coordinator is still loading; try again"
): ...


class NotCoordinator(
    BrokerError, code=Code.NOT_COORDINATOR, says="another broker is the coordinator now; try again"
): ...
