"""Key index of a table: answers which record is the latest of a key, including all that was committed before.

    index = KeyIndex(declaration, {"bootstrap.servers": "localhost:9092"}, "/var/lib/moldau/index/totals")
    index.get([b"customer-7"])

A question first asks the brokers where the topic ends. It is answered from a snapshot of the index that has read up to
there, so it includes every record that was committed before the question. Records that are committed later may be
included or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from moldau import Admin
from moldau.client.errors import MoldauError, UnknownTopicOrPartition
from moldau.host.clock import Clock, SystemClock
from moldau.host.fs import LocalFileSystem
from moldau.sql.declarations import Declaration
from moldau.sql.errors import SqlError
from moldau.sql.index.committed_ends import CommittedEnds, TopicEnds
from moldau.sql.index.index_store import IndexedRecord, IndexStore, IndexUnusable
from moldau.sql.index.table_keys import TableKeys
from moldau.sql.index.topic_follower import TOPIC_ID, TopicFollower

ANSWER_TIMEOUT_S: Final = 30.0
"""How long a question waits for the index: one that is being built reads the whole topic first."""


class KeyIndex:
    """The index of one table. Opening it starts a thread that follows the topic. Any thread may ask until `close`."""

    def __init__(
        self,
        declaration: Declaration,
        client_settings: Mapping[str, Any],
        directory: str,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.declaration = declaration
        self.keys = TableKeys(declaration)
        if not self.keys.supported:
            raise SqlError(f"table {declaration.name} has no key column that can be looked up")
        self._directory = directory
        self._closed = False
        self._clock = clock or SystemClock()
        self._admin = Admin(client_settings)
        try:
            self._store = IndexStore(directory)
        except BaseException:
            self._admin.close()
            raise
        self._ends = TopicEnds(declaration.topic, self._admin)
        self._follower = TopicFollower(
            declaration.topic, client_settings, self._admin, self._store, self.keys, self._clock
        )
        self._follower.start()

    def close(self, *, remove: bool = False) -> None:
        """Stop following the topic. `remove` deletes the index file."""
        if self._closed:
            return
        self._closed = True
        self._follower.stop()
        self._store.close()
        self._admin.close()
        if remove:
            LocalFileSystem().remove_tree(self._directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def get(self, lookups: Sequence[bytes], timeout_s: float = ANSWER_TIMEOUT_S) -> list[IndexedRecord]:
        """Return the latest records of these keys (see `TableKeys`), in their order; a deleted key has none.

        Raises SqlError if the index does not reach, within `timeout_s`, what was committed before the question.
        """
        try:
            return self._get(lookups, timeout_s)
        except IndexUnusable as error:
            raise SqlError(f"table {self.declaration.name} cannot be asked by key: {error}") from error

    def _get(self, lookups: Sequence[bytes], timeout_s: float) -> list[IndexedRecord]:
        deadline = self._clock.monotonic() + timeout_s
        ends = self._asked(timeout_s)
        found = self._answer(ends, lookups)
        if found is not None:
            return found
        with self._follower.hurried(ends):
            while True:
                turn = self._follower.turn
                found = self._answer(ends, lookups)
                if found is not None:
                    return found
                left_s = deadline - self._clock.monotonic()
                if left_s <= 0 or not self._follower.wait(turn, left_s):
                    raise self._not_reached(ends, timeout_s)

    def count(self, timeout_s: float = ANSWER_TIMEOUT_S) -> int:
        """The number of rows, after all that was committed before the question."""
        self.get([], timeout_s)
        with self._store.snapshot() as snapshot:
            return snapshot.count()

    def positions(self) -> dict[int, int]:
        """The next offset of each partition, as far as the index has read."""
        with self._store.snapshot() as snapshot:
            return snapshot.positions()

    def _asked(self, timeout_s: float) -> CommittedEnds:
        name, topic = self.declaration.name, self.declaration.topic
        try:
            return self._ends.ask(timeout_s)
        except UnknownTopicOrPartition as error:
            raise SqlError(f"topic {topic!r} of table {name} does not exist") from error
        except MoldauError as error:
            raise SqlError(f"the end of topic {topic!r} of table {name} is not known: {error}") from error

    def _answer(self, ends: CommittedEnds, lookups: Sequence[bytes]) -> list[IndexedRecord] | None:
        if self._follower.began:
            with self._store.snapshot() as snapshot:
                if ends.reached_by(snapshot.fact(TOPIC_ID), snapshot.positions()):
                    return snapshot.get(lookups)
        self._follower.compare(ends)
        return None

    def _not_reached(self, ends: CommittedEnds, timeout_s: float) -> SqlError:
        positions = self.positions()
        left = sum(end - positions.get(partition, 0) for partition, end in ends.missing(positions).items())
        why = f": {self._follower.problem}" if self._follower.problem else ""
        return SqlError(
            f"the index of table {self.declaration.name} did not reach the end of topic "
            f"{self.declaration.topic!r} within {timeout_s:g} s; {left} offsets are left{why}",
            hint="ask again, the index goes on reading",
        )
