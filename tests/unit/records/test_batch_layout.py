"""Offsets and partial layouts of the batch header, compared with the layout of the whole header."""

from struct import calcsize

import pytest

from moldau.records import batch_layout as layout

FIELDS = (
    ("base_offset", "q"), ("length", "i"), ("leader_epoch", "i"), ("magic", "b"), ("crc", "I"), ("attributes", "h"),
    ("last_offset_delta", "i"), ("base_timestamp", "q"), ("max_timestamp", "q"), ("producer_id", "q"),
    ("producer_epoch", "h"), ("base_sequence", "i"), ("count", "i"),
)  # fmt: skip
START = {name: calcsize(">" + "".join(code for _, code in FIELDS[:place])) for place, (name, _) in enumerate(FIELDS)}
VALUES = dict(zip(START, (5, 1_000, 7, 2, 9, 0x31, 11, 12, 13, 14, 15, 16, 17), strict=True))
HEADER = layout.HEADER.pack(*VALUES.values())


def test_the_header_has_its_fields_in_this_order():
    assert layout.HEADER.format == ">" + "".join(code for _, code in FIELDS)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("LENGTH_AT", "length"),
        ("LENGTH_END", "leader_epoch"),
        ("LEADER_EPOCH_AT", "leader_epoch"),
        ("MAGIC_AT", "magic"),
        ("CRC_AT", "crc"),
        ("CRC_FROM", "attributes"),
        ("ATTRIBUTES_AT", "attributes"),
        ("MAX_TIMESTAMP_AT", "max_timestamp"),
        ("PRODUCER_AT", "producer_id"),
        ("COUNT_AT", "count"),
    ],
)
def test_each_offset_is_where_its_field_starts(name, field):
    assert getattr(layout, name) == START[field]


def test_the_flags_are_the_low_byte_of_the_attributes():
    assert HEADER[layout.FLAGS_AT] == VALUES["attributes"]


def test_partial_layouts_read_the_same_values_as_the_whole_header():
    def values(*names):
        return tuple(VALUES[name] for name in names)

    assert layout.BATCH_STEP.unpack_from(HEADER) == values("base_offset", "length", "magic", "last_offset_delta")
    assert layout.PRODUCER.unpack_from(HEADER, layout.PRODUCER_AT) == values("producer_id", "producer_epoch")
    before = layout.UP_TO_CRC.unpack_from(HEADER)
    assert before + layout.AFTER_CRC.unpack_from(HEADER, layout.CRC_FROM) == tuple(VALUES.values())
    assert layout.UP_TO_CRC.size == layout.CRC_FROM
