"""The base of all errors that a broker tells by a code, and the way from a code to its error."""

from __future__ import annotations

from typing import ClassVar

from moldau.client.own_errors import MoldauError
from moldau.wire.errors import ErrorCode

__all__ = [
    "CLASS_OF",
    "COORDINATOR_MOVED",
    "STALE_METADATA",
    "BrokerError",
    "ErrorCode",
    "error_for",
]


class BrokerError(MoldauError):
    """The broker answered with an error code."""

    CODE: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR
    """The code that a subclass stands for."""

    SAYS: ClassVar[str] = ""
    """What the code means and what to do, for the message."""

    def __init__(self, message: str, code: ErrorCode | None = None, detail: str | None = None) -> None:
        super().__init__(message)
        self.code = type(self).CODE if code is None else code
        self.detail = detail
        """The broker's own words, where it sent some."""
        self.retriable = self.code.retriable

    def __init_subclass__(cls, code: ErrorCode | None = None, says: str = "") -> None:
        cls.SAYS = says or cls.SAYS
        if code is not None:
            cls.CODE = code
            CLASS_OF[code] = cls


CLASS_OF: dict[ErrorCode, type[BrokerError]] = {}
"""The class for each code that has one of its own."""

SAYS_OF = {
    ErrorCode.MEMBER_ID_REQUIRED: "the member has to join again with the id that it was given",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "the partitions are being moved; wait until that is done",
    ErrorCode.OPERATION_NOT_ATTEMPTED: "not tried, because another part of the same request failed",
    ErrorCode.INVALID_REQUIRED_ACKS: "acks must be 0, 1 or all",
    ErrorCode.SECURITY_DISABLED: "the brokers run without an authorizer",
    ErrorCode.INVALID_UPDATE_VERSION: "the feature cannot be taken to that version",
    ErrorCode.FEATURE_UPDATE_FAILED: "the feature was not changed",
    ErrorCode.REBOOTSTRAP_REQUIRED: "the client has to start anew from bootstrap.servers",
}
"""What codes without a class of their own mean, where the name alone does not say it."""

STALE_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Codes after which the client's picture of the cluster is to be refreshed before the next attempt."""

COORDINATOR_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Codes after which the coordinator is to be looked up again."""


def error_for(code: int, what: str, detail: str | None = None) -> BrokerError:
    """The error for a code read from the wire. `what` was being done ("creating topic 'orders'"), `detail` is what the
    broker said about it.
    """
    known = ErrorCode.of(code)
    kind = CLASS_OF.get(known, BrokerError)
    says = kind.SAYS if kind is not BrokerError else SAYS_OF.get(known, "")
    # A broker's own sentence names the thing at fault; ours adds what to do.
    reason = "; ".join(part for part in (detail and detail.rstrip("."), says) if part) or "the broker refused it"
    name = known.name if known == code else f"code {code}"
    return kind(f"{what}: {reason} ({name})", known, detail)
