"""Produce (API v2): several records to a topic or to one partition, in the format that the media type names.

The answer has an offset or an error for each record, in their order. With a schema it also has the schema's id.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from moldau.client.errors import MoldauError
from moldau.client.producer.engine import RecordFuture
from moldau.rest.endpoints import INT32, MAX_INT32, ProxyCall, ProxyEndpoint, array, check_type, record
from moldau.rest.errors import (
    KEY_SCHEMA_MISSING,
    VALUE_SCHEMA_MISSING,
    ProxyError,
    bad_request,
    rest_error,
    unprocessable,
)
from moldau.rest.record_formats import RecordFormat, plain_bytes
from moldau.rest.record_sender import RECORDS_PER_TURN
from moldau.rest.schema_formats import SchemaFormats
from moldau.rest.v2.media_types import RECORD_TYPES, V2
from moldau.schemas.errors import SchemaError

TAG = "v2: produce"
MAX_RECORDS: Final = 100_000
"""Records of one request."""

TEXT_OR_NULL = {"type": ["string", "null"]}
ID_OR_NULL = {**INT32, "type": ["integer", "null"]}
SCHEMAS = {
    "key_schema": TEXT_OR_NULL,
    "key_schema_id": ID_OR_NULL,
    "value_schema": TEXT_OR_NULL,
    "value_schema_id": ID_OR_NULL,
}
RECORD = {"type": "object", "properties": {"partition": ID_OR_NULL}}
RECORDS = record({"records": array(RECORD, minItems=1, maxItems=MAX_RECORDS)}, **SCHEMAS)
CHECK = record({"records": array({}, minItems=1, maxItems=MAX_RECORDS)}, **SCHEMAS)


class ProduceV2:
    """The endpoints that produce."""

    def __init__(self, schemas: SchemaFormats | None) -> None:
        self._schemas = schemas

    async def produce_to_topic(self, call: ProxyCall) -> Any:
        return await self._produce(call, None)

    async def produce_to_partition(self, call: ProxyCall) -> Any:
        return await self._produce(call, call.path["partition_id"])

    async def _produce(self, call: ProxyCall, partition: int | None) -> Any:
        kind = RECORD_TYPES[check_type(call.request, list(RECORD_TYPES))]
        topic, body = call.path["topic_name"], call.body
        _check_records(body["records"])
        await call.session.check_partition(topic, partition)
        ids = {} if not kind.has_schema else await self._schema_ids(topic, kind, body)
        producer = await call.session.producer()
        sent: list[RecordFuture | ProxyError] = []
        for number, one in enumerate(body["records"], 1):
            if not number % RECORDS_PER_TURN:
                await asyncio.sleep(0)
            try:
                to = one.get("partition") if partition is None else partition
                if to is not None:
                    await call.session.check_partition(topic, to)
                key = await self._bytes(topic, kind, "key", one.get("key"), ids)
                value = await self._bytes(topic, kind, "value", one.get("value"), ids)
                sent.append(await producer.send(topic, value, key, partition=to))
            except ProxyError as error:
                sent.append(error)
            except MoldauError as error:
                sent.append(rest_error(error, v2=True))
            except SchemaError as error:
                sent.append(unprocessable(str(error), 42203))
        offsets = [await _offset(future) for future in sent]
        if all(isinstance(future, ProxyError) for future in sent):  # nothing was sent: the request is wrong
            assert isinstance(sent[0], ProxyError)
            raise sent[0]
        return {"key_schema_id": ids.get("key"), "value_schema_id": ids.get("value"), "offsets": offsets}

    async def _schema_ids(self, topic: str, kind: RecordFormat, body: dict[str, Any]) -> dict[str, int]:
        """The ids of the schemas of keys and values. A schema that is given as text is registered."""
        if self._schemas is None:
            raise unprocessable("the proxy has no schema registry; start it with schema.registry.url", 42201)
        found: dict[str, int] = {}
        for part, code in (("key", KEY_SCHEMA_MISSING), ("value", VALUE_SCHEMA_MISSING)):
            text, number = body.get(f"{part}_schema"), body.get(f"{part}_schema_id")
            if text is not None:
                found[part] = await self._schemas.registered(topic, part, kind, text)
            elif number is not None:
                found[part] = number
            elif any(one.get(part) is not None for one in body["records"]):
                raise unprocessable(f"{part}s need {part}_schema or {part}_schema_id", code)
        return found

    async def _bytes(self, topic: str, kind: RecordFormat, part: str, data: Any, ids: dict[str, int]) -> bytes | None:
        if not kind.has_schema:
            return plain_bytes(kind, data, part)
        if data is None:
            return None
        assert self._schemas is not None
        given = {"schema_id": ids[part], "data": data}
        return (await self._schemas.encoded(topic, part, kind, given))[1]

    def endpoints(self) -> tuple[ProxyEndpoint, ...]:
        types = tuple(RECORD_TYPES)
        return tuple(
            ProxyEndpoint(
                "POST", path, handler, summary, TAG, body=RECORDS, check=CHECK, body_types=types, answer_types=(V2,)
            )
            for path, handler, summary in (
                ("/topics/{topic_name}", self.produce_to_topic, "Produce records to a topic"),
                (
                    "/topics/{topic_name}/partitions/{partition_id}",
                    self.produce_to_partition,
                    "Produce records to a partition",
                ),
            )
        )


def _check_records(records: list[Any]) -> None:
    """What the schema in the description says of each record. Checked here: a validator would take a second."""
    for number, one in enumerate(records):
        if not isinstance(one, dict):
            raise bad_request(f'records/{number}: is no object, such as {{"value": 1}}')
        to = one.get("partition")
        if to is not None and (not isinstance(to, int) or isinstance(to, bool) or not 0 <= to <= MAX_INT32):
            raise bad_request(f"records/{number}/partition: is no number from 0 to {MAX_INT32}")


async def _offset(sent: RecordFuture | ProxyError) -> dict[str, Any]:
    if not isinstance(sent, ProxyError):
        try:
            found = await sent
            return {"partition": found.partition, "offset": found.offset, "error_code": None, "error": None}
        except MoldauError as error:
            sent = rest_error(error, v2=True)
    return {"partition": None, "offset": None, "error_code": sent.code, "error": sent.message}
