"""Batches exchanged with the codecs of kafka-python and aiokafka, in both directions.

kafka-python's compression packages, except gzip, are not installed here; aiokafka has every codec.
"""

import warnings
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import pytest
from hypothesis import given

from moldau.records import BatchRecord, Codec, check_batch, decode_batch, encode_batch, peek_header
from tests.unit.records.strategies import record_lists

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources, in the loader of their schemas
    import kafka.record.default_records as kafka_python_records

PAIRS = [
    *[pytest.param(kafka_python_records, codec, id=f"kafka-python-{codec.name}") for codec in (Codec.NONE, Codec.GZIP)],
    *[pytest.param(aiokafka_records, codec, id=f"aiokafka-{codec.name}") for codec in Codec],
]
BATCH_ROOM = 1 << 20


def sendable(records: list[BatchRecord]) -> list[BatchRecord]:
    """The same records as these clients can send them: offsets from 0, times since 1970, header keys in UTF-8."""
    return [
        BatchRecord(
            i, abs(one.timestamp), one.key, one.value, tuple((f"h{n}", v) for n, (_, v) in enumerate(one.headers))
        )
        for i, one in enumerate(records)
    ]


def written_by(library: Any, codec: Codec, records: list[BatchRecord]) -> bytearray:
    builder = library.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=1,
        producer_id=77,
        producer_epoch=3,
        base_sequence=12,
        batch_size=BATCH_ROOM,
    )
    for record in records:
        assert builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    return bytearray(builder.build())


def read_by(library: Any, batch: bytearray) -> list[BatchRecord]:
    theirs = library.DefaultRecordBatch(bytes(batch))
    assert theirs.validate_crc()
    return [BatchRecord(one.offset, one.timestamp, one.key, one.value, tuple(one.headers)) for one in theirs]


@pytest.mark.parametrize(("library", "codec"), PAIRS)
@given(records=record_lists().map(sendable))
def test_batches_of_other_codecs_are_decoded(library: Any, codec: Codec, records: list[BatchRecord]) -> None:
    batch = written_by(library, codec, records)
    assert decode_batch(batch) == records
    info = check_batch(batch, 0)
    assert (info.producer_id, info.producer_epoch, info.base_sequence, info.is_transactional) == (77, 3, 12, True)
    assert info.max_timestamp == info.max_record_timestamp


@pytest.mark.parametrize(("library", "codec"), PAIRS)
@given(records=record_lists().map(sendable))
def test_our_batches_are_decoded_by_other_codecs(library: Any, codec: Codec, records: list[BatchRecord]) -> None:
    assert read_by(library, encode_batch(records, codec=codec)) == records


@pytest.mark.parametrize("library", [kafka_python_records, aiokafka_records])
@given(records=record_lists().map(sendable))
def test_uncompressed_batches_are_the_same_bytes(library: Any, records: list[BatchRecord]) -> None:
    theirs = written_by(library, Codec.NONE, records)
    ours = encode_batch(
        records,
        producer_id=77,
        producer_epoch=3,
        base_sequence=12,
        transactional=True,
        leader_epoch=peek_header(theirs).leader_epoch,  # clients differ in fields that no reader uses
    )
    assert ours == theirs


@pytest.mark.parametrize(("library", "codec"), PAIRS)
def test_batches_of_many_blocks_go_both_ways(library: Any, codec: Codec) -> None:
    records = [BatchRecord(i, 1_700_000_000_000 + i, b"%d" % i, b'{"count": %d}' % (i * i) * 9) for i in range(3000)]
    theirs = written_by(library, codec, records)
    assert decode_batch(theirs) == records
    assert check_batch(theirs, 0).count == 3000
    assert read_by(library, encode_batch(records, codec=codec)) == records
