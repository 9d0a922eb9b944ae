"""The blocking consumer: `from moldau import Consumer`.

    with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        for record in consumer:
            ...

Its calls have the arguments, results and docstrings of the asyncio consumer. They run on the loop thread that all
blocking clients share, while the caller waits. Listeners, deserialisers and commit callbacks run in the thread that
calls the consumer, inside its calls, and may call the consumer themselves. The calls that run such code have a body of
their own here; `_blocking` and `_on_loop` make the others from `ConsumerCalls`.
"""

from __future__ import annotations

import functools
import re
from _thread import get_ident
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from moldau.client import arguments
from moldau.client.consumer.calls import ConsumerCalls
from moldau.client.consumer.commits import Offsets, OnCommit
from moldau.client.consumer.consumer import ARROW_ROWS, CLOSE_TIMEOUT_S, FOREVER_S
from moldau.client.consumer.consumer import Consumer as AioConsumer
from moldau.client.consumer.core import ConsumerCore
from moldau.client.consumer.decode import Record
from moldau.client.consumer.offset_reset import CallbackDue, RebalanceListener
from moldau.client.consumer.options import (
    Committable,
    Partitions,
    listener_method,
    listener_of,
    names_of,
    partitions_of,
    pattern_of,
    sort_arguments,
)
from moldau.client.consumer.poll_results import PollResults
from moldau.client.consumer.record_preparation import OnError, RecordPreparation
from moldau.client.consumer.row_decoding import RowDecoding
from moldau.client.consumer.single_owner import SingleOwner
from moldau.client.errors import ClosedError, MoldauError
from moldau.client.loop_thread import LoopThread
from moldau.client.row_formats import RowFormat

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.client.row_formats import GivenRegistry
    from moldau.schemas.schema import Schema

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    call: Callable[Concatenate[ConsumerCalls, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Consumer, P], T]:
    """A coroutine function as a blocking method with the same arguments, docstring and result."""

    @functools.wraps(call)
    def wait(self: Consumer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._use:
            return self._run(call(self._calls, *args, **kwargs))

    return wait


def _on_loop(call: Callable[Concatenate[ConsumerCalls, P], T]) -> Callable[Concatenate[Consumer, P], T]:
    """A plain function as a method that calls it on the loop thread, because the loop owns the consumer's state."""

    @functools.wraps(call)
    def wait(self: Consumer, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._use:
            return self._call(lambda: call(self._calls, *args, **kwargs))

    return wait


def _documented_by(
    call: Callable[Concatenate[AioConsumer, P], Coroutine[Any, Any, T]],
) -> Callable[[Callable[Concatenate[Consumer, P], T]], Callable[Concatenate[Consumer, P], T]]:
    """Decorator for a method with its own body: it gets the docstring of `call`. mypy compares the two signatures."""

    def document(method: Callable[Concatenate[Consumer, P], T]) -> Callable[Concatenate[Consumer, P], T]:
        method.__doc__ = call.__doc__
        return method

    return document


class Consumer:
    """Reads records from topics. docs/consumer.md is the guide.

        with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
            for record in consumer:
                ...

    Positional arguments are the topics to subscribe to. Settings have Kafka's names, as keywords (`group_id=`) or in a
    mapping (`{"group.id": …}`). `listener` is called when partitions are assigned, revoked or lost.

    `on_error` decides about a record that the deserialisers cannot read. "raise" raises DeserializationError, and the
    position stays at that record. "skip" logs a warning and skips the record. A function is called with the error; then
    the record is skipped.

    One thread at a time may use a consumer, otherwise calls raise ConcurrentUseError. Only `wakeup` may be called by
    other threads. After `close` calls raise ClosedError. An argument of a wrong type raises ArgumentError.
    """

    def __init__(
        self,
        *topics: str | Mapping[str, Any],
        listener: RebalanceListener | None = None,
        on_error: OnError | str = "raise",
        **settings: Any,
    ) -> None:
        given = sort_arguments(topics, settings)
        self._preparation = RecordPreparation.of(given.settings, on_error)
        self._row_decoding = RowDecoding(given.settings, on_error)
        self._listener: object = listener_of(listener)
        self._use = SingleOwner(get_ident)
        self._due_commit_callbacks: deque[tuple[OnCommit, Offsets, MoldauError | None]] = deque()
        self._closed = False
        # Its calls all run in the loop thread, so it never refuses one: `self._use` does that, in the caller's thread.
        self._calls = ConsumerCalls(given.topics, given.settings, SingleOwner(get_ident))
        self._thread = LoopThread.acquire()
        try:
            self._core: ConsumerCore = self._thread.run(self._calls._core())
        except BaseException:
            self._thread.release()
            raise

    # -- starting and closing --------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close. After an error do not commit the records returned last: the application may have failed on them."""
        if error is not None and not self._closed:
            self._core.mark_unread()
        self.close()

    @_documented_by(AioConsumer.close)
    def close(self, timeout: float | None = CLOSE_TIMEOUT_S) -> None:
        with self._use:
            if self._closed:
                return
            deadline = self._call(lambda: self._core.deadline(timeout))
            try:
                due = self._run(self._core.before_leaving(deadline))
                if due is not None:
                    self._call_listener(due)
            finally:
                self._closed = True
                try:
                    self._thread.run(self._core.close(deadline))
                finally:
                    self._thread.release()
                self._row_decoding.close()
            self._run_commit_callbacks()

    def wakeup(self) -> None:
        """Interrupt the call that waits for records or for a position: it raises WakeupError.

        If no such call is waiting, the next one raises it. This is the only call that any thread may make at any time.
        """
        if not self._closed:
            self._calls.wakeup()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine that runs on the loop thread; then run the commit callbacks that are due."""
        if self._closed:
            coroutine.close()
            raise ClosedError("this consumer was closed; make a new one")
        try:
            return self._thread.run(coroutine)
        finally:
            self._run_commit_callbacks()

    def _call(self, function: Callable[[], T]) -> T:
        """Return the result of a plain function that is called on the loop thread."""

        async def call() -> T:
            return function()

        return self._run(call())

    # -- subscription ----------------------------------------------------------------------------------------------

    @_documented_by(AioConsumer.subscribe)
    def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        with self._use:
            if listener is not None:
                self._listener = listener_of(listener)
            if pattern is not None:
                self._run(self._core.subscribe_pattern(pattern_of(pattern)))
            elif names := names_of(topics):
                self._run(self._core.subscribe(names))
            else:
                self.unsubscribe()

    @_documented_by(AioConsumer.assign)
    def assign(self, partitions: Partitions) -> None:
        with self._use:
            if wanted := partitions_of(partitions):
                self._call(lambda: self._core.assign(wanted))
            else:
                self.unsubscribe()

    @_documented_by(AioConsumer.unsubscribe)
    def unsubscribe(self) -> None:
        with self._use:
            deadline = self._call(lambda: self._core.deadline(None))
            due = self._run(self._core.before_leaving(deadline))
            if due is not None:
                self._call_listener(due)
            self._run(self._core.unsubscribe(deadline))

    subscription = _on_loop(ConsumerCalls.subscription)
    assignment = _on_loop(ConsumerCalls.assignment)

    # -- records ---------------------------------------------------------------------------------------------------
    # `poll`, `poll_arrow` and iteration mark records as read in the application's thread. If a coroutine on the loop
    # thread did it, a KeyboardInterrupt between that and the return of the call would lose them: they would be
    # committed, but never seen.

    @_documented_by(AioConsumer.poll)
    def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> list[Record]:
        with self._use:
            deadline = FOREVER_S if timeout is None else self._call(lambda: self._core.deadline(timeout))
            while True:
                results = self._next_results(deadline, max_records=max_records)
                if results is None:
                    return []
                if self._preparation is None:
                    return results.all_at_once()
                try:
                    if records := self._preparation.all(results):
                        return records
                finally:
                    if results.seen < len(results.records):
                        self._call(self._core.take_back)

    @_documented_by(AioConsumer.poll_arrow)
    def poll_arrow(
        self,
        max_rows: int = ARROW_ROWS,
        timeout: float | None = 1.0,
        *,
        headers: bool = False,
        key_format: str | None = None,
        value_format: str | None = None,
        key_schema: str | Schema | None = None,
        value_schema: str | Schema | None = None,
        registry: GivenRegistry = None,
    ) -> pa.RecordBatch:
        from moldau.records.arrow import ArrowRows, require_pyarrow

        require_pyarrow()  # the first import takes half a second: not in the loop thread, which sends the heartbeats
        wanted = RowFormat(key_format, value_format, key_schema, value_schema, registry).checked()
        with self._use:
            deadline = FOREVER_S if timeout is None else self._call(lambda: self._core.deadline(timeout))
            while True:
                outcome = self._run(self._core.step_rows(deadline, max_rows, bool(headers)))
                if isinstance(outcome, CallbackDue):
                    self._run_callback(outcome)
                    continue
                if wanted.is_plain:
                    return ArrowRows(headers=bool(headers)).finish() if outcome is None else outcome.mark_read()
                if outcome is None:
                    return self._row_decoding.decoded(ArrowRows(headers=bool(headers)).finish(), wanted).table
                try:
                    decoded = self._row_decoding.decoded(outcome.table, wanted)
                    outcome.mark_read(decoded.read)
                finally:
                    if outcome.unread_spans():
                        self._call(self._core.take_back)
                if decoded.table.num_rows:
                    return decoded.table

    def __iter__(self) -> Iterator[Record]:
        """Iterate over the records until the consumer is closed. A record counts as read when it is yielded.

        Only the fetch of the next few hundred records is Python code, so iterating costs little more than with a list.
        """
        return chain.from_iterable(iter(self._next_iterator, None))

    def _next_iterator(self) -> Iterator[Record] | None:
        if self._closed:
            return None
        with self._use:
            results = self._next_results(FOREVER_S, iterating=True)
        assert results is not None
        return results.one_by_one(None if self._preparation is None else self._preparation.one)

    def _next_results(
        self, deadline: float, *, max_records: int | None = None, iterating: bool = False
    ) -> PollResults | None:
        while True:
            outcome = self._run(self._core.step(deadline, max_records, iterating=iterating))
            if not isinstance(outcome, CallbackDue):
                return outcome
            self._run_callback(outcome)

    def _run_callback(self, due: CallbackDue) -> None:
        """Call the listener, and report to the core that it has returned or failed."""
        error: BaseException | None = None
        try:
            self._call_listener(due)
        except BaseException as problem:
            error = problem
            raise
        finally:
            if not self._closed:  # by the listener itself
                self._call(functools.partial(self._core.callback_done, due, error))

    def _call_listener(self, due: CallbackDue) -> None:
        method = listener_method(self._listener, due)
        if method is not None:
            method(list(due.partitions))

    # -- positions -------------------------------------------------------------------------------------------------

    seek = _blocking(ConsumerCalls.seek)
    seek_to_beginning = _blocking(ConsumerCalls.seek_to_beginning)
    seek_to_end = _blocking(ConsumerCalls.seek_to_end)
    position = _blocking(ConsumerCalls.position)
    pause = _blocking(ConsumerCalls.pause)
    resume = _blocking(ConsumerCalls.resume)
    paused = _on_loop(ConsumerCalls.paused)

    # -- commits ---------------------------------------------------------------------------------------------------

    commit = _blocking(ConsumerCalls.commit)
    committed = _blocking(ConsumerCalls.committed)
    group_metadata = _on_loop(ConsumerCalls.group_metadata)

    def commit_async(self, what: Committable = None, on_commit: OnCommit | None = None) -> None:
        """Commit offsets like `commit`, without waiting and without retries.

        When the commit has succeeded (`error` is None) or failed, `on_commit(offsets, error)` is called inside a later
        call of this consumer, in the thread that makes that call. Without `on_commit` a failure is logged.

        Raises IllegalStateError if the consumer has no group.id.
        """
        arguments.function("on_commit", on_commit)
        with self._use:
            self._run(self._calls.commit_async(what, None if on_commit is None else self._deferred(on_commit)))

    def _deferred(self, on_commit: OnCommit) -> OnCommit:
        return lambda offsets, error: self._due_commit_callbacks.append((on_commit, offsets, error))

    def _run_commit_callbacks(self) -> None:
        while self._due_commit_callbacks:
            on_commit, offsets, error = self._due_commit_callbacks.popleft()
            on_commit(offsets, error)

    # -- offsets, topics and metrics -------------------------------------------------------------------------------

    beginning_offsets = _blocking(ConsumerCalls.beginning_offsets)
    end_offsets = _blocking(ConsumerCalls.end_offsets)
    offsets_for_times = _blocking(ConsumerCalls.offsets_for_times)
    lag = _blocking(ConsumerCalls.lag)
    partitions_for = _blocking(ConsumerCalls.partitions_for)
    list_topics = _blocking(ConsumerCalls.list_topics)
    metrics = _on_loop(ConsumerCalls.metrics)
