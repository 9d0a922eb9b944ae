"""Error reactions of a classic group member: one table from error codes to reactions, for all its requests."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from moldau.wire.errors import ErrorCode


class Reaction(Enum):
    """What a member does after an error code."""

    RETRY = "send the request again after a pause"
    FIND_COORDINATOR = "look up the coordinator, then retry"
    REJOIN = "join again: a rebalance has started"
    GENERATION_OVER = "give up all partitions: the group has a new generation"
    UNKNOWN = "the same, and forget the member id: the group has removed this member"
    USE_ID = "join again with the member id in the response"
    FENCED = "stop: another member has the same instance id"
    FAIL = "stop: a retry does not help"


REACTIONS: Final[Mapping[ErrorCode, Reaction]] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
    ErrorCode.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
    ErrorCode.ILLEGAL_GENERATION: Reaction.GENERATION_OVER,
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.UNKNOWN,
    ErrorCode.MEMBER_ID_REQUIRED: Reaction.USE_ID,
    ErrorCode.FENCED_INSTANCE_ID: Reaction.FENCED,
}


def reaction_to(code: ErrorCode) -> Reaction:
    return REACTIONS.get(code) or (Reaction.RETRY if code.retriable else Reaction.FAIL)
