"""Producer that numbers the records of each partition from 0 and continues through broker failures."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

TICK_S = 0.02
FLUSH_TIMEOUT_S = 30


class NumberedProducer:
    """Writes a few records per tick while the context is open. It is idempotent, so a record's number is its offset."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, a_tick: int) -> None:
        self.written = [0] * partitions
        self._topic = topic
        self._a_tick = a_tick
        self._failures: list[KafkaError] = []
        self._ended = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        partitions, turn = len(self.written), 0
        while not self._ended.wait(TICK_S):
            for _ in range(self._a_tick):
                partition, turn = turn % partitions, turn + 1
                number, self.written[partition] = self.written[partition], self.written[partition] + 1
                self._producer.produce(self._topic, b"%d" % number, partition=partition, on_delivery=self._delivered)
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error)

    def end(self) -> list[int]:
        """Stop writing and return how many records each partition has. All of them were acknowledged."""
        self._ended.set()
        self._thread.join(FLUSH_TIMEOUT_S)
        assert self._producer.flush(FLUSH_TIMEOUT_S) == 0
        assert not self._failures, self._failures[0]
        return self.written

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
