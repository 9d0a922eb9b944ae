"""Interceptors: they see every record before it is sent, may replace it, and hear what became of it.

An interceptor is any object with some of these methods (give classes or instances as `interceptor.classes`):

    on_send(record: ProducerRecord) -> ProducerRecord      in the thread that calls `send`
    on_acknowledgement(metadata, error)                    in the producer's loop; one of the two is None
    close()                                                when the producer closes

What one of them raises is logged and goes no further, as in Kafka: they look on, they do not decide.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from moldau.client.errors import ConfigurationError, MoldauError
from moldau.client.model import RecordMetadata
from moldau.client.producer.futures import DeliveryCallback

_log = logging.getLogger("moldau.producer")

_METHODS = ("on_send", "on_acknowledgement", "close")


class ProducerRecord(NamedTuple):
    """A record as it was given to `send`."""

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
                raise ConfigurationError(f"interceptor.classes: {one!r} has none of {', '.join(_METHODS)}")

    def __bool__(self) -> bool:
        return bool(self._all)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        for one in self._all:
            method: Callable[[ProducerRecord], ProducerRecord] | None = getattr(one, "on_send", None)
            if method is None:
                continue
            try:
                record = method(record)
            except Exception:  # noqa: BLE001 - an application's code
                _log.exception("on_send of %r failed for a record of %s", one, record.topic)
        return record

    def with_acknowledgement(self, on_delivery: DeliveryCallback | None) -> DeliveryCallback:
        """The caller's callback, after those of the interceptors."""

        def told(metadata: RecordMetadata | None, error: MoldauError | None) -> None:
            self.on_acknowledgement(metadata, error)
            if on_delivery is not None:
                on_delivery(metadata, error)

        return told

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
            except Exception:  # noqa: BLE001 - an application's code
                _log.exception("%s of %r failed", name, one)
