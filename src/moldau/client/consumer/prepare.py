"""What happens to records on their way to the application: deserialisers, interceptors, and what cannot be read.

It runs where the application runs, in its own thread or task: a deserialiser may ask a registry, and must not hold up
anything but its own consumer.

`on_error` says what becomes of a record that a deserialiser cannot read. "raise" (the default): DeserializationError,
and the position stays at that record, so that nothing is lost unnoticed; `seek` goes past it. "skip": a warning in the
log, and on with the next one. A function: it is called with the error (which has the record, in bytes), then on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from moldau.client.consumer.decode import Record
from moldau.client.consumer.handout import Handout
from moldau.client.errors import ConfigurationError, DeserializationError
from moldau.client.model import TopicPartition
from moldau.client.serialization import Deserializer, deserializer_of
from moldau.client.settings import ClientSettings

logger = logging.getLogger(__name__)

OnError = Callable[[DeserializationError], None]
Content = tuple[Any, Any]
"""Key and value."""


class Preparer:
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
        self._on_error = on_error
        self._interceptors = [
            one.on_consume
            for one in (one() if isinstance(one, type) else one for one in interceptors)
            if hasattr(one, "on_consume")
        ]

    @classmethod
    def of(cls, settings: ClientSettings, on_error: OnError | str) -> Preparer | None:
        """None where records are handed out as they are: bytes, and nobody who looks on."""
        preparer = cls(
            deserializer_of("key.deserializer", settings["key.deserializer"]),
            deserializer_of("value.deserializer", settings["value.deserializer"]),
            on_error,
            settings["interceptor.classes"],
        )
        if preparer._key is None and preparer._value is None and not preparer._interceptors:
            return None
        return preparer

    def one(self, record: Record) -> bool:
        """Prepare a record that is about to be yielded; False where it is left out."""
        content = self._deserialized(record)
        if content is None:
            return False
        record.replace_content(*content)
        return bool(self._intercept([record]))

    def all(self, handout: Handout) -> list[Record]:
        """Prepare what a poll returns. Where one cannot be read, those before it; it is the first of the next poll."""
        contents: list[Content | None] = []
        try:
            for record in handout.records:
                contents.append(self._deserialized(record))  # noqa: PERF401 - where one fails, those before it count
        except Exception:
            handout.set_seen(len(contents))
            if not any(contents):
                raise
        except BaseException:
            handout.set_seen(0)  # interrupted: the application gets none of them now, and all of them later
            raise
        else:
            handout.all_at_once()
        prepared: list[Record] = []
        for record, content in zip(handout.records, contents, strict=False):
            if content is not None:
                record.replace_content(*content)
                prepared.append(record)
        return self._intercept(prepared)

    def _deserialized(self, record: Record) -> Content | None:
        """None where the record is left out."""
        part = "key"
        try:
            key = record.key
            if key is not None and self._key is not None:
                key = self._key(record.topic, key)
            part = "value"
            value = record.value
            if value is not None and self._value is not None:
                value = self._value(record.topic, value)
        except Exception as problem:  # an application's code
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
                logger.warning("skipped: %s", error)
            return None
        return key, value

    def _intercept(self, records: list[Record]) -> list[Record]:
        for on_consume in self._interceptors:
            try:
                records = on_consume(records)
            except Exception:  # an application's code
                logger.exception("on_consume of an interceptor failed; the records go on as they were")
        return records
