"""Base class of broker errors, and the mapping from error codes to exceptions."""

from __future__ import annotations

from typing import ClassVar

from moldau.client.client_errors import MoldauError
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
    """The broker answered with an error code. Subclasses stand for the codes that applications handle most often."""

    CODE: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR
    """The error code of the class."""

    SAYS: ClassVar[str] = ""
    """The meaning of the error code and what to do. It is part of the message."""

    def __init__(self, message: str, code: ErrorCode | None = None, detail: str | None = None) -> None:
        super().__init__(message)
        self.code = type(self).CODE if code is None else code
        self.detail = detail
        """The error message that the broker sent, or None."""
        self.retriable = self.code.retriable

    def __init_subclass__(cls, code: ErrorCode | None = None, says: str = "") -> None:
        cls.SAYS = says or cls.SAYS
        if code is not None:
            cls.CODE = code
            CLASS_OF[code] = cls


CLASS_OF: dict[ErrorCode, type[BrokerError]] = {}
"""The class of each code that has its own class."""

SAYS_OF = {
    ErrorCode.MEMBER_ID_REQUIRED: "the member must join again with the member id that the coordinator gave it",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "the partitions are being reassigned; wait until the reassignment is complete",
    ErrorCode.OPERATION_NOT_ATTEMPTED: "not attempted, because another part of the same request failed",
    ErrorCode.INVALID_REQUIRED_ACKS: "acks must be 0, 1 or all",
    ErrorCode.SECURITY_DISABLED: "the brokers run without an authorizer",
    ErrorCode.INVALID_UPDATE_VERSION: "the feature cannot be set to that version",
    ErrorCode.FEATURE_UPDATE_FAILED: "the feature was not changed",
    ErrorCode.REBOOTSTRAP_REQUIRED: "the client must connect again through bootstrap.servers",
}
"""The meaning of codes without a class of their own, if the name alone is not clear."""

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
"""Codes after which the client refreshes its metadata before the next attempt."""

COORDINATOR_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Codes after which the client looks up the coordinator again."""


def error_for(code: int, what: str, detail: str | None = None) -> BrokerError:
    """Return the exception for an error code from a response.

    `what` describes the operation ("creating topic 'orders'"), `detail` is the error message of the broker.
    """
    known = ErrorCode.of(code)
    kind = CLASS_OF.get(known, BrokerError)
    says = kind.SAYS if kind is not BrokerError else SAYS_OF.get(known, "")
    # The broker's message names the cause; ours adds what to do.
    reason = (
        "; ".join(part for part in (detail and detail.rstrip("."), says) if part) or "the broker refused the request"
    )
    name = known.name if known == code else f"code {code}"
    return kind(f"{what}: {reason} ({name})", known, detail)
