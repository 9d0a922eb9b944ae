"""Well-behaved client during an attack: it must notice nothing.

It writes numbered records to its own topic and reads each one back. No other client writes there, so every offset, byte
and answer is known in advance. From time to time it reconnects.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from moldau.records import Codec
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from tests.support.raw import RawConnection
from tests.system import calls

TOPIC = "the-witness-and-nobody-else"
PARTITIONS = 2
PACE_S = 0.005
"""The pause between rounds, so that the witness leaves the processor to the broker."""

ROUNDS_A_CONNECTION = 200

# Settings that frames may change for the whole cluster are fixed for this topic.
CONFIGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "segment.bytes": "1048576",
    "flush.messages": "9223372036854775807",
}


class Witness:
    """Runs in its own thread while the context is open, and raises its error at the end."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)
        self._next_offset = [0] * PARTITIONS
        self.rounds = 0
        self.slowest_s = 0.0

    def __enter__(self) -> Self:
        with RawConnection(self._bootstrap, "witness") as connection:
            calls.create_topic(connection, TOPIC, PARTITIONS, CONFIGS)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    def check(self) -> None:
        """Raise the error of the witness, if it has one."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                with RawConnection(self._bootstrap, "witness") as connection:
                    for _ in range(ROUNDS_A_CONNECTION):
                        started = time.monotonic()
                        self._round(connection)
                        self.slowest_s = max(self.slowest_s, time.monotonic() - started)
                        self.rounds += 1
                        if self._stop.wait(PACE_S):
                            break
            self._read_it_all_again()
        except BaseException as failure:  # noqa: BLE001 - raised again in the test's own thread
            self._failure = failure

    def _round(self, connection: RawConnection) -> None:
        partition = self.rounds % PARTITIONS
        expected = self._next_offset[partition]
        values = [b"%d:%d" % (partition, expected + i) for i in range(3)]
        codec = Codec(self.rounds % len(Codec))
        body = calls.produce_body(TOPIC, partition, calls.batch_of(values, codec))
        connection.send(ApiKey.PRODUCE, calls.PRODUCE_VERSION, body)
        answer = calls.produce_answer(connection)
        assert answer.error_code == ErrorCode.NONE, (ErrorCode(answer.error_code).name, answer.error_message)
        assert answer.base_offset == expected
        fetched = calls.fetch(connection, TOPIC, partition, expected)
        assert fetched.error_code == ErrorCode.NONE, ErrorCode(fetched.error_code).name
        assert fetched.high_watermark == expected + len(values)
        assert [record.value for record in calls.records_in(fetched.records)] == values
        self._next_offset[partition] = expected + len(values)

    def _read_it_all_again(self) -> None:
        with RawConnection(self._bootstrap, "witness") as connection:
            for partition, end in enumerate(self._next_offset):
                records = calls.read_all(connection, TOPIC, partition)
                assert [record.offset for record in records] == list(range(end))
                assert [record.value for record in records] == [b"%d:%d" % (partition, i) for i in range(end)]
