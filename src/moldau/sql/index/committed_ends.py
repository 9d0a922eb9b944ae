"""Ends of a topic: the offsets up to which its records were committed at one moment, and the topic's id.

A question asks for them first, and is answered when the index has reached them. The id tells a topic from one that was
deleted and created again under its name.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau import Admin
from moldau.client.admin import OffsetSpec
from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError

ASK_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True)
class CommittedEnds:
    """The last stable offset of each partition."""

    topic_id: bytes
    offsets: Mapping[int, int]

    def reached_by(self, topic_id: bytes | None, positions: Mapping[int, int]) -> bool:
        """Whether an index of that topic, which has read up to these positions, includes everything."""
        return topic_id == self.topic_id and not self.missing(positions)

    def missing(self, positions: Mapping[int, int]) -> dict[int, int]:
        """The ends that are not reached, by partition."""
        return {partition: end for partition, end in self.offsets.items() if positions.get(partition, 0) < end}


class _EndsLook:
    """One look at the topic, which all questions share that came before it began."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.found: CommittedEnds | None = None
        self.error: MoldauError | None = None


class TopicEnds:
    """Asks the brokers for the ends of one topic. Any number of threads may ask at the same time.

    While one thread waits for the brokers, later questions wait for the next look, which one of them makes for all: a
    look that began before a question may not include what was committed before that question.
    """

    def __init__(self, topic: str, admin: Admin) -> None:
        self._topic = topic
        self._admin = admin
        self._turn = threading.Lock()
        self._guard = threading.Lock()
        self._next = _EndsLook()

    def ask(self, timeout_s: float = ASK_TIMEOUT_S) -> CommittedEnds:
        """Raises the client's errors, UnknownTopicOrPartition among them."""
        with self._guard:
            mine = self._next
        with self._turn:
            if not mine.done.is_set():
                with self._guard:
                    self._next = _EndsLook()
                try:
                    mine.found = self._look(timeout_s)
                except MoldauError as error:
                    mine.error = error
                finally:
                    mine.done.set()
        if mine.error is not None:
            raise mine.error
        assert mine.found is not None
        return mine.found

    def _look(self, timeout_s: float) -> CommittedEnds:
        described = self._admin.describe_topics(self._topic, timeout=timeout_s)[self._topic]
        wanted: dict[TopicPartition, Any] = {
            TopicPartition(self._topic, one.index): OffsetSpec.LATEST for one in described.partitions
        }
        ends = self._admin.list_offsets(wanted, isolation_level="read_committed", timeout=timeout_s)
        return CommittedEnds(described.id, {place.partition: found.offset for place, found in ends.items()})
