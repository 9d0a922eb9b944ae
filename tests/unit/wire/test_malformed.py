"""Malformed messages: decoding fails only with WireError, and memory is bounded by the frame."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.wire.errors import WireError
from moldau.wire.message import Message
from moldau.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from moldau.wire.messages.list_groups import ListGroupsRequest
from moldau.wire.messages.metadata import MetadataRequest
from moldau.wire.messages.produce import ProduceRequest
from moldau.wire.messages.sasl_handshake import SaslHandshakeRequest
from moldau.wire.primitives import uvarint
from tests.unit.wire.schema import Case, Maker, all_messages

# The memory limit of decoding a frame: objects are larger than their bytes on the wire by a bounded factor.
MOST_BYTES_PER_FRAME_BYTE = 150
MOST_BYTES_ANYWAY = 20_000

HOSTILE = (
    b"\x7f\xff\xff\xff",  # the largest classic length or count
    b"\x80\x00\x00\x00",  # the most negative one
    b"\xff\xff\xff\xfe",  # a negative one that is not null
    b"\xff\xff\xff\xff\x0f",  # the largest compact one
    b"\xff\xff\xff\xff\xff\xff",  # a varint without end
    b"\xff\xfe",  # a negative length of a classic string; not UTF-8 either
)


def full_frame(case: Case, version: int) -> bytes:
    """A frame with every possible field, including unknown tagged fields."""
    return Maker(case, version, random.Random(str(case)), unknown_tags=True, nulls=False).message().encode(version)


def decodes(cls: type[Message], frame: bytes, version: int) -> bool:
    """Whether a frame is a message. Any result other than a message or a WireError fails the test."""
    try:
        cls.decode(frame, version)
    except WireError:
        return False
    return True


def edges(case: Case) -> list[int]:
    """The first and last versions of each encoding."""
    flexible = [version for version in case.versions if case.is_flexible(version)]
    classic = [version for version in case.versions if not case.is_flexible(version)]
    return sorted({versions[i] for versions in (classic, flexible) if versions for i in (0, -1)})


@pytest.mark.parametrize("case", all_messages(), ids=str)
def test_no_message_decodes_from_less_than_all_of_its_bytes(case: Case) -> None:
    for version in case.versions:
        frame = full_frame(case, version)
        assert decodes(case.cls, frame, version)
        for size in range(len(frame)):
            assert not decodes(case.cls, frame[:size], version), f"version {version} from {size} of {len(frame)} bytes"


@pytest.mark.parametrize("case", all_messages(), ids=str)
def test_bytes_after_a_message_are_ignored(case: Case) -> None:
    for version in edges(case):
        frame = full_frame(case, version)
        assert case.cls.decode(frame + b"\xff" * 5, version) == case.cls.decode(frame, version)


def hostile_frames(frame: bytes) -> Iterator[bytes]:
    """The frame with each hostile pattern at each position."""
    for pos in range(len(frame)):
        for pattern in HOSTILE:
            yield frame[:pos] + pattern + frame[pos + len(pattern) :]


@pytest.mark.parametrize("case", all_messages(), ids=str)
def test_a_hostile_length_or_count_anywhere_is_refused_or_harmless(case: Case) -> None:
    for version in edges(case)[-1:]:
        for frame in hostile_frames(full_frame(case, version)[:300]):
            decodes(case.cls, frame, version)


def peak_of_decoding(cls: type[Message], frame: bytes, version: int) -> int:
    tracemalloc.start()
    try:
        decodes(cls, frame, version)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def most_for(frame: bytes) -> int:
    return MOST_BYTES_ANYWAY + MOST_BYTES_PER_FRAME_BYTE * len(frame)


@pytest.mark.parametrize("case", all_messages(), ids=str)
def test_memory_grows_with_the_frame_and_not_with_its_claimed_lengths(case: Case) -> None:
    for version in edges(case):
        hostile = list(hostile_frames(full_frame(case, version)))
        for frame in random.Random(f"{case} {version}").sample(hostile, min(10, len(hostile))):
            assert peak_of_decoding(case.cls, frame, version) <= most_for(frame)


def test_the_smallest_structs_there_are_take_memory_in_proportion_too() -> None:
    count = 50_000
    frame = uvarint(count + 1) + b"\x01\x00" * count + b"\x00"
    assert decodes(DescribeUserScramCredentialsRequest, frame, 0)
    assert peak_of_decoding(DescribeUserScramCredentialsRequest, frame, 0) <= most_for(frame)


def test_a_flood_of_tagged_fields_takes_memory_in_proportion_too() -> None:
    count = 50_000
    frame = uvarint(count) + b"".join(uvarint(tag) + b"\x00" for tag in range(count))
    assert decodes(ListGroupsRequest, b"\x01\x01" + frame, 5)
    assert peak_of_decoding(ListGroupsRequest, b"\x01\x01" + frame, 5) <= most_for(frame)


@pytest.mark.parametrize("case", all_messages(), ids=str)
def test_random_bytes_are_refused_or_harmless(case: Case) -> None:
    @settings(max_examples=settings.default.max_examples // 10, database=None)
    @given(st.binary(max_size=100), st.sampled_from(case.versions))
    def check(frame: bytes, version: int) -> None:
        decodes(case.cls, frame, version)

    check()


def test_an_error_says_which_message_and_where() -> None:
    with pytest.raises(WireError, match="MetadataRequest version 0: a string of 500 at 6 runs past the end"):
        MetadataRequest.decode(b"\0\0\0\1\x01\xf4ab", 0)


def test_null_is_refused_where_the_version_does_not_allow_it() -> None:
    assert MetadataRequest.decode(b"\xff\xff\xff\xff", 1).topics is None
    with pytest.raises(WireError, match="null"):
        MetadataRequest.decode(b"\xff\xff\xff\xff", 0)
    assert MetadataRequest(topics=None).encode(1) == b"\xff\xff\xff\xff"
    with pytest.raises(ValueError, match="topics may not be null in version 0"):
        MetadataRequest(topics=None).encode(0)


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(WireError, match="utf-8"):
        SaslHandshakeRequest.decode(b"\0\2\xc3\x28", 1)


def test_a_version_that_does_not_exist_is_refused() -> None:
    with pytest.raises(WireError, match="MetadataRequest has versions 0 to 13, not 14"):
        MetadataRequest.decode(b"", 14)
    with pytest.raises(ValueError, match="MetadataRequest has versions 0 to 13, not -1"):
        MetadataRequest().encode(-1)


def test_a_value_that_does_not_fit_its_field_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="ProduceRequest version 9"):
        ProduceRequest(acks=1 << 15).encode(9)
    with pytest.raises(ValueError, match="SaslHandshakeRequest version 1"):
        SaslHandshakeRequest(mechanism="x" * (1 << 15)).encode(1)
