"""Producers that number the records of each partition from 0 and continue through all faults of the cluster.

Each writes to its own topics, idempotently and with acks=all, and never gives up. So number and offset must agree: a
missing, duplicate or reordered record shifts all later ones.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from tests.support.waiting import NotYet, wait_until
from tests.system.producers import Progress

TICK_S = 0.02
JOIN_TIMEOUT_S = 30
ASK_TIMEOUT_S = 10
MOST_UNACKNOWLEDGED = 20_000
"""Enough for the longest unavailability of a cluster; after that the writer waits."""

GIVE_UP_MS = 3_600_000
"""The delivery time-out: longer than a test, because the outcome of an expired record is unknown."""

NO_OFFSET = None
"""librdkafka's result for a batch that the broker already has at an unknown offset."""


class Writer(ABC):
    """Writes a few records per tick, from entering the context until `end`."""

    def __init__(self, topic: str, partitions: int, a_tick: int, padding: int = 0) -> None:
        self.topic = topic
        self.written = [0] * partitions
        self.acknowledged = [0] * partitions
        self.progress = Progress()
        self.longest_silence_s = 0.0
        """The longest time without an acknowledgement."""
        self._padding = b" " * padding
        self._a_tick = a_tick
        self._waiting: set[tuple[int, int]] = set()
        """Records that are written and not yet acknowledged."""
        self._failures: list[str] = []
        self._last_heard = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def _send(self, partition: int, number: int, value: bytes) -> None: ...

    @abstractmethod
    def _serve(self) -> None:
        """Called every tick, to serve callbacks."""

    @abstractmethod
    def _flush(self, timeout_s: float) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...

    def _run(self) -> None:
        turn = 0
        try:
            while not self._ended.wait(TICK_S):
                if sum(self.written) - sum(self.acknowledged) < MOST_UNACKNOWLEDGED:
                    for _ in range(self._a_tick):
                        partition, turn = turn % len(self.written), turn + 1
                        number, self.written[partition] = self.written[partition], self.written[partition] + 1
                        self._waiting.add((partition, number))
                        self._send(partition, number, b"%d%s" % (number, self._padding))
                self._serve()
        except Exception as error:  # noqa: BLE001 - told by check
            self._failures.append(f"gave up: {error!r}")

    def _delivered(self, partition: int, number: int, offset: int | None, error: object) -> None:
        if error is not None:
            self._failures.append(f"{number} of partition {partition}: {error}")
            return
        if offset not in (number, NO_OFFSET):
            self._failures.append(f"{number} of partition {partition} was acknowledged at {offset}")
        if (partition, number) not in self._waiting:
            self._failures.append(f"{number} of partition {partition} was acknowledged twice")
        # Acknowledgements may arrive out of order: if the answer to a batch is lost, the next batch's answer may be
        # first.
        self._waiting.discard((partition, number))
        now = time.monotonic()
        self.longest_silence_s = max(self.longest_silence_s, now - self._last_heard)
        self._last_heard = now
        self.acknowledged[partition] += 1
        self.progress.add(1)

    @abstractmethod
    def _learn_partitions(self, count: int) -> None:
        """Make the client learn the new partition count."""

    def add_partitions(self, count: int) -> None:
        """Write to this many partitions of the topic from now on."""
        self._learn_partitions(count)
        self.acknowledged += [0] * (count - len(self.acknowledged))
        self.written += [0] * (count - len(self.written))

    def wait_for_progress(self, count: int, timeout_s: float) -> None:
        """Return when this many more records are acknowledged."""
        try:
            self.progress.reach(count, timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{self}: {error}; {self.acknowledged} of {self.written} are") from None
        finally:
            self.check()

    def reach_everywhere(self, timeout_s: float) -> None:
        """Return when a record is acknowledged in every partition."""
        wait_until(self._acknowledged_everywhere, "an acknowledgement in each partition", timeout_s)

    def _acknowledged_everywhere(self) -> bool:
        if not all(self.acknowledged):
            raise NotYet(f"{self}: acknowledged are {self.acknowledged}")
        return True

    def check(self) -> None:
        """Fail if a delivery has failed."""
        assert not self._failures, f"{self}: {self._failures[:5]}"

    def end(self, within_s: float) -> list[int]:
        """Stop writing and return how many records each partition has. All of them were acknowledged."""
        self._stop()
        self._flush(within_s)
        self.check()
        assert self.acknowledged == self.written, f"{self}: {self.acknowledged} of {self.written} were acknowledged"
        return self.written

    def _stop(self) -> None:
        self._ended.set()
        self._thread.join(JOIN_TIMEOUT_S)

    def __str__(self) -> str:
        return f"{type(self).__name__} of {self.topic}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self._close()


class ConfluentWriter(Writer):
    """librdkafka through confluent-kafka."""

    def __init__(self, client: Mapping[str, str], topic: str, partitions: int, a_tick: int, padding: int = 0) -> None:
        from confluent_kafka import Producer

        super().__init__(topic, partitions, a_tick, padding)
        self._producer = Producer(
            {
                **client,
                "client.id": "confluent-writer",
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": GIVE_UP_MS,
                "request.timeout.ms": 5_000,
                "socket.timeout.ms": 6_000,
                "socket.connection.setup.timeout.ms": 2_000,
                "topic.metadata.refresh.interval.ms": 2_000,
                "retry.backoff.ms": 50,
                "retry.backoff.max.ms": 200,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def _send(self, partition: int, number: int, value: bytes) -> None:
        def delivered(error: object, message: Any) -> None:
            self._delivered(partition, number, message.offset(), error)

        self._producer.produce(self.topic, value, partition=partition, on_delivery=delivered)

    def _serve(self) -> None:
        self._producer.poll(0)

    def _learn_partitions(self, count: int) -> None:
        def look() -> bool:
            found = len(self._producer.list_topics(self.topic, ASK_TIMEOUT_S).topics[self.topic].partitions)
            if found < count:
                raise NotYet(f"{self} knows of {found} partitions")
            return True

        wait_until(look, f"{count} partitions", JOIN_TIMEOUT_S)

    def _flush(self, timeout_s: float) -> None:
        left = self._producer.flush(timeout_s)
        assert left == 0, f"{self}: {left} records were not acknowledged in {timeout_s} s"

    def _close(self) -> None:
        self._producer.purge()
        self._producer.flush(1)


class MoldauWriter(Writer):
    """Moldau's producer."""

    def __init__(self, client: Mapping[str, str], topic: str, partitions: int, a_tick: int, padding: int = 0) -> None:
        from moldau import Producer

        super().__init__(topic, partitions, a_tick, padding)
        self._producer = Producer(
            client,
            client_id="moldau-writer",
            acks="all",
            linger_ms=2,
            delivery_timeout_ms=GIVE_UP_MS,
            max_block_ms=GIVE_UP_MS,
            request_timeout_ms=5_000,
            socket_connection_setup_timeout_ms=2_000,
            reconnect_backoff_max_ms=200,
            retry_backoff_max_ms=200,
        )

    def _send(self, partition: int, number: int, value: bytes) -> None:
        def delivered(metadata: Any, error: object) -> None:
            self._delivered(partition, number, None if metadata is None else metadata.offset, error)

        self._producer.send(self.topic, value, partition=partition, on_delivery=delivered)

    def _serve(self) -> None:
        """Callbacks need no call: they run in the client's own thread."""

    def _learn_partitions(self, count: int) -> None:
        """The producer refreshes its metadata when it gets a record for an unknown partition."""

    def _flush(self, timeout_s: float) -> None:
        self._producer.flush(timeout_s)

    def _close(self) -> None:
        self._producer.close(timeout=5)
