"""Offsets and partial layouts of the batch header, compared with the layout of the whole header."""

import re
from pathlib import Path
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
        ("LAST_OFFSET_DELTA_AT", "last_offset_delta"),
        ("BASE_TIMESTAMP_AT", "base_timestamp"),
        ("MAX_TIMESTAMP_AT", "max_timestamp"),
        ("PRODUCER_AT", "producer_id"),
        ("PRODUCER_EPOCH_AT", "producer_epoch"),
        ("BASE_SEQUENCE_AT", "base_sequence"),
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


NATIVE = Path(layout.__file__).with_name("_batch_layout.pxd")


def test_native_code_has_the_same_layout():
    found = dict(re.findall(r"^    (\w+) = (\w+)$", NATIVE.read_text(encoding="utf-8"), re.MULTILINE))
    assert {"HEADER_SIZE", "CRC_FROM", "COUNT_AT", "MAGIC", "CONTROL_BIT"} <= found.keys()
    assert {name: int(value, 0) for name, value in found.items()} == {name: getattr(layout, name) for name in found}


@pytest.mark.parametrize("path", sorted(NATIVE.parents[1].rglob("*.p[yx][xd]")), ids=lambda path: path.name)
def test_native_code_has_no_layout_of_its_own(path):
    """A number where native code reads a field of a header, or a second declaration of a constant."""
    if path == NATIVE:
        return
    text = path.read_text(encoding="utf-8")
    names = re.findall(r"^    (\w+) = ", NATIVE.read_text(encoding="utf-8"), re.MULTILINE)
    assert not re.findall(r"load_be(?:16|32|64)\(p \+ (?!2\)|4\))\d+\)|p\[16\]", text)
    assert not [name for name in names if re.search(rf"^ +{name} = ", text, re.MULTILINE)]
