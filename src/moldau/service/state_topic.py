"""State topic: a compacted topic as a table that every process of a service follows.

    state = StateTopic("connect-configs", {"bootstrap.servers": brokers}, on_record=apply)
    await state.start()                       # creates the topic, reads it to its end
    await state.write(b"connector-a", value)  # returns when this process has read it back

Readers see committed records only. With a `transactional_id` every write is a transaction; `claim` fences the process
that claimed the same id before: its next write raises `Fenced`, and nothing of it becomes visible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moldau.client.errors import MoldauError

READ_TIMEOUT_S: Final = 30.0


class StateTopicError(MoldauError):
    """The topic cannot hold the state: it is not compacted, has a wrong number of partitions, or was deleted."""


class Fenced(MoldauError):
    """Another process has claimed the topic since; this one wrote nothing, and must claim it again to write."""


@dataclass(frozen=True)
class StateRecord:
    """One record of the topic. A value of None is a tombstone."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class StateTopic:
    """A compacted topic as a table. Used from one event loop; calls may run concurrently."""

    def __init__(
        self,
        topic: str,
        client_settings: Mapping[str, Any],
        *,
        on_record: Callable[[StateRecord], None] = lambda record: None,
        on_failure: Callable[[MoldauError], None] = lambda error: None,
        partitions: int = 1,
        replication_factor: int = -1,
        topic_configs: Mapping[str, str] | None = None,
        transactional_id: str | None = None,
        consumer_settings: Mapping[str, Any] | None = None,
        producer_settings: Mapping[str, Any] | None = None,
        admin_settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`client_settings` are for all three clients, the others come on top.

        `on_record` is called in the loop, in the order of each partition, once per record, before `write` and
        `read_to_end` that wait for it return. It must not block. `on_failure` is called once if the topic can no
        longer be followed; from then on every call raises that error.
        """
        self.topic = topic
        self.table: dict[bytes, StateRecord] = {}
        """The newest record of each key; a key whose newest record is a tombstone is not in it."""
        raise NotImplementedError

    async def start(self, timeout_s: float = READ_TIMEOUT_S) -> None:
        """Create the topic if it does not exist, check that it is compacted, and read it to its end.

        Raises StateTopicError if it is not compacted, or has not the wanted number of partitions where that matters
        (one); TimedOut if the brokers do not answer in time.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Stop following the topic, and close the clients. Waiting calls raise ClosedError."""
        raise NotImplementedError

    @property
    def partition_count(self) -> int:
        """How many partitions the topic has (known after `start`)."""
        raise NotImplementedError

    def position(self, partition: int = 0) -> int:
        """The next offset of the partition that this process will read: every record before it was applied."""
        raise NotImplementedError

    async def read_to_end(self, timeout_s: float = READ_TIMEOUT_S) -> None:
        """Return when every record that was committed before this call has been applied."""
        raise NotImplementedError

    async def claim(self, timeout_s: float = READ_TIMEOUT_S) -> None:
        """Become the writer: fence the process that claimed the same transactional id, then read to the end."""
        raise NotImplementedError

    async def write(
        self, key: bytes | None, value: bytes | None, *, partition: int | None = None, timeout_s: float = READ_TIMEOUT_S
    ) -> StateRecord:
        """Write one record; None deletes the key. Return when this process has applied it (read-your-write).

        Raises Fenced if another process has claimed the topic, TimedOut if the outcome is not known in time.
        """
        raise NotImplementedError

    async def write_all(
        self, records: Sequence[tuple[bytes | None, bytes | None]], *, timeout_s: float = READ_TIMEOUT_S
    ) -> list[StateRecord]:
        """Write several records in this order, in one transaction if the topic has a `transactional_id`."""
        raise NotImplementedError
