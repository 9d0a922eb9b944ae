"""Checkpoint files of a data directory, byte for byte."""

from __future__ import annotations

import pytest

from moldau.log import file_names
from moldau.log.checkpoints import (
    BadCheckpointError,
    LogState,
    MetaProperties,
    SegmentState,
    decode_clean_state,
    decode_meta_properties,
    decode_offsets,
    encode_clean_shutdown,
    encode_clean_state,
    encode_meta_properties,
    encode_offsets,
)
from moldau.wire.topic_partition import TopicPartition

ID = bytes(range(16))


def test_offset_checkpoints_have_kafkas_form() -> None:
    offsets = {TopicPartition("a.b-c", 0): 5, TopicPartition("x", 12): 2**40}
    data = encode_offsets(offsets)
    assert data == b"0\n2\na.b-c 0 5\nx 12 1099511627776\n"
    assert decode_offsets(data) == offsets
    assert decode_offsets(b"0\n0\n") == {}


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"1\n0\n", b"0\n", b"0\n1\n", b"0\n2\na 0 5\n", b"0\n1\na 0\n", b"0\n1\na x 5\n", b"0\nx\n"]
)
def test_a_malformed_offset_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(BadCheckpointError):
        decode_offsets(data)


def test_meta_properties_round_trip() -> None:
    meta = MetaProperties("Some22CharClusterIdXYZ", 3, ID)
    data = encode_meta_properties(meta)
    assert b"version=1\n" in data
    assert b"node.id=3\n" in data
    assert b"directory.id=AAECAwQFBgcICQoLDA0ODw\n" in data
    assert decode_meta_properties(data) == meta


def test_meta_properties_of_an_older_kafka_are_understood() -> None:
    data = b"#\n#Tue Nov 14 2023\nversion=0\nbroker.id=7\ncluster.id=abc\n"
    assert decode_meta_properties(data) == MetaProperties("abc", 7, None)


@pytest.mark.parametrize("data", [b"node.id=x\n", b"directory.id=short\n"])
def test_meta_properties_with_a_wrong_value_are_refused(data: bytes) -> None:
    with pytest.raises(BadCheckpointError):
        decode_meta_properties(data)


def test_the_mark_of_a_clean_stop_is_kafkas_json() -> None:
    assert encode_clean_shutdown(5) == b'{"version":0,"brokerEpoch":5}'


STATE = LogState(
    TopicPartition("topic", 3),
    ID,
    5,
    100,
    90,
    2,
    1_700_000_000_000,
    [SegmentState(0, 1000, 17, 49, 3, 4), SegmentState(50, 900, -1, -1, 0, 0)],
    [(0, 5), (3, 60)],
    [(50, 100, 200)],
)


def test_the_state_of_a_clean_stop_is_read_back() -> None:
    other = STATE._replace(name=TopicPartition("other", 0), segments=[SegmentState(0, 0, -1, -1, 0, 0)], damaged=[])
    assert decode_clean_state(encode_clean_state([STATE, other])) == [STATE, other]
    assert decode_clean_state(encode_clean_state([])) == []


def test_a_state_file_with_a_changed_byte_is_not_used() -> None:
    data = encode_clean_state([STATE])
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 0x01
        try:
            found = decode_clean_state(bytes(changed))
        except BadCheckpointError:
            continue
        assert found == [STATE]  # a byte of the first line without meaning


@pytest.mark.parametrize("cut", [0, 1, 10, 100, -1])
def test_a_torn_state_file_is_not_used(cut: int) -> None:
    with pytest.raises(BadCheckpointError):
        decode_clean_state(encode_clean_state([STATE])[:cut])


# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("directory", "found"),
    [
        ("orders-0", ("orders", 0)),
        ("my-topic.v2-12", ("my-topic.v2", 12)),
        ("__consumer_offsets-49", ("__consumer_offsets", 49)),
        ("topic-0.0123abc-delete-3", ("topic-0.0123abc-delete", 3)),
        ("orders", None),
        ("orders-", None),
        ("orders-x", None),
        ("orders-01", None),
        ("-1", None),
        ("lost+found", None),
        ("orders-0.0123abc-delete", None),
        ("orders-0.0123abc-future", None),
        ("orders-0.0123abc-stray", None),
    ],
)
def test_which_directories_are_partitions(directory: str, found: tuple[str, int] | None) -> None:
    assert file_names.parse_directory(directory) == found


def test_the_name_of_a_deleted_directory_has_a_suffix_and_is_never_too_long() -> None:
    short = file_names.marked_directory(TopicPartition("orders", 3), "ab" * 16, "delete")
    assert short == f"orders-3.{'ab' * 16}-delete"
    assert file_names.marked_for(short) == "delete"
    long = file_names.marked_directory(TopicPartition("x" * 249, 3), "ab" * 16, "delete")
    assert len(long) == 255
    assert file_names.marked_for(long) == "delete"


def test_segment_files_have_twenty_digits() -> None:
    assert file_names.segment_file(42, ".log") == "00000000000000000042.log"
    assert file_names.base_offset_of("00000000000000000042.log", ".log") == 42
    for other in (
        "42.log",
        "00000000000000000042.logx",
        "0000000000000000004x.log",
        "00000000000000000042.log.deleted",
    ):
        assert file_names.base_offset_of(other, ".log") is None


def test_partition_metadata_has_kafkas_text() -> None:
    data = file_names.encode_partition_metadata(ID)
    assert data == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert file_names.decode_partition_metadata(data + b"\n") == ID
    for wrong in (b"", b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", b"version: 0\n", b"version: 0\ntopic_id: x"):
        with pytest.raises(ValueError, match=r"version|UUID"):
            file_names.decode_partition_metadata(wrong)
