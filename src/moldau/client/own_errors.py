"""The errors that a client finds out by itself, and the base of all.

Import them from `moldau.client.errors`.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from moldau.client.model import TopicPartition

E = TypeVar("E", bound="MoldauError")

__all__ = [
    "BrokerUnavailable",
    "BufferFull",
    "ClosedError",
    "ConcurrentUseError",
    "ConfigurationError",
    "DeserializationError",
    "IllegalStateError",
    "MoldauError",
    "NotKafka",
    "SerializationError",
    "TimedOut",
    "UnsupportedByBroker",
    "WakeupError",
]


class MoldauError(Exception):
    """The base of all errors of the clients."""

    retriable: bool = False
    """True where the same call may succeed when it is made again."""


class ConfigurationError(MoldauError, ValueError):
    """A setting that is unknown, malformed, out of bounds, or in conflict with another."""


class IllegalStateError(MoldauError, RuntimeError):
    """A call that makes no sense now: commit without a group, send outside of a transaction."""


class ConcurrentUseError(IllegalStateError):
    """A consumer was used by two threads or tasks at once; only `wakeup` may be called from elsewhere."""


class ClosedError(MoldauError, RuntimeError):
    """The client was closed."""


class TimedOut(MoldauError, TimeoutError):
    """What was asked did not happen in time. It may still have happened, or happen later."""

    retriable = True


class BufferFull(TimedOut):
    """The producer's memory (buffer.memory) stayed full for max.block.ms: records come faster than they leave."""


class BrokerUnavailable(MoldauError, ConnectionError):
    """No connection to the broker, or it was lost before the answer came."""

    retriable = True


class NotKafka(MoldauError, ConnectionError):
    """Something answers at that address, and it is no Kafka listener for plain text."""


class UnsupportedByBroker(MoldauError):
    """The broker does not have the API, the version of it, or the feature that is needed."""


class WakeupError(MoldauError):
    """`wakeup` was called: poll ended early. Nothing is lost; call poll again, or close."""


class SerializationError(MoldauError, ValueError):
    """A key or value that its serialiser cannot turn into bytes. Nothing was sent."""


class DeserializationError(MoldauError, ValueError):
    """A record whose key or value its deserialiser cannot read.

    The consumer's position stays at that record. To go past it: `consumer.seek(error.partition, error.offset + 1)`.
    """

    def __init__(self, message: str, partition: TopicPartition, offset: int, part: str, record: object = None) -> None:
        super().__init__(message)
        self.partition = partition
        self.offset = offset
        self.part = part
        """Which half of it: "key" or "value"."""
        self.record = record
        """The record as it came, key and value as bytes."""

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.partition, self.offset, self.part, self.record)

    @property
    def topic(self) -> str:
        return self.partition.topic


def another(error: E) -> E:
    """The same error as an object of its own: one that is raised in several places would collect their tracebacks."""
    return copy(error)
