"""What the error codes of the classic group protocol mean for a member: one table for all its requests."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from moldau.wire.errors import ErrorCode


class Reaction(Enum):
    """What an error code means for a member."""

    RETRY = "the same again, after a while"
    FIND_COORDINATOR = "the same, to another broker"
    REJOIN = "a rebalance has begun"
    GENERATION_OVER = "the group went on without us: what we had is another's"
    UNKNOWN = "the group has forgotten us: the same, and our id is worth nothing"
    USE_ID = "join again with the id in the answer"
    FENCED = "another member has our instance id"
    FAIL = "nothing that waiting could heal"


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
