"""Producer interceptors: see each record before it is sent, may replace it, and get its result.

An interceptor is any object with some of these methods (give classes or instances as `interceptor.classes`):

    on_send(record: ProducerRecord) -> ProducerRecord      in the thread that calls `send`
    on_acknowledgement(metadata, error)                    in the producer's loop; one argument is None
    close()                                                when the producer is closed

As in Kafka, an exception of an interceptor is logged and has no other effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from moldau.client.data_types import RecordMetadata
from moldau.client.errors import ConfigurationError, MoldauError
from moldau.client.producer.futures import DeliveryCallback
from moldau.host.event_log import event_logger

log = event_logger(__name__)

_METHODS = ("on_send", "on_acknowledgement", "close")


class ProducerRecord(NamedTuple):
    """The arguments of `send`, as interceptors get them."""

    topic: str
    value: Any
    key: Any
    partition: int | None
    timestamp: int | None
    headers: Any


class Interceptors:
    """All interceptors of one producer, in order."""

    def __init__(self, given: Sequence[object]) -> None:
        self._all = [one() if isinstance(one, type) else one for one in given]
        for one in self._all:
            if not any(callable(getattr(one, name, None)) for name in _METHODS):
                raise ConfigurationError(
                    f"interceptor.classes: {one!r} has none of the methods {', '.join(_METHODS)}; define at least one"
                )

    def __bool__(self) -> bool:
        return bool(self._all)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        for one in self._all:
            method: Callable[[ProducerRecord], ProducerRecord] | None = getattr(one, "on_send", None)
            if method is None:
                continue
            try:
                record = method(record)
            except Exception:
                log.exception(
                    "interceptor failed", extra={"method": "on_send", "interceptor": repr(one), "topic": record.topic}
                )
        return record

    def with_acknowledgement(self, on_delivery: DeliveryCallback | None) -> DeliveryCallback:
        """Return a callback that calls the interceptors, and then `on_delivery`."""

        def notify(metadata: RecordMetadata | None, error: MoldauError | None) -> None:
            self.on_acknowledgement(metadata, error)
            if on_delivery is not None:
                on_delivery(metadata, error)

        return notify

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: MoldauError | None) -> None:
        self._call("on_acknowledgement", metadata, error)

    def close(self) -> None:
        self._call("close")

    def _call(self, name: str, *arguments: object) -> None:
        for one in self._all:
            method = getattr(one, name, None)
            if method is None:
                continue
            try:
                method(*arguments)
            except Exception:
                log.exception("interceptor failed", extra={"method": name, "interceptor": repr(one)})
