"""Sender of records: a JSON record of API v3 to the broker, and the line of JSON that answers it.

Records of one request are sent in their order. A record that cannot be sent has an error as its answer, and does not
stop those after it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from moldau.aio import Producer
from moldau.client.errors import MoldauError
from moldau.client.producer.engine import RecordFuture
from moldau.rest.errors import (
    KEY_SCHEMA_MISSING,
    VALUE_SCHEMA_MISSING,
    ProxyError,
    bad_request,
    rest_error,
    unprocessable,
)
from moldau.rest.record_formats import WITH_SCHEMA, RecordFormat, plain_bytes
from moldau.rest.schema_formats import SCHEMA_FIELDS, SchemaFormats
from moldau.rest.sessions import BrokerSession
from moldau.schemas.errors import SchemaError

MAX_HEADERS: Final = 1_000
RECORDS_PER_TURN: Final = 200
"""Records that are handled before other requests have a turn: some milliseconds."""
_PLAIN: Final = {"BINARY": "BINARY", "JSON": "JSON", "STRING": "STRING"}


class SentRecord:
    """A record on its way, and what its answer says about key and value."""

    __slots__ = ("future", "key", "value")

    def __init__(self, future: RecordFuture, key: tuple[str, int] | None, value: tuple[str, int] | None) -> None:
        self.future = future
        self.key = key
        self.value = value


class RecordSender:
    """Sends the records of one request to one topic."""

    def __init__(self, session: BrokerSession, topic: str, producer: Producer, schemas: SchemaFormats | None) -> None:
        self._session = session
        self._topic = topic
        self._producer = producer
        self._schemas = schemas
        self._head = f'"cluster_id":{json.dumps(session.cluster_id)},"topic_name":{json.dumps(topic)}'
        self._last_time = (-1, "")

    async def send(self, record: Any) -> SentRecord | ProxyError:
        """Send a record, or say why it cannot be sent."""
        try:
            if not isinstance(record, dict):
                raise bad_request('a record is a JSON object, such as {"value": {"type": "JSON", "data": 1}}')
            partition = record.get("partition_id")
            if partition is not None:
                await self._check_partition(partition)
            key, key_size = await self._part(record.get("key"), "key")
            value, value_size = await self._part(record.get("value"), "value")
            headers, timestamp = record.get("headers"), record.get("timestamp")
            future = await self._producer.send(
                self._topic,
                value,
                key,
                partition=partition,
                headers=headers and _headers(headers),
                timestamp=None if timestamp is None else _timestamp(timestamp),
            )
            return SentRecord(future, key_size, value_size)
        except ProxyError as error:
            return error
        except MoldauError as error:
            return rest_error(error)
        except SchemaError as error:
            return unprocessable(str(error))
        except UnicodeEncodeError:
            return unprocessable("a text has a surrogate, which UTF-8 does not have")

    async def _check_partition(self, partition: Any) -> None:
        if not isinstance(partition, int) or isinstance(partition, bool) or not 0 <= partition < 1 << 31:
            raise bad_request("partition_id: is not a number from 0 to 2147483647")
        await self._session.check_partition(self._topic, partition)

    async def _part(self, given: Any, part: str) -> tuple[bytes | None, tuple[str, int] | None]:
        """The bytes of a key or value, and its type and size."""
        if given is None:
            return None, None
        if not isinstance(given, dict):
            raise bad_request(f'{part}: is no object, such as {{"type": "JSON", "data": 1}}')
        kind = given.get("type")
        plain = _PLAIN.get(kind) if isinstance(kind, str) else None
        if plain is not None:
            if "data" not in given:
                return None, None
            data = plain_bytes(plain, given["data"], part)
            return data, None if data is None else (plain, len(data))
        return await self._with_schema(kind, given, part)

    async def _with_schema(
        self, kind: Any, given: Mapping[str, Any], part: str
    ) -> tuple[bytes | None, tuple[str, int] | None]:
        if kind is None and "data" not in given:
            return None, None
        if kind is not None and (not isinstance(kind, str) or kind not in WITH_SCHEMA):
            raise bad_request(
                f"{part}/type: {kind!r} is not one of {', '.join(one for one in RecordFormat if one != 'AUTO')}"
            )
        if kind is None and not any(name in given for name in SCHEMA_FIELDS):
            raise bad_request(f"{part}/type: missing; give BINARY, JSON or STRING, or a schema")
        if self._schemas is None:
            code = KEY_SCHEMA_MISSING if part == "key" else VALUE_SCHEMA_MISSING
            raise unprocessable("the proxy has no schema registry; start it with schema.registry.url", code)
        found, data = await self._schemas.encoded(
            self._topic, part, None if kind is None else RecordFormat(kind), given
        )
        return data, None if data is None else (found, len(data))

    async def send_all(self, records: Iterable[Any]) -> AsyncIterator[SentRecord | ProxyError]:
        """Send records, and give other requests a turn now and then."""
        for number, record in enumerate(records, 1):
            yield await self.send(record)
            if not number % RECORDS_PER_TURN:
                await asyncio.sleep(0)

    async def answers(self, sent: Sequence[SentRecord | ProxyError]) -> list[str]:
        """The answers to several records, in their order."""
        lines = []
        for number, one in enumerate(sent, 1):
            lines.append(await self.answer(one))
            if not number % RECORDS_PER_TURN:
                await asyncio.sleep(0)
        return lines

    async def answer(self, sent: SentRecord | ProxyError) -> str:
        """The line of JSON that answers a record, when the brokers have it."""
        if isinstance(sent, ProxyError):
            return json.dumps(sent.body)
        try:
            _, partition, offset, timestamp = await sent.future
        except MoldauError as error:
            return json.dumps(rest_error(error).body)
        return (
            f'{{"error_code":200,{self._head},"partition_id":{partition},"offset":{offset},'
            f'"timestamp":"{self._time(timestamp)}"{_size("key", sent.key)}{_size("value", sent.value)}}}'
        )

    def _time(self, milliseconds: int) -> str:
        if self._last_time[0] != milliseconds:
            self._last_time = (milliseconds, time_text(milliseconds))
        return self._last_time[1]


def time_text(milliseconds: int) -> str:
    try:
        return (
            datetime.fromtimestamp(milliseconds / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return str(milliseconds)


def _size(part: str, found: tuple[str, int] | None) -> str:
    return "" if found is None else f',"{part}":{{"type":"{found[0]}","size":{found[1]}}}'


def _headers(given: Any) -> Sequence[tuple[str, bytes | None]]:
    if not isinstance(given, list) or len(given) > MAX_HEADERS:
        raise bad_request(f"headers: is no array of at most {MAX_HEADERS} headers")
    found: list[tuple[str, bytes | None]] = []
    for header in given:
        name = header.get("name") if isinstance(header, dict) else None
        if not isinstance(name, str):
            raise bad_request('headers: a header is {"name": "…", "value": "base64"}')
        value = header.get("value")
        try:
            found.append((name, None if value is None else base64.b64decode(value, validate=True)))
        except (binascii.Error, ValueError, TypeError):
            raise bad_request(f"headers: the value of {name!r} is not base64") from None
    return found


def _timestamp(given: Any) -> int:
    try:
        if isinstance(given, str):
            moment = datetime.fromisoformat(given)
            found = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)
            if found >= 0:
                return found
        elif isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 1 << 63:
            return given
    except (ValueError, OverflowError):
        pass
    raise bad_request("timestamp: is neither a time such as 2026-01-31T12:00:00Z nor milliseconds since 1970")
