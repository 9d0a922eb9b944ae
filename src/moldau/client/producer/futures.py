"""Record futures: their methods in Python, shared by the accumulator and its native twin.

A record has no state of its own. Its future has a reference to the record's batch and an index in it. The batch knows
whether it is done, its offset and its error. Therefore a future is one reference and two numbers, and one assignment
acknowledges all records of a batch.

A batch that was too large for the broker is split into parts. Futures find the part that contains their record.
"""

from __future__ import annotations

import asyncio
import threading
from _thread import allocate_lock
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from moldau.client import arguments
from moldau.client.data_types import NO_OFFSET, RecordMetadata
from moldau.client.errors import MoldauError, TimedOut
from moldau.host.event_log import event_logger

if TYPE_CHECKING:
    from moldau.client.producer.accumulator import Batch, RecordFuture

log = event_logger(__name__)

DeliveryCallback = Callable[[RecordMetadata | None, MoldauError | None], object]
"""Called with the record's metadata, or with its error; the other argument is None."""


def leaf(batch: Batch, index: int) -> tuple[Batch, int]:
    """Return the batch that contains the record after all splits, and the record's index in it."""
    while batch.parts:
        for first, part in reversed(batch.parts):
            if index >= first:
                batch, index = part, index - first
                break
    return batch, index


def wait(future: RecordFuture, timeout: float | None) -> Batch:
    """Block until the record is delivered or has failed. Raises TimedOut after `timeout` seconds."""
    timeout = arguments.seconds("timeout", timeout)
    while True:
        batch, _ = leaf(future.batch, future.index)
        if batch.done:
            return batch
        # A lock that is released once is the cheapest signal: one system call in each of the two threads.
        signal = allocate_lock()
        signal.acquire()
        if not batch.add_waiter(signal.release):
            continue  # it became done, or was split, since `leaf`
        if not signal.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            raise TimedOut(
                f"no result for the record for topic {batch.queue.topic!r} partition {batch.queue.index} within "
                f"{timeout} s; the producer still sends it until delivery.timeout.ms is over: wait longer"
            )


def metadata_of(future: RecordFuture, batch: Batch, index: int) -> RecordMetadata:
    offset = NO_OFFSET if batch.base_offset < 0 else batch.base_offset + index
    timestamp = future.timestamp if batch.log_append_time < 0 else batch.log_append_time
    return RecordMetadata(batch.queue.topic, batch.queue.index, offset, timestamp)


def outcome(future: RecordFuture) -> RecordMetadata:
    """Return the metadata of a record that is done, or raise its error."""
    batch, index = leaf(future.batch, future.index)
    if batch.error is not None:
        # All records of the batch raise the same object, perhaps in many threads: do not let tracebacks add up.
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


def call_back(future: RecordFuture, callback: Callable[[RecordFuture], object]) -> None:
    """The implementation of `add_done_callback`."""
    arguments.function("callback", callback)
    call_when_done(future, lambda: callback(future))


def call_when_done(future: RecordFuture, callback: Callable[[], object]) -> None:
    """Call `callback` in the thread that completes the record's batch, or at once if the record is done."""

    def look_again() -> None:
        if is_done(future):
            callback()
        else:  # its batch was split
            call_when_done(future, callback)

    while True:
        batch, _ = leaf(future.batch, future.index)
        if batch.done:
            callback()
            return
        if batch.add_waiter(look_again):
            return


def wait_in_loop(when_done: Callable[[Callable[[], None]], None]) -> Generator[Any, None, None]:
    """Wait in the running event loop until `when_done` calls the function that it is given, in any thread."""
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
            pass  # the loop is closed, so no task waits any more

    when_done(tell)
    yield from arrived


def awaiting(future: RecordFuture) -> Generator[Any, None, RecordMetadata]:
    """The implementation of `__await__`. It works in any event loop, not only in the producer's."""
    if not is_done(future):
        yield from wait_in_loop(partial(call_when_done, future))
    return outcome(future)


def run_callbacks(batch: Batch, callbacks: list[tuple[RecordFuture, DeliveryCallback]]) -> None:
    """Call the `on_delivery` callbacks. An exception of one is logged, so that the others are called too."""
    for future, callback in callbacks:
        metadata = metadata_of(future, batch, future.index) if batch.error is None else None
        try:
            callback(metadata, batch.error)
        except Exception:
            log.exception("on_delivery failed", extra={"topic": batch.queue.topic, "partition": batch.queue.index})


def run_waiters(waiters: list[Callable[[], object]]) -> None:
    for waiter in waiters:
        try:
            waiter()
        except Exception:
            log.exception("a callback of a record's future failed")
