"""PRINT topic: records as they are, from the end or from the beginning, until the user stops it or the LIMIT."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from moldau.client.blocking.consumer import Consumer
from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError, WakeupError
from moldau.sql.errors import SqlError
from moldau.sql.relation_names import did_you_mean
from moldau.sql.results import ResultColumn, RowChange
from moldau.sql.session_context import SessionContext
from moldau.sql.spark_errors import client_error
from moldau.sql.statements import PrintStatement
from moldau.sql.tables.topic_lookup import KnownTopic, consumer_settings

POLL_S: Final = 0.5


def print_records(context: SessionContext, statement: PrintStatement) -> PrintedRecords:
    """Run PRINT. The name is that of a topic, or of a declaration."""
    relations = context.relations
    declared = relations.declared(statement.topic)
    name = statement.topic if declared is None else declared.topic
    topic = relations.lookup.topic(name)
    if topic is None:
        same = [one for one in relations.lookup.names() if one.lower() == name.lower()]
        topic = relations.lookup.topic(same[0]) if len(same) == 1 else None
    if topic is None:
        raise SqlError(f"there is no topic {name!r}", hint=did_you_mean(name, relations.lookup.names()))
    span = relations.lookup.span(topic)
    begin = span.first if statement.from_beginning else span.end
    return PrintedRecords(consumer_settings(context.client_settings), topic, dict(begin), statement.limit)


class PrintedRecords:
    """The records as a continuous result. Iterate once."""

    columns: Sequence[ResultColumn] = (
        ResultColumn("timestamp", "timestamp"),
        ResultColumn("partition", "int"),
        ResultColumn("offset", "bigint"),
        ResultColumn("key", "string"),
        ResultColumn("value", "string"),
        ResultColumn("headers", "string"),
    )
    key: tuple[int, ...] = ()

    def __init__(self, settings: dict[str, Any], topic: KnownTopic, begin: dict[int, int], limit: int | None) -> None:
        self._settings = {
            "client.id": "moldau-sql",
            **settings,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
        self._settings.pop("group.id", None)
        self._topic = topic
        self._begin = begin
        self._limit = limit
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def __iter__(self) -> Iterator[RowChange]:
        left = self._limit
        try:
            with Consumer(self._settings) as consumer:
                partitions = {TopicPartition(self._topic.name, index): at for index, at in self._begin.items()}
                consumer.assign(list(partitions))
                for partition, offset in partitions.items():
                    consumer.seek(partition, offset)
                while not self._stopped.is_set() and (left is None or left > 0):
                    for record in consumer.poll(POLL_S):
                        yield RowChange(_row(record))
                        left = None if left is None else left - 1
                        if left == 0 or self._stopped.is_set():
                            return
        except WakeupError:
            return
        except MoldauError as error:
            raise client_error(error) from None


def _row(record: Any) -> tuple[Any, ...]:
    moment = datetime.fromtimestamp(record.timestamp / 1000, UTC)
    headers = ", ".join(f"{name}={_text(value)}" for name, value in record.headers) or None
    return moment, record.partition, record.offset, _text(record.key), _text(record.value), headers


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "0x" + value.hex()
