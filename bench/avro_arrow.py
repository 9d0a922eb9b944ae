"""Avro to Arrow: `AvroColumns` compared with fastavro's record loop and confluent-kafka's AvroDeserializer, in one run.

All read the same orders: eight fields, 40 bytes of Avro data on average, with the magic byte and the schema id of a
registry that runs in this process. Its answers are cached before the clock starts. Times are of one core; turns of the
three alternate, so that a busy machine slows all of them.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator

from bench.harness import Context, Row, median

ORDERS, ORDERS_QUICK = 200_000, 40_000
TOPIC = "orders"
BESIDE_FASTAVRO_AT_LEAST = 10.0
BESIDE_CONFLUENT_AT_LEAST = 20.0

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "quantity", "type": "int"},
        {"name": "country", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID", "SENT"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def run(context: Context) -> Iterator[Row]:
    import fastavro
    import pyarrow as pa
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    from moldau.schemas.avro_columns.registry_columns import AvroColumns
    from moldau.schemas.registry_client import RegistryClient
    from moldau.testing import Registry

    count = context.sized(ORDERS, ORDERS_QUICK)
    table = _orders(count)
    with Registry() as registry, RegistryClient(registry.url) as client:
        columns = AvroColumns(client, json.dumps(SCHEMA))
        values, _ = columns.encode(table, TOPIC)
        reader = AvroColumns(client)
        plain = values.to_pylist()
        parsed = fastavro.parse_schema(SCHEMA)
        confluent = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
        where = SerializationContext(TOPIC, MessageField.VALUE)
        few = plain[: count // 10]

        def arrow() -> None:
            found, bad = reader.decode(values)
            assert not bad and len(found) == count

        def encode() -> None:
            columns.encode(table, TOPIC)

        def records() -> None:
            for one in plain:
                fastavro.schemaless_reader(io.BytesIO(one[5:]), parsed, None)

        def deserializer() -> None:
            for one in few:
                confluent(one, where)

        assert isinstance(reader.decode(values)[0], pa.StructArray)
        found = _alternating(context.repeats, arrow, encode, records, deserializer)
    per_row = [median(times) / rows for times, rows in zip(found, (count, count, count, len(few)), strict=True)]
    decoded, encoded, looped, deserialized = per_row
    yield Row("Avro to Arrow", 1e-6 / decoded, "M rows/s", None, True)
    yield Row("Arrow to Avro", 1e-6 / encoded, "M rows/s", None, True)
    note = "CPU time per row, the same values in one run"
    yield Row(
        "Avro to Arrow beside fastavro's record loop", looped / decoded, "x", BESIDE_FASTAVRO_AT_LEAST, True, note
    )
    yield Row(
        "Avro to Arrow beside confluent-kafka's AvroDeserializer",
        deserialized / decoded,
        "x",
        BESIDE_CONFLUENT_AT_LEAST,
        True,
        note,
    )


def _orders(count: int) -> object:
    import pyarrow as pa

    return pa.array(
        [
            {
                "id": number,
                "customer": f"customer-{number % 977}",
                "amount": number * 1.25,
                "quantity": number % 7,
                "country": None if number % 3 else "CZ",
                "at": 1_700_000_000_000 + number,
                "state": ("NEW", "PAID", "SENT")[number % 3],
                "tags": ["a", "bb"][: number % 3],
            }
            for number in range(count)
        ]
    )


def _alternating(turns: int, *calls: Callable[[], object]) -> list[list[float]]:
    """The CPU seconds of each call in each turn."""
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(turns):
        for times, call in zip(found, calls, strict=True):
            began = time.process_time()
            call()
            times.append(time.process_time() - began)
    return found
