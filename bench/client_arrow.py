"""Arrow client: the codec alone, and `send_batch` compared with confluent-kafka's `produce`, for 100-byte rows.

The codec decodes the data of a fetch of a few megabytes, including checksums, and encodes tables with the same number
of rows. A plain copy of the same bytes shows the current memory speed of the machine. Sending is timed from the first
call to the last acknowledgement, in tables of 100,000 rows, to a topic of three partitions. confluent-kafka is tuned as
in `client_produce`. `client_consume` measures the other direction.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from bench.client_produce import confluent
from bench.harness import GB, Context, Row, median, settle, spread

ROWS = 60_000
ROW_BYTES = 100
BATCH_BYTES = 64 * 1024
TURNS = 30
TABLE_ROWS = 100_000
TABLES, TABLES_QUICK = 60, 15
CONFLUENT_RECORDS, CONFLUENT_RECORDS_QUICK = 2_000_000, 500_000
PARTITIONS = 3

DECODED_AT_LEAST = 40e6
"""The limit, valid if a plain copy reaches at least COPY_AT_LEAST bytes per second."""
COPY_AT_LEAST = 8 * GB
BESIDE_CONFLUENT_AT_LEAST = 6.0


def run(context: Context) -> Iterator[Row]:
    yield from codec(context)
    yield from sending(context)


def fastest(call: Callable[[], object]) -> float:
    """Seconds of the fastest of many runs: the work is always the same, so slower runs were disturbed."""
    best = float("inf")
    for _ in range(TURNS):
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    return best


def codec(context: Context) -> Iterator[Row]:
    import pyarrow as pa

    from moldau.records.arrow import ArrowRows, BatchCursor
    from moldau.records.arrow_encode import ColumnNames, encode_batches, partitions_of, rows_of
    from moldau.records.arrow_engine import RowEncoder, check_rows
    from moldau.records.crc import crc32c

    data = os.urandom(ROW_BYTES * ROWS)
    table = pa.table({"value": [data[at : at + ROW_BYTES] for at in range(0, len(data), ROW_BYTES)]})
    batches = b"".join(batch for _, batch in encode_batches(table, batch_bytes=BATCH_BYTES))
    room = bytearray(len(batches))

    def copy() -> None:
        room[:] = batches

    def decode() -> None:
        rows = ArrowRows()
        rows.take(BatchCursor(batches), "topic", 0)
        rows.finish()

    def encode() -> None:
        """Encode as `send_batch` does, with checksums as the sender computes them."""
        (rows,) = rows_of(table, ColumnNames(), 0)
        check_rows(rows.cells, 0, 1 << 20)
        chosen = partitions_of(rows, 1)
        encoder = RowEncoder(1, BATCH_BYTES, 0)
        row = 0
        while row < ROWS:
            row = encoder.encode(rows.cells, chosen, row)
            full = encoder.take_full()
            if full is not None:
                crc32c(full.records)
        for rest in encoder.flush():
            crc32c(rest.records)

    copied = len(batches) / fastest(copy)
    decoded, encoded = ROWS / fastest(decode), ROWS / fastest(encode)
    context.say(f"copy {copied / GB:.1f} GB/s, decode {decoded:,.0f} rows/s, encode {encoded:,.0f} rows/s")
    fast = copied >= COPY_AT_LEAST
    note = f"a plain copy of the same bytes: {copied / GB:.1f} GB/s"
    slow = "" if fast else "; below 8, so there is no limit"
    yield Row("Arrow: batches decoded", decoded, "rows/s", DECODED_AT_LEAST if fast else None, True, note + slow)
    yield Row("Arrow: rows encoded", encoded, "rows/s", None, note=note)


def sending(context: Context) -> Iterator[Row]:
    ours: list[float] = []
    theirs: list[float] = []
    with context.broker() as broker:
        for turn in range(context.repeats):
            for name, rates in (("moldau", ours), ("confluent", theirs)):
                topic = f"{name}-{turn}"
                broker.create_topic(topic, PARTITIONS)
                settle()
                if name == "moldau":
                    rates.append(moldau(broker.address, topic, context.sized(TABLES, TABLES_QUICK)))
                else:
                    records = context.sized(CONFLUENT_RECORDS, CONFLUENT_RECORDS_QUICK)
                    rates.append(confluent(broker.address, topic, records))
                context.say(f"{name}: {rates[-1]:,.0f} rows/s")
                broker.delete_topic(topic)
    note = f"{median(ours):,.0f} ({spread(ours)}) against {median(theirs):,.0f} ({spread(theirs)}) rows/s"
    ratio = median(ours) / median(theirs)
    yield Row("Producer: Arrow tables, beside confluent-kafka", ratio, "x", BESIDE_CONFLUENT_AT_LEAST, True, note)


def moldau(address: str, topic: str, tables: int) -> float:
    import pyarrow as pa

    from moldau import Producer

    data = os.urandom(ROW_BYTES * TABLE_ROWS)
    table = pa.table({"value": [data[at : at + ROW_BYTES] for at in range(0, len(data), ROW_BYTES)]})
    with Producer(bootstrap_servers=address) as producer:
        producer.send_batch(topic, table.slice(0, 1)).result()
        began = time.perf_counter()
        sent = [producer.send_batch(topic, table) for _ in range(tables)]
        for future in sent:
            future.result()
        return tables * TABLE_ROWS / (time.perf_counter() - began)
