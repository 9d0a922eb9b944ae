"""What a future of a sent record can be asked, in plain Python: shared by the accumulator and its native twin.

A record has no state of its own. Its future knows the batch that the record went into and its place there; whether it
is done, its offset and its error are the batch's. That makes a future two numbers and a reference, and the
acknowledgement of a thousand records one assignment.

A batch that was too large for the broker is cut into parts; futures find the part that their record went into.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from _thread import allocate_lock
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from moldau.client.errors import MoldauError, TimedOut
from moldau.client.model import NO_OFFSET, RecordMetadata

if TYPE_CHECKING:
    from moldau.client.producer.accumulator import Batch, RecordFuture

_log = logging.getLogger("moldau.producer")

DeliveryCallback = Callable[[RecordMetadata | None, MoldauError | None], object]
"""Called with where the record is, or with why it is nowhere; one of the two is None."""


def leaf(batch: Batch, index: int) -> tuple[Batch, int]:
    """The batch that the record really left in, and its place there."""
    while batch.parts:
        for first, part in reversed(batch.parts):
            if index >= first:
                batch, index = part, index - first
                break
    return batch, index


def wait(future: RecordFuture, timeout: float | None) -> Batch:
    """Wait until the record's fate is known, in the calling thread. TimedOut after `timeout` seconds."""
    while True:
        batch, _ = leaf(future.batch, future.index)
        if batch.done:
            return batch
        # A lock that is released once is the cheapest thing to wait for: one system call here, one there.
        signal = allocate_lock()
        signal.acquire()
        if not batch.add_waiter(signal.release):
            continue  # it was done, or cut into parts, in this very moment
        if not signal.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            raise TimedOut(
                f"no answer about the record for {batch.queue.topic!r} partition {batch.queue.index} in {timeout} s; "
                "it is still being sent: wait longer, or for delivery.timeout.ms to decide"
            )


def metadata_of(future: RecordFuture, batch: Batch, index: int) -> RecordMetadata:
    offset = NO_OFFSET if batch.base_offset < 0 else batch.base_offset + index
    timestamp = future.timestamp if batch.log_append_time < 0 else batch.log_append_time
    return RecordMetadata(batch.queue.topic, batch.queue.index, offset, timestamp)


def outcome(future: RecordFuture) -> RecordMetadata:
    """Of a record whose fate is known: its metadata, or its error raised."""
    batch, index = leaf(future.batch, future.index)
    if batch.error is not None:
        # Every record of the batch raises it, perhaps in many threads: each with a traceback of its own.
        raise batch.error.with_traceback(None)
    return metadata_of(future, batch, index)


def result(future: RecordFuture, timeout: float | None) -> RecordMetadata:
    wait(future, timeout)
    return outcome(future)


def exception(future: RecordFuture, timeout: float | None) -> MoldauError | None:
    error: MoldauError | None = wait(future, timeout).error
    return error


def is_done(future: RecordFuture) -> bool:
    return bool(leaf(future.batch, future.index)[0].done)


def call_when_done(future: RecordFuture, callback: Callable[[], object]) -> None:
    """Call it in the thread that learns the record's fate, or here and now if that is known."""

    def look_again() -> None:
        if is_done(future):
            callback()
        else:  # its batch was cut into parts
            call_when_done(future, callback)

    while True:
        batch, _ = leaf(future.batch, future.index)
        if batch.done:
            callback()
            return
        if batch.add_waiter(look_again):
            return


def awaiting(future: RecordFuture) -> Generator[Any, None, RecordMetadata]:
    """What `await` does: works in any event loop, the producer's own or another."""
    if not is_done(future):
        loop = asyncio.get_running_loop()
        here = threading.get_ident()
        arrived: asyncio.Future[None] = loop.create_future()

        def arrive() -> None:
            if not arrived.done():
                arrived.set_result(None)

        def tell() -> None:
            if threading.get_ident() == here:
                arrive()
                return
            try:
                loop.call_soon_threadsafe(arrive)
            except RuntimeError:
                pass  # that loop was closed: nobody waits any more

        call_when_done(future, tell)
        yield from arrived
    return outcome(future)


def run_callbacks(batch: Batch, callbacks: list[tuple[RecordFuture, DeliveryCallback]]) -> None:
    """Tell those who asked to be told. What one of them raises is logged: the others must hear, too."""
    for future, callback in callbacks:
        metadata = metadata_of(future, batch, future.index) if batch.error is None else None
        try:
            callback(metadata, batch.error)
        except Exception:  # noqa: BLE001 - an application's code
            _log.exception("on_delivery of a record for %s-%d failed", batch.queue.topic, batch.queue.index)


def run_waiters(waiters: list[Callable[[], object]]) -> None:
    for waiter in waiters:
        try:
            waiter()
        except Exception:  # noqa: BLE001 - an application's code
            _log.exception("a callback of a record's future failed")
