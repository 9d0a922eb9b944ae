"""Record preparation: deserialisers, interceptors, and records that cannot be deserialised.

It runs in the application's thread or task. A deserialiser may call a schema registry, and must delay no other
consumer.

`on_error` decides about a record that a deserialiser cannot read:

* "raise" (the default): DeserializationError. The position stays at that record, so no record is lost unnoticed; the
  application skips it with `seek`.
* "skip": a warning in the log; the record is skipped.
* A function: it is called with the error, which has the record with key and value as bytes; the record is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from moldau.client.consumer.decode import Record
from moldau.client.consumer.poll_results import PollResults
from moldau.client.data_types import TopicPartition
from moldau.client.errors import ConfigurationError, DeserializationError
from moldau.client.serialization import Deserializer, deserializer_of, takes_headers
from moldau.client.settings import ClientSettings
from moldau.host.event_log import event_logger

log = event_logger(__name__)

OnError = Callable[[DeserializationError], None]
Content = tuple[Any, Any]
"""Key and value."""


class RecordPreparation:
    """Prepares the records of one consumer."""

    def __init__(
        self,
        key: Deserializer | None,
        value: Deserializer | None,
        on_error: OnError | str,
        interceptors: Sequence[Any] = (),
    ) -> None:
        if on_error not in ("raise", "skip") and not callable(on_error):
            raise ConfigurationError(f"on_error: {on_error!r} is neither 'raise' nor 'skip' nor a function")
        self._key = key
        self._value = value
        self._key_takes_headers = takes_headers(key)
        self._value_takes_headers = takes_headers(value)
        self._on_error = on_error
        self._interceptors = [
            one.on_consume
            for one in (one() if isinstance(one, type) else one for one in interceptors)
            if hasattr(one, "on_consume")
        ]

    @classmethod
    def of(cls, settings: ClientSettings, on_error: OnError | str) -> RecordPreparation | None:
        """Return None if there are no deserialisers and no interceptors: records are then returned as they are."""
        preparation = cls(
            deserializer_of("key.deserializer", settings["key.deserializer"], settings),
            deserializer_of("value.deserializer", settings["value.deserializer"], settings),
            on_error,
            settings["interceptor.classes"],
        )
        if preparation._key is None and preparation._value is None and not preparation._interceptors:
            return None
        return preparation

    def one(self, record: Record) -> bool:
        """Prepare a record that is about to be yielded. Return False if it is skipped."""
        content = self._deserialized(record)
        if content is None:
            return False
        record.replace_content(*content)
        return bool(self._intercept([record]))

    def all(self, results: PollResults) -> list[Record]:
        """Prepare and return the records of a poll.

        If one cannot be read, the records before it are returned, and the next poll starts with it. If it is the first
        one, the error is raised.
        """
        contents: list[Content | None] = []
        try:
            for record in results.records:
                contents.append(self._deserialized(record))  # noqa: PERF401 - after an error those before it are kept
        except Exception:
            results.set_seen(len(contents))
            if not any(contents):
                raise
        except BaseException:
            results.set_seen(0)  # interrupted: the application gets none of them now, and all in a later poll
            raise
        else:
            results.all_at_once()
        prepared: list[Record] = []
        for record, content in zip(results.records, contents, strict=False):
            if content is not None:
                record.replace_content(*content)
                prepared.append(record)
        return self._intercept(prepared)

    def _deserialized(self, record: Record) -> Content | None:
        """Return key and value, or None if the record is skipped."""
        part = "key"
        try:
            key = record.key
            if key is not None and self._key is not None:
                takes = self._key_takes_headers
                key = self._key(record.topic, key, record.headers) if takes else self._key(record.topic, key)
            part = "value"
            value = record.value
            if value is not None and self._value is not None:
                takes = self._value_takes_headers
                value = self._value(record.topic, value, record.headers) if takes else self._value(record.topic, value)
        except Exception as problem:  # raised by a deserialiser of the application
            error = DeserializationError(
                f"the {part} of the record at offset {record.offset} of partition {record.partition} of topic "
                f"{record.topic!r} cannot be read: {problem!r}; to go past it, seek to offset {record.offset + 1}",
                TopicPartition(record.topic, record.partition),
                record.offset,
                part,
                record,
            )
            if self._on_error == "raise":
                raise error from problem
            if callable(self._on_error):
                self._on_error(error)
            else:
                log.warning(
                    "record skipped, it cannot be deserialized",
                    extra={
                        "partition": str(error.partition),
                        "offset": record.offset,
                        "part": part,
                        "reason": repr(problem),
                    },
                )
            return None
        return key, value

    def _intercept(self, records: list[Record]) -> list[Record]:
        for on_consume in self._interceptors:
            try:
                records = on_consume(records)
            except Exception:  # raised by an interceptor of the application
                log.exception("on_consume of an interceptor failed, the records are returned unchanged")
        return records
