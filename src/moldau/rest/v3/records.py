"""Records (API v3): produce, one record or a stream of them.

A body is one JSON object after another. With a Content-Length the whole body is read first, and one record that fails
is answered with its own HTTP status. Without it (chunked) records are sent while they arrive, and each answer follows
as soon as the brokers have the record; the status is 200, and each line has an `error_code`. If the client does not
read the answers, the proxy does not read more records: that is the back-pressure.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from moldau.rest.endpoints import INT32, JSON_TYPE, TEXT, ProxyCall, ProxyEndpoint, array, check_type, one_of, record
from moldau.rest.errors import ProxyError, bad_request
from moldau.rest.json_stream import JsonStream
from moldau.rest.record_sender import RecordSender, SentRecord
from moldau.rest.schema_formats import SchemaFormats
from moldau.rest.streamed_response import StreamedResponse
from moldau.rest.v3.resources import check_cluster
from moldau.rest.v3.topics import TOPIC
from moldau.service.request_guard import TIME_LIMIT

TAG = "Records"
MAX_IN_FLIGHT: Final = 1_000
"""Records of one stream that wait for the brokers; more are not read."""
MAX_BATCH: Final = 10_000
"""Entries of one records:batch request."""

PART = {
    "type": ["object", "null"],
    "properties": {
        "type": one_of("BINARY", "JSON", "STRING", "AVRO", "JSONSCHEMA", "PROTOBUF"),
        "data": {},
        "schema": {"type": "string"},
        "schema_id": INT32,
        "schema_version": INT32,
        "subject": {"type": "string"},
        "subject_name_strategy": one_of("TOPIC_NAME", "RECORD_NAME", "TOPIC_RECORD_NAME"),
    },
}
RECORD = {
    "type": "object",
    "properties": {
        "partition_id": {**INT32, "type": ["integer", "null"]},
        "headers": {
            "type": ["array", "null"],
            "items": record({"name": {"type": "string"}}, value={"type": ["string", "null"], "format": "byte"}),
        },
        "key": PART,
        "value": PART,
        "timestamp": {"type": ["string", "null"], "format": "date-time"},
    },
}
ENTRY = {"allOf": [record({"id": TEXT}), RECORD]}
BATCH = record({"entries": array(ENTRY, maxItems=MAX_BATCH)})
BATCH_CHECK = record({"entries": array(record({"id": TEXT}), maxItems=MAX_BATCH)})
"""`RecordSender` checks the rest of each record."""


class Produce:
    """The endpoints that produce."""

    def __init__(self, schemas: SchemaFormats | None, max_record: int, stream_timeout_s: float) -> None:
        self._schemas = schemas
        self._max_record = max_record
        self._stream_timeout_s = stream_timeout_s

    async def sender(self, call: ProxyCall) -> RecordSender:
        """A sender for the topic of the request. UnknownTopicOrPartition: there is none."""
        check_cluster(call)
        topic = call.path["topic_name"]
        await call.session.check_partition(topic, None)
        return RecordSender(call.session, topic, await call.session.producer(), self._schemas)

    async def produce_records(self, call: ProxyCall) -> Response:
        check_type(call.request, (JSON_TYPE,))
        sender = await self.sender(call)
        if "content-length" not in call.request.headers:
            call.request.scope[TIME_LIMIT].reschedule(None)
            return StreamedResponse(self._stream(call, sender), JSON_TYPE)
        stream = JsonStream(self._max_record)
        sent: list[SentRecord | ProxyError] = []
        try:
            async for one in sender.send_all(stream.feed(await call.request.body(), last=True)):
                sent.append(one)  # noqa: PERF401 - those before a mistake are kept
        except ProxyError as error:
            sent.append(error)
        if not sent:
            raise bad_request("the body has no record")
        if len(sent) == 1 and isinstance(sent[0], ProxyError):
            raise sent[0]
        lines = await sender.answers(sent)
        status = _status(lines[0]) if len(lines) == 1 else 200
        return Response("\r\n".join(lines) + "\r\n", status, media_type=JSON_TYPE)

    async def _stream(self, call: ProxyCall, sender: RecordSender) -> AsyncGenerator[bytes]:
        sent: asyncio.Queue[SentRecord | ProxyError | None] = asyncio.Queue(MAX_IN_FLIGHT)
        call.session.hold()
        reader = asyncio.get_running_loop().create_task(self._read(call, sender, sent), name="REST proxy: stream")
        try:
            while (one := await sent.get()) is not None:
                lines = [await sender.answer(one)]
                while not sent.empty() and len(lines) < MAX_IN_FLIGHT:
                    following = sent.get_nowait()
                    if following is None:
                        yield ("\r\n".join(lines) + "\r\n").encode()
                        return
                    lines.append(await sender.answer(following))
                yield ("\r\n".join(lines) + "\r\n").encode()
        finally:
            reader.cancel()
            call.session.release()

    async def _read(
        self, call: ProxyCall, sender: RecordSender, sent: asyncio.Queue[SentRecord | ProxyError | None]
    ) -> None:
        """Send the records of the body in their order. None at the end."""
        pieces = JsonStream(self._max_record)
        body = aiter(call.request.stream())
        try:
            last = False
            while not last:
                async with asyncio.timeout(self._stream_timeout_s):
                    data = await anext(body, b"")
                last = not data
                async for one in sender.send_all(pieces.feed(data, last)):
                    await sent.put(one)
        except ProxyError as error:
            await sent.put(error)
        except TimeoutError:
            message = f"nothing was sent for {self._stream_timeout_s:g} s; the limit is moldau.rest.stream.timeout.ms"
            await sent.put(ProxyError(408, 408, message))
        except ClientDisconnect:
            pass
        await sent.put(None)

    async def produce_batch(self, call: ProxyCall) -> Any:
        sender = await self.sender(call)
        entries = call.body["entries"]
        ids = [entry["id"] for entry in entries]
        if len(set(ids)) != len(ids):
            raise bad_request("entries: an id occurs twice")
        sent = [one async for one in sender.send_all(entries)]
        good: list[str] = []
        bad: list[str] = []
        for number, line in zip(ids, await sender.answers(sent), strict=True):
            (good if _status(line) == 200 else bad).append(f'{{"id":{json.dumps(number)},{line[1:]}')
        body = f'{{"successes":[{",".join(good)}],"failures":[{",".join(bad)}]}}'
        return Response(body, 207, media_type=JSON_TYPE)

    def endpoints(self) -> tuple[ProxyEndpoint, ...]:
        lines = {200: "A line of JSON for each record, in their order."}
        batch = {207: "The records that were written, and those that were not."}
        return (
            ProxyEndpoint(
                "POST",
                f"{TOPIC}/records",
                self.produce_records,
                "Produce a record, or a stream of records",
                TAG,
                body=RECORD,
                answers=lines,
                raw=True,
            ),
            ProxyEndpoint(
                "POST",
                f"{TOPIC}/records:batch",
                self.produce_batch,
                "Produce several records in one answer",
                TAG,
                body=BATCH,
                check=BATCH_CHECK,
                answers=batch,
            ),
        )


def _status(line: str) -> int:
    """The HTTP status of an answer: the first digits of its code, which comes first."""
    code = line.partition(":")[2].lstrip()[:3]
    return 503 if line.partition(":")[2].lstrip().startswith("50003") else int(code)
