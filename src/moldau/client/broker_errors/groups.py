"""Errors of brokers about groups, their members and their offsets: what each means, and what to do."""

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
    says="the group has given the partitions to others: poll was not called for max.poll.interval.ms, or the session "
    "ended; what was read since the last commit will be read again",
): ...


class IllegalGeneration(
    BrokerError, code=Code.ILLEGAL_GENERATION, says="the group has gone on to a newer generation without this member"
): ...


class UnknownMemberId(
    BrokerError, code=Code.UNKNOWN_MEMBER_ID, says="the group has no such member, or has given it up"
): ...


class RebalanceInProgress(
    BrokerError, code=Code.REBALANCE_IN_PROGRESS, says="the group is being rebalanced; call poll, then try again"
): ...


class FencedInstanceId(
    BrokerError,
    code=Code.FENCED_INSTANCE_ID,
    says="another consumer has joined with the same group.instance.id; each needs one of its own",
): ...


class UnreleasedInstanceId(
    BrokerError,
    code=Code.UNRELEASED_INSTANCE_ID,
    says="a living member holds this group.instance.id; each needs one of its own",
): ...


class FencedMemberEpoch(
    BrokerError, code=Code.FENCED_MEMBER_EPOCH, says="the group has given this member up; it has to join again"
): ...


class StaleMemberEpoch(
    BrokerError, code=Code.STALE_MEMBER_EPOCH, says="the member has a newer epoch; try again after the next poll"
): ...


class InconsistentGroupProtocol(
    BrokerError,
    code=Code.INCONSISTENT_GROUP_PROTOCOL,
    says="the group's members share no assignor with this one, or the group is of another kind; "
    "see partition.assignment.strategy and group.protocol",
): ...


class UnsupportedAssignor(
    BrokerError,
    code=Code.UNSUPPORTED_ASSIGNOR,
    says="the broker does not have the assignor of group.remote.assignor",
): ...


class InvalidSessionTimeout(
    BrokerError,
    code=Code.INVALID_SESSION_TIMEOUT,
    says="session.timeout.ms is outside of what the broker allows "
    "(group.min.session.timeout.ms to group.max.session.timeout.ms)",
): ...


class InvalidGroupId(BrokerError, code=Code.INVALID_GROUP_ID, says="not a legal group.id; it may not be empty"): ...


class GroupIdNotFound(BrokerError, code=Code.GROUP_ID_NOT_FOUND, says="there is no such group"): ...


class GroupNotEmpty(BrokerError, code=Code.NON_EMPTY_GROUP, says="the group has members; stop them first"): ...


class GroupSubscribedToTopic(
    BrokerError, code=Code.GROUP_SUBSCRIBED_TO_TOPIC, says="the group's members read this topic; stop them first"
): ...


class GroupMaxSizeReached(
    BrokerError, code=Code.GROUP_MAX_SIZE_REACHED, says="the group has as many members as the broker allows"
): ...


class InvalidRegularExpression(
    BrokerError, code=Code.INVALID_REGULAR_EXPRESSION, says="the broker cannot read the pattern; it takes RE2's syntax"
): ...


class OffsetMetadataTooLarge(
    BrokerError,
    code=Code.OFFSET_METADATA_TOO_LARGE,
    says="the text that goes with the offset is longer than offset.metadata.max.bytes",
): ...


class UnstableOffsetCommit(
    BrokerError, code=Code.UNSTABLE_OFFSET_COMMIT, says="a transaction over these offsets is open; try again"
): ...


class CoordinatorNotAvailable(
    BrokerError, code=Code.COORDINATOR_NOT_AVAILABLE, says="no broker coordinates it at the moment; try again"
): ...


class CoordinatorLoadInProgress(
    BrokerError, code=Code.COORDINATOR_LOAD_IN_PROGRESS, says="the coordinator is still loading; try again"
): ...


class NotCoordinator(BrokerError, code=Code.NOT_COORDINATOR, says="another broker coordinates it now; try again"): ...
