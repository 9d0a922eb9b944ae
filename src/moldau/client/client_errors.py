"""Errors that a client detects itself, and the base class of all errors.

Import them from `moldau.client.errors`.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from moldau.client.data_types import TopicPartition

E = TypeVar("E", bound="MoldauError")

__all__ = [
    "ArgumentError",
    "AuthenticationError",
    "BrokerUnavailable",
    "BufferFull",
    "ClosedError",
    "ConcurrentUseError",
    "ConfigurationError",
    "DeserializationError",
    "IllegalStateError",
    "MoldauError",
    "NotKafka",
    "SaslAuthenticationError",
    "SerializationError",
    "TimedOut",
    "TlsAuthenticationError",
    "UnsupportedByBroker",
    "WakeupError",
]


class MoldauError(Exception):
    """The base class of all errors of the clients."""

    retriable: bool = False
    """Whether the same call may succeed if it is repeated."""


class ConfigurationError(MoldauError, ValueError):
    """A setting is unknown, has a wrong value, or conflicts with another setting."""


class ArgumentError(MoldauError, TypeError, ValueError):
    """An argument has a wrong type or value. The call has done nothing."""


class IllegalStateError(MoldauError, RuntimeError):
    """The call is not allowed now: for example commit without a group, or send outside of a transaction."""


class ConcurrentUseError(IllegalStateError):
    """Two threads or tasks used a consumer, or the transactions of a producer, at the same time.

    Of a consumer, only `wakeup` may be called by another thread.
    """


class ClosedError(MoldauError, RuntimeError):
    """The client is closed. Create a new one."""


class TimedOut(MoldauError, TimeoutError):
    """The operation did not complete in time. A request may nevertheless have been carried out, or may be later."""

    retriable = True


class BufferFull(TimedOut):
    """buffer.memory of the producer was full for max.block.ms. Send more slowly, or raise buffer.memory."""


class BrokerUnavailable(MoldauError, ConnectionError):
    """The broker cannot be reached, or the connection was lost before the response arrived."""

    retriable = True


class NotKafka(MoldauError, ConnectionError):
    """The address does not belong to a Kafka listener with this security.protocol. Check bootstrap.servers."""


class AuthenticationError(MoldauError, ConnectionError):
    """The client or the broker is not who it should be. Another attempt with the same settings would fail too."""


class SaslAuthenticationError(AuthenticationError):
    """The broker refused the login, does not have the mechanism, or did not prove who it is; or there is no token."""


class TlsAuthenticationError(AuthenticationError):
    """A certificate was refused: the broker's by the client, or the client's by the broker."""


class UnsupportedByBroker(MoldauError):
    """The broker does not support the API, the version of the API, or the feature that the call needs."""


class WakeupError(MoldauError):
    """`wakeup` interrupted poll. No record is lost: call poll again, or close the consumer."""


class SerializationError(MoldauError, ValueError):
    """A serializer cannot convert a key or value to bytes. The record was not sent."""


class DeserializationError(MoldauError, ValueError):
    """A deserializer cannot read the key or value of a record.

    The consumer's position stays at that record. To skip it: `consumer.seek(error.partition, error.offset + 1)`.
    """

    def __init__(self, message: str, partition: TopicPartition, offset: int, part: str, record: object = None) -> None:
        super().__init__(message)
        self.partition = partition
        self.offset = offset
        self.part = part
        """The part that cannot be read: "key" or "value"."""
        self.record = record
        """The record with key and value as bytes."""

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.partition, self.offset, self.part, self.record)

    @property
    def topic(self) -> str:
        """The topic of the record."""
        return self.partition.topic


def error_copy(error: E) -> E:
    """Return a copy of the error. An object that is raised in several places would collect all their tracebacks."""
    return copy(error)
