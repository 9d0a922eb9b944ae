"""Topic follower: the thread that reads the topic of a table into its index.

It reads committed records only, from the stored offsets. It builds the index again from the beginning of the topic if
the stored offsets say nothing about the topic as it is now:

- the topic was deleted and created again (its id differs), or an offset is outside of the log;
- the index was not written for so long that the cleaner may have removed tombstones which it has not read;
- the key columns of the table have changed.

Errors of brokers are retried for ever; questions that wait in the meantime end with their own time-out.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

from moldau import Admin, Consumer
from moldau.client.admin import ConfigResource
from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError, NoOffsetForPartition, OffsetOutOfRange, WakeupError
from moldau.host.clock import Clock, SystemClock
from moldau.host.event_log import event_logger
from moldau.sql.index.committed_ends import CommittedEnds
from moldau.sql.index.index_store import IndexChanges, IndexStore, PositionsMoved
from moldau.sql.index.record_changes import RecordChanges
from moldau.sql.index.table_keys import TableKeys

log = event_logger(__name__)

TOPIC_ID: Final = "topic id"
KEY_FORM: Final = "form of keys"
CURRENT_MS: Final = "current at ms"

POLL_ROWS: Final = 50_000
IDLE_POLL_S: Final = 0.5
WAITING_POLL_S: Final = 0.002
"""How long the follower polls while a question waits. Poll does not return for control records, which also count."""
MAX_COLLECT_S: Final = 1.0
"""How long the follower collects records for one transaction, if no question waits for them."""
RETRY_S: Final = 0.5
STOP_TIMEOUT_S: Final = 30.0
DELETE_RETENTION: Final = "delete.retention.ms"
DEFAULT_DELETE_RETENTION_MS: Final = 24 * 3600 * 1000
STORE_CURRENT_MS: Final = 60_000
"""How often the time at which the index was current is looked at, and stored."""

MUST_REBUILD: Final = (OffsetOutOfRange, NoOffsetForPartition)


class TopicFollower:
    """Reads one topic into one store, in a thread of its own, from `start` to `stop`."""

    def __init__(
        self,
        topic: str,
        client_settings: Mapping[str, Any],
        admin: Admin,
        store: IndexStore,
        keys: TableKeys,
        clock: Clock | None = None,
    ) -> None:
        self._topic = topic
        self._settings = {
            **client_settings,
            "isolation.level": "read_committed",
            "auto.offset.reset": "none",
            "enable.auto.commit": False,
        }
        self._admin = admin
        self._store = store
        self._keys = keys
        self._clock = clock or SystemClock()
        self._current_ms = 0
        self._aim: tuple[int, CommittedEnds] | None = None
        self._changed = threading.Condition()
        self._turn = 0
        self._wanted: list[CommittedEnds] = []
        self._look_again = False
        self._known: tuple[bytes, int] | None = None
        self._positions: dict[int, int] = {}
        self._consumer: Consumer | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"moldau-index-{topic}", daemon=True)
        self.began = False
        """Whether the stored offsets were compared with the topic since this process opened the index."""
        self.problem: Exception | None = None
        """The last error, until the follower reads again."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wake()
        if self._thread.is_alive():
            self._thread.join(STOP_TIMEOUT_S)

    # -- questions, in other threads -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def hurried(self, ends: CommittedEnds) -> Iterator[None]:
        """While a question waits for these ends, the follower looks for them without pauses."""
        with self._changed:
            self._wanted.append(ends)
        self._wake()
        try:
            yield
        finally:
            with self._changed:
                self._wanted.remove(ends)

    @property
    def turn(self) -> int:
        """The number of changes so far, for `wait`."""
        with self._changed:
            return self._turn

    def wait(self, turn: int, timeout_s: float) -> bool:
        """Wait until there are more changes than `turn`. False: the time is up."""
        with self._changed:
            return self._changed.wait_for(lambda: self._turn > turn, timeout_s)

    def compare(self, ends: CommittedEnds) -> None:
        """Begin again if the topic is another one, or has more partitions, than the follower reads."""
        known = self._known
        if known is not None and (known[0] != ends.topic_id or known[1] < len(ends.offsets)):
            self._look_again = True
            self._wake()

    def _wake(self) -> None:
        consumer = self._consumer
        if consumer is not None:
            with contextlib.suppress(MoldauError):
                consumer.wakeup()

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with Consumer(self._settings) as consumer:
                    self._consumer = consumer
                    self._follow(consumer)
            except (WakeupError, PositionsMoved):
                pass  # begin again at the stored positions
            except MUST_REBUILD as error:
                log.warning("index starts again", extra={"topic": self._topic, "reason": str(error)})
                self._store.clear({})
            except Exception as error:  # noqa: BLE001 - the thread must not end before `stop`
                self.problem = error
                log.warning("index not current, retrying", extra={"topic": self._topic, "reason": str(error)})
                self._stopping.wait(RETRY_S)
            finally:
                self._consumer = None
                self._known = None

    def _follow(self, consumer: Consumer) -> None:
        self._look_again = False
        places = self._begin(consumer)
        changes = RecordChanges(self._keys)
        collect_until = 0.0
        while not self._stopping.is_set() and not self._look_again:
            if changes.empty:
                collect_until = self._clock.monotonic() + MAX_COLLECT_S
            batch = self._polled(consumer, self._pause_s() if changes.empty else 0.0)
            self.problem = None
            if batch is not None and batch.num_rows:
                changes.add(batch)
                if self._clock.monotonic() < collect_until and not changes.full and not self._completed_by(changes):
                    continue
            if not changes.empty:
                self._apply(changes.take())
            elif self._waited_for():
                self._advance(consumer, places)
            self._note_current(consumer, places)

    def _completed_by(self, changes: RecordChanges) -> bool:
        """Whether a question can be answered when these changes are stored."""
        with self._changed:
            wanted = list(self._wanted)
        if not wanted:
            return False
        reached = self._positions | changes.positions
        return any(not ends.missing(reached) for ends in wanted)

    def _pause_s(self) -> float:
        return WAITING_POLL_S if self._waited_for() else IDLE_POLL_S

    def _waited_for(self) -> bool:
        with self._changed:
            return bool(self._wanted)

    def _polled(self, consumer: Consumer, timeout_s: float) -> Any:
        try:
            return consumer.poll_arrow(POLL_ROWS, timeout_s)
        except WakeupError:
            return None

    def _apply(self, changes: IndexChanges, facts: Mapping[str, bytes] | None = None) -> None:
        self._store.apply(changes, self._positions, facts)
        self._positions.update(changes.positions)
        self._announce()

    def _announce(self) -> None:
        with self._changed:
            self._turn += 1
            self._changed.notify_all()

    def _advance(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Store positions that moved without a record: past control records, and past what the cleaner removed."""
        try:
            now = {place.partition: consumer.position(place) for place in places}
        except WakeupError:
            return
        moved = {partition: offset for partition, offset in now.items() if self._positions.get(partition) != offset}
        if moved:
            self._apply(IndexChanges(positions=moved))

    def _note_current(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Store, once a minute, a time at which the topic had no record that the index has not read since."""
        now_ms = self._clock.now_ms()
        if self._aim is None and now_ms - self._current_ms > STORE_CURRENT_MS:
            ends = {place.partition: end for place, end in consumer.end_offsets(*places).items()}
            self._aim = now_ms, CommittedEnds(b"", ends)
        if self._aim is None:
            return
        try:
            reached = {place.partition: consumer.position(place) for place in places}
        except WakeupError:
            return
        at_ms, aimed = self._aim
        if not aimed.missing(reached):
            self._apply(IndexChanges(positions=reached), {CURRENT_MS: str(at_ms).encode()})
            self._current_ms, self._aim = at_ms, None

    # -- where to begin ------------------------------------------------------------------------------------------------

    def _begin(self, consumer: Consumer) -> list[TopicPartition]:
        """Assign all partitions, each at its stored offset, or at its beginning."""
        described = self._admin.describe_topics(self._topic)[self._topic]
        places = [TopicPartition(self._topic, one.index) for one in described.partitions]
        with self._store.snapshot() as snapshot:
            positions = snapshot.positions()
            facts: dict[str, bytes | None] = {name: snapshot.fact(name) for name in (TOPIC_ID, KEY_FORM, CURRENT_MS)}
        reason = self._rebuild_reason(facts, described.id) or self._outside(consumer, places, positions)
        if reason is not None:
            log.info("index is built", extra={"topic": self._topic, "reason": reason})
            # The whole topic is read from now on, so no tombstone that is there now is missed.
            began_ms = str(self._clock.now_ms()).encode()
            fresh = {TOPIC_ID: described.id, KEY_FORM: self._keys.signature, CURRENT_MS: began_ms}
            self._store.clear(fresh)
            facts.update(fresh)
            positions = {}
        consumer.assign(places)
        for place in places:
            if place.partition in positions:
                consumer.seek(place, positions[place.partition])
            else:
                consumer.seek_to_beginning(place)
        self._current_ms = int(facts[CURRENT_MS] or b"0")
        self._aim = None
        self._positions = dict(positions)
        self._known = described.id, len(places)
        self.began = True
        self._announce()  # a question may know of a newer topic
        return places

    def _rebuild_reason(self, facts: Mapping[str, bytes | None], topic_id: bytes) -> str | None:
        if facts[TOPIC_ID] is None:
            return "new"
        if facts[TOPIC_ID] != topic_id:
            return "the topic was created again"
        if facts[KEY_FORM] != self._keys.signature:
            return "the key columns have changed"
        current_ms = int(facts[CURRENT_MS] or b"0")
        if self._clock.now_ms() - current_ms > self._delete_retention_ms() // 2:
            return "it may have missed tombstones"
        return None

    def _outside(self, consumer: Consumer, places: list[TopicPartition], positions: Mapping[int, int]) -> str | None:
        if not positions:
            return None
        ends = consumer.end_offsets(*places)
        for place, end in ends.items():
            if positions.get(place.partition, 0) > end:
                return f"partition {place.partition} ends at {end}, before the stored offset"
        return None

    def _delete_retention_ms(self) -> int:
        resource = ConfigResource.topic(self._topic)
        try:
            found = self._admin.describe_configs(resource, names=[DELETE_RETENTION], synonyms=False)
            entry = found[resource].get(DELETE_RETENTION)
            return DEFAULT_DELETE_RETENTION_MS if entry is None or not entry.value else int(entry.value)
        except MoldauError:
            return DEFAULT_DELETE_RETENTION_MS  # not authorised to read settings
