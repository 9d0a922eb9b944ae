"""Commits of a sink in the driver: publish the batch, then commit the group's offsets; dead letters before both.

All of it goes through one transactional producer, whose id belongs to the connector. A worker that takes over fences
the earlier one. The order of a commit:

1. If there are dead letters: one transaction with the letters and the unchanged offsets of the group, whose metadata
   say up to which offset letters are written. A batch that is repeated does not write them again.
2. Begin a transaction and add the new offsets. The broker refuses this for a worker that was replaced.
3. `SinkConnector.commit` publishes the batch.
4. Commit the transaction.

What is left: a worker that is stopped between 2 and 3 for so long that another one takes over, and then goes on,
publishes a batch that the other one publishes too. A target that keeps the offsets with its data refuses the second
one, and a target with idempotent writes ends with the same rows; other targets have these rows twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from moldau.client.admin.topics import NewTopic
from moldau.client.blocking.admin import Admin
from moldau.client.blocking.producer import Producer
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.client.errors import MoldauError, TopicAlreadyExists, UnknownTopicOrPartition
from moldau.connect.connector import SinkSlice
from moldau.connect.engine.dead_letters import DeadLetter
from moldau.connect.engine.run_settings import ClientConfigs, ErrorSettings
from moldau.connect.engine.sink_plan import CommittedMark
from moldau.connect.engine.sink_task import send_letter

MAX_TRANSACTION_MS: Final = 900_000
"""The default of the brokers' transaction.max.timeout.ms: a commit of a sink may take this long."""


class SinkCommits:
    """The commits of one sink, from its take-over on."""

    def __init__(
        self, clients: ClientConfigs, transactional_id: str, group: str, errors: ErrorSettings, deadline_s: float
    ) -> None:
        self._group = group
        self._errors = errors
        self._settings = {
            **clients.producer,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": min(max(int(deadline_s * 1000), 10_000), MAX_TRANSACTION_MS),
        }
        self._producer: Producer | None = None
        self._dead_letters_ready = False

    def take_over(self) -> None:
        """Fence every earlier owner. Its open transaction, if any, is aborted."""
        self._producer = Producer(self._settings)
        self._producer.init_transactions()

    def committed(
        self, admin: Admin, partitions: Sequence[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's offsets, all or those of some partitions."""
        return admin.list_group_offsets(self._group, partitions, require_stable=True)

    def commit(
        self, slices: Sequence[SinkSlice], letters: Sequence[DeadLetter], batch: int, publish: Callable[[], None]
    ) -> None:
        """Make a batch visible and commit its offsets."""
        producer = self._producer
        assert producer is not None, "take_over() must be called before commit()"
        if letters:
            self._write_letters(producer, slices, letters, batch)
        offsets = {one.partition: OffsetAndMetadata(one.end, CommittedMark(batch).text()) for one in slices}
        producer.begin_transaction()
        try:
            producer.send_offsets(offsets, self._group)
            publish()
        except BaseException as error:
            self._abort(producer, error)
            raise
        producer.commit_transaction()

    def _abort(self, producer: Producer, why: BaseException) -> None:
        try:
            producer.abort_transaction()
        except MoldauError as error:
            why.add_note(f"the transaction was not aborted: {error}")

    # -- dead letters -------------------------------------------------------------------------------------------------

    def _write_letters(
        self, producer: Producer, slices: Sequence[SinkSlice], letters: Sequence[DeadLetter], batch: int
    ) -> None:
        with_letters = {(letter.topic, letter.partition) for letter in letters}
        marks: Mapping[TopicPartition, Any] = {
            one.partition: OffsetAndMetadata(one.start, CommittedMark(batch, one.end).text())
            for one in slices
            if (one.partition.topic, one.partition.partition) in with_letters
        }
        with producer.transaction():
            for letter in letters:
                send_letter(producer, self._errors.dead_letter_topic, letter)
            producer.send_offsets(marks, self._group)

    def prepare_dead_letters(self, admin: Admin) -> None:
        """Create the dead-letter topic, with one partition as in Kafka Connect, if it does not exist."""
        topic = self._errors.dead_letter_topic
        if not topic or self._dead_letters_ready:
            return
        try:
            admin.describe_topics([topic])
        except UnknownTopicOrPartition:
            replicas = min(self._errors.dead_letter_replicas, len(admin.describe_cluster().brokers))
            try:
                admin.create_topics([NewTopic(topic, 1, replicas)])
            except TopicAlreadyExists:
                pass
        self._dead_letters_ready = True

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None
