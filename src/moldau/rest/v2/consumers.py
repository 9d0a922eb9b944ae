"""Consumers (API v2): the endpoints of consumer instances."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import quote

from moldau.client.consumer.decode import Record
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.rest.endpoints import INT32, INT64, MAX_INT32, TEXT, Handler, ProxyCall, ProxyEndpoint, array, record
from moldau.rest.errors import ProxyError, unprocessable
from moldau.rest.record_formats import RecordFormat, plain_value
from moldau.rest.schema_formats import SchemaFormats
from moldau.rest.v2.consumer_instances import ConsumerInstance, ConsumerInstances
from moldau.rest.v2.media_types import FORMATS, PLAIN_TYPES, RECORD_TYPES, V2, check_accepts
from moldau.schemas.errors import SchemaError

TAG = "v2: consumers"
INSTANCE = "/consumers/{group_name}/instances/{instance}"
MAX_TIMEOUT_MS: Final = 60_000
"""How long one request for records may wait."""

FLAG = {"type": ["boolean", "string", "null"], "enum": [True, False, "true", "false", None]}
CREATE = {
    "type": "object",
    "properties": {
        "name": {"type": ["string", "null"], "minLength": 1, "maxLength": 200},
        "format": {"type": ["string", "null"], "enum": [*FORMATS, None]},
        "auto.offset.reset": {"type": ["string", "null"], "enum": ["earliest", "latest", "none", None]},
        "auto.commit.enable": FLAG,
        "fetch.min.bytes": {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_INT32},
        "consumer.request.timeout.ms": {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_TIMEOUT_MS},
    },
}
PARTITION = record({"topic": TEXT, "partition": INT32})
OFFSET = record({"topic": TEXT, "partition": INT32, "offset": INT64}, metadata={"type": ["string", "null"]})
PARTITIONS = record({"partitions": array(PARTITION)})
OFFSETS = record({"offsets": array(OFFSET)})
SUBSCRIPTION = {
    "type": "object",
    "properties": {"topics": array(TEXT), "topic_pattern": TEXT},
    "oneOf": [{"required": ["topics"]}, {"required": ["topic_pattern"]}],
}
DONE = {204: "It is done."}


class ConsumersV2:
    """The endpoints of consumer instances."""

    def __init__(self, instances: ConsumerInstances, schemas: SchemaFormats | None) -> None:
        self._instances = instances
        self._schemas = schemas

    async def create_consumer(self, call: ProxyCall) -> Any:
        instance = await self._instances.create(call.session, call.path["group_name"], call.body or {})
        base = f"{call.base}/consumers/{quote(instance.group, safe='')}/instances/{quote(instance.name, safe='')}"
        return {"instance_id": instance.name, "base_uri": base}

    async def delete_consumer(self, call: ProxyCall) -> Any:
        await self._instances.remove(call.session, call.path["group_name"], call.path["instance"])

    # -- subscription and positions ------------------------------------------------------------------------------------

    async def subscribe(self, call: ProxyCall, instance: ConsumerInstance) -> Any:
        pattern = call.body.get("topic_pattern")
        if pattern is not None:
            await instance.consumer.subscribe(pattern=pattern)
        else:
            await instance.consumer.subscribe(call.body["topics"])

    async def get_subscription(self, call: ProxyCall, instance: ConsumerInstance) -> Any:
        return {"topics": sorted(instance.consumer.subscription())}

    async def unsubscribe(self, call: ProxyCall, instance: ConsumerInstance) -> Any:
        await instance.consumer.unsubscribe()

    async def assign(self, call: ProxyCall, instance: ConsumerInstance) -> Any:
        await instance.consumer.assign(_partitions(call.body))

    async def get_assignments(self, call: ProxyCall, instance: ConsumerInstance) -> Any:
        found = sorted(instance.consumer.assignment())
        return {"partitions": [{"topic": topic, "partition": index} for topic, index in found]}

    async def seek(self, call: ProxyCall, instance: ConsumerInstance) -> Any:
        for one in call.body["offsets"]:
            await instance.consumer.seek(TopicPartition(one["topic"], one["partition"]), one["offset"])

    async def seek_to_beginning(self, call: ProxyCall, instance: ConsumerInstance) -> Any:
        if partitions := _partitions(call.body):
            await instance.consumer.seek_to_beginning(*partitions)

    async def seek_to_end(self, call: ProxyCall, instance: ConsumerInstance) -> Any:
        if partitions := _partitions(call.body):
            await instance.consumer.seek_to_end(*partitions)

    # -- commits -------------------------------------------------------------------------------------------------------

    async def commit(self, call: ProxyCall, instance: ConsumerInstance) -> Any:
        if not call.body:
            await instance.consumer.commit()
            return
        offsets = {
            TopicPartition(one["topic"], one["partition"]): OffsetAndMetadata(one["offset"], one.get("metadata") or "")
            for one in call.body["offsets"]
        }
        if offsets:
            await instance.consumer.commit(offsets)

    async def get_committed(self, call: ProxyCall, instance: ConsumerInstance) -> Any:
        wanted = _partitions(call.body) if call.body else sorted(instance.consumer.assignment())
        found = await instance.consumer.committed(*wanted) if wanted else {}
        return {
            "offsets": [
                {"topic": topic, "partition": index, "offset": one.offset, "metadata": one.metadata}
                for (topic, index), one in sorted(found.items())
                if one is not None
            ]
        }

    # -- records -------------------------------------------------------------------------------------------------------

    async def get_records(self, call: ProxyCall, instance: ConsumerInstance) -> Any:
        media = check_accepts(call.request, instance.format)
        wanted_ms = call.query.get("timeout")
        timeout_s = instance.request_timeout_s if wanted_ms is None else wanted_ms / 1_000
        limit = min(call.query.get("max_bytes", self._instances.max_bytes), self._instances.max_bytes)
        records = await instance.consumer.poll(timeout_s)
        taken = await self._taken(instance, records, limit)
        from starlette.responses import JSONResponse

        return JSONResponse(taken, media_type=media)

    async def _taken(self, instance: ConsumerInstance, records: list[Record], limit: int) -> list[dict[str, Any]]:
        """The records within the limit, as JSON. The others, and those that cannot be read, will be read again."""
        found: list[dict[str, Any]] = []
        size = 0
        problem: ProxyError | None = None
        for one in records:
            size += len(one.key or b"") + len(one.value or b"")
            if found and size > limit:
                break
            try:
                found.append(await self._record_json(instance.format, one))
            except ProxyError as error:
                where = f"{one.topic}-{one.partition} at offset {one.offset}"
                problem = ProxyError(error.status, error.code, f"{where}: {error.message}")
                break
        rest: dict[TopicPartition, int] = {}
        for one in records[len(found) :]:
            rest.setdefault(TopicPartition(one.topic, one.partition), one.offset)
        await instance.give_back(rest)
        if problem is not None and not found:
            raise problem
        return found

    async def _record_json(self, kind: RecordFormat, one: Record) -> dict[str, Any]:
        return {
            "topic": one.topic,
            "key": await self._value(kind, one.topic, "key", one.key),
            "value": await self._value(kind, one.topic, "value", one.value),
            "partition": one.partition,
            "offset": one.offset,
        }

    async def _value(self, kind: RecordFormat, topic: str, part: str, data: bytes | None) -> Any:
        if not kind.has_schema or data is None:
            return plain_value(kind, data, part)
        if self._schemas is None:
            raise unprocessable("the proxy has no schema registry; start it with schema.registry.url", 42201)
        try:
            return await self._schemas.decoded(topic, part, kind, data)
        except SchemaError as error:
            raise unprocessable(str(error), 42203) from None

    # -- declarations --------------------------------------------------------------------------------------------------

    def _used(self, handler: Callable[[ProxyCall, ConsumerInstance], Awaitable[Any]]) -> Handler:
        async def answer(call: ProxyCall) -> Any:
            async with self._instances.used(call.session, call.path["group_name"], call.path["instance"]) as instance:
                return await handler(call, instance)

        answer.__name__ = handler.__name__
        return answer

    def endpoints(self) -> tuple[ProxyEndpoint, ...]:
        query = {"timeout": {**INT32, "maximum": MAX_TIMEOUT_MS}, "max_bytes": {**INT32, "minimum": 1}}
        rows: list[tuple[str, str, Handler, str, dict[str, Any]]] = [
            ("POST", "/consumers/{group_name}", self.create_consumer, "Create a consumer instance", {"body": CREATE}),
            ("DELETE", INSTANCE, self.delete_consumer, "Close a consumer instance", {"answers": DONE}),
            self._row("POST", "subscription", self.subscribe, "Subscribe to topics", SUBSCRIPTION),
            self._row("GET", "subscription", self.get_subscription, "Get the subscribed topics"),
            self._row("DELETE", "subscription", self.unsubscribe, "End the subscription", done=True),
            self._row("POST", "assignments", self.assign, "Assign partitions", PARTITIONS),
            self._row("GET", "assignments", self.get_assignments, "Get the assigned partitions"),
            self._row("POST", "positions", self.seek, "Continue at these offsets", OFFSETS),
            self._row("POST", "positions/beginning", self.seek_to_beginning, "Continue at the beginning", PARTITIONS),
            self._row("POST", "positions/end", self.seek_to_end, "Continue at the end", PARTITIONS),
            self._row("POST", "offsets", self.commit, "Commit offsets, or all that were read", OFFSETS, optional=True),
            self._row(
                "GET", "offsets", self.get_committed, "Get committed offsets", PARTITIONS, optional=True, done=False
            ),
        ]
        found = [
            ProxyEndpoint(
                method, path, handler, summary, TAG, **{"body_types": PLAIN_TYPES, "answer_types": (V2,), **more}
            )
            for method, path, handler, summary, more in rows
        ]
        records = ProxyEndpoint(
            "GET",
            f"{INSTANCE}/records",
            self._used(self.get_records),
            "Get the next records",
            TAG,
            query=query,
            answer_types=tuple(RECORD_TYPES),
        )
        return (*found, records)

    def _row(
        self,
        method: str,
        place: str,
        handler: Callable[[ProxyCall, ConsumerInstance], Awaitable[Any]],
        summary: str,
        body: dict[str, Any] | None = None,
        *,
        optional: bool = False,
        done: bool | None = None,
    ) -> tuple[str, str, Handler, str, dict[str, Any]]:
        more: dict[str, Any] = {} if body is None else {"body": body, "body_required": not optional}
        if done if done is not None else method == "POST":
            more["answers"] = DONE
        return method, f"{INSTANCE}/{place}", self._used(handler), summary, more


def _partitions(body: dict[str, Any]) -> list[TopicPartition]:
    return [TopicPartition(one["topic"], one["partition"]) for one in body["partitions"]]
