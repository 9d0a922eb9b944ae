"""Hypothesis strategies for batches: valid and tampered ones."""

from typing import Any

from hypothesis import strategies as st

from moldau.records import HEADER_SIZE, BatchRecord, Codec, TimestampType, encode_batch, reseal

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

contents = st.none() | st.binary(max_size=40) | st.binary(min_size=120, max_size=300)
header_names = st.text(max_size=12) | st.sampled_from(["\udc80\udcff", "trace\udcc3"])
header_lists = st.lists(st.tuples(header_names, st.none() | st.binary(max_size=20)), max_size=4).map(tuple)
timestamps = st.integers(-1, 2_000_000_000_000) | st.integers(-(2**61), 2**61)


@st.composite
def record_lists(draw: st.DrawFn, *, gaps: bool = False, min_size: int = 1, max_size: int = 12) -> list[BatchRecord]:
    count = draw(st.integers(min_size, max_size))
    offset = draw(st.integers(0, 100) | st.integers(2**31, 2**40))
    records = []
    for _ in range(count):
        records.append(
            BatchRecord(offset, draw(timestamps), draw(contents), draw(contents), draw(header_lists)),
        )
        offset += draw(st.integers(1, 300)) if gaps else 1
    return records


header_fields: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "codec": st.sampled_from(Codec),
        "timestamp_type": st.sampled_from(TimestampType),
        "producer_id": st.integers(-1, INT64_MAX),
        "producer_epoch": st.integers(-1, 2**15 - 1),
        "base_sequence": st.integers(-1, INT32_MAX),
        "transactional": st.booleans(),
        "control": st.booleans(),
        "leader_epoch": st.integers(-1, INT32_MAX),
    }
)


@st.composite
def batches(draw: st.DrawFn) -> bytearray:
    gaps = draw(st.booleans())
    if not gaps:
        return encode_batch(draw(record_lists()), **draw(header_fields))
    # As after compaction: gaps before, between and after the remaining records, if there are any.
    records = draw(record_lists(gaps=True, min_size=0))
    base_offset = draw(st.integers(0, records[0].offset if records else 1000))
    base_offset = max(base_offset, records[0].offset - 1000) if records else base_offset
    last_offset = (records[-1].offset if records else base_offset) + draw(st.integers(0, 1000))
    return encode_batch(records, base_offset=base_offset, last_offset=last_offset, **draw(header_fields))


# Bytes with a meaning in a varint or a length, and any others.
telling_bytes = st.sampled_from([0x00, 0x01, 0x02, 0x03, 0x0F, 0x10, 0x7F, 0x80, 0x81, 0xFE, 0xFF]) | st.integers(
    0, 255
)


@st.composite
def mutated_batches(draw: st.DrawFn) -> bytearray:
    """A batch with a few bytes changed, inserted or removed, usually with a valid checksum."""
    batch = draw(batches())
    for _ in range(draw(st.integers(1, 4))):
        # Anywhere, or among the records, where most rules apply.
        low = draw(st.sampled_from([0, 21, HEADER_SIZE]))
        at = draw(st.integers(low, max(low, len(batch) - 1)))
        kind = draw(st.sampled_from(["change", "change", "change", "insert", "remove"]))
        if kind == "insert":
            batch[at:at] = bytes(draw(st.lists(telling_bytes, min_size=1, max_size=11)))
        elif kind == "remove":
            del batch[at : at + draw(st.integers(1, 8))]
        elif at < len(batch):
            batch[at] = draw(telling_bytes)
    if len(batch) >= HEADER_SIZE and draw(st.integers(0, 9)):
        if draw(st.integers(0, 9)):
            batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
            batch[16] = 2
        reseal(batch, 0, len(batch))
    return batch
