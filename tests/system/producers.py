"""Producers that write numbered records until the broker is gone, with several requests in flight."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Sequence

from moldau.records import Codec
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from tests.support.raw import ConnectionClosedError, RawConnection
from tests.system import calls
from tests.system.ledger import Ledger, Stream

IN_FLIGHT = 5
ACKS = (-1, 1, -1, 1, 0)
"""The acks settings of the producers, in turn; acks=0 gets no answer."""

JOIN_TIMEOUT_S = 30


class Progress:
    """The number of records that all producers together have had acknowledged. Tests wait for a number."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def add(self, count: int) -> None:
        with self._changed:
            self._count += count
            self._changed.notify_all()

    def reach(self, count: int, timeout_s: float = 30) -> None:
        """Return when `count` more records are acknowledged than now."""
        with self._changed:
            target = self._count + count
            assert self._changed.wait_for(lambda: self._count >= target, timeout_s), (
                f"only {self._count} of {target} records were acknowledged in {timeout_s} s"
            )


class Refused(AssertionError):
    """The broker answered with an error."""

    def __init__(self, code: int, message: str | None) -> None:
        super().__init__(f"{ErrorCode(code).name}: {message}")
        self.code = ErrorCode(code)


class NumberingProducer:
    """One connection with a stream to each partition. Ends when the broker ends; an error code is a failure."""

    def __init__(self, bootstrap: str, ledgers: Sequence[Ledger], progress: Progress, seed: float) -> None:
        self._connection = RawConnection(bootstrap)
        self._streams = [(ledger, ledger.new_stream()) for ledger in ledgers]
        self._progress = progress
        self._random = random.Random(seed)
        self._waiting: deque[tuple[int, Stream, int, int]] = deque()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self, *, unless: ErrorCode = ErrorCode.NONE) -> None:
        """Wait for the thread's end and raise its error, unless the broker refused with this code."""
        self._thread.join(JOIN_TIMEOUT_S)
        assert not self._thread.is_alive(), "the producer did not notice that its broker has ended"
        self._connection.close()
        if isinstance(self._failure, Refused) and self._failure.code == unless:
            return
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        turn = 0
        try:
            while True:
                self._send(ACKS[turn % len(ACKS)])
                if len(self._waiting) >= IN_FLIGHT:
                    self._receive()
                turn += 1
        except (ConnectionClosedError, ConnectionError):
            pass  # batches in flight may be in the log or not
        except BaseException as failure:  # noqa: BLE001 - raised again by join
            self._failure = failure

    def _send(self, acks: int) -> None:
        ledger, stream = self._random.choice(self._streams)
        first, count = stream.sent, self._random.choice((1, 3, 10, 50))
        codec = self._random.choice((Codec.NONE, Codec.NONE, Codec.LZ4))
        batch = calls.batch_of(stream.next_values(count), codec)
        body = calls.produce_body(ledger.topic, ledger.partition, batch, acks)
        correlation_id = self._connection.send(ApiKey.PRODUCE, calls.PRODUCE_VERSION, body)
        if acks:
            self._waiting.append((correlation_id, stream, first, count))

    def _receive(self) -> None:
        correlation_id, stream, first, count = self._waiting.popleft()
        answer = calls.produce_answer(self._connection, correlation_id)
        if answer.error_code != ErrorCode.NONE:
            raise Refused(answer.error_code, answer.error_message)
        stream.acknowledged(first, count, answer.base_offset)
        self._progress.add(count)
