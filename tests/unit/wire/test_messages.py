"""Generated messages beyond their bytes: defaults, comparison, representation."""

from __future__ import annotations

import subprocess
import sys

import pytest

from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from moldau.wire.messages.fetch import FetchRequest, FetchResponse, FetchResponseCurrentLeader, FetchResponsePartition
from moldau.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from moldau.wire.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from moldau.wire.stored.offset_commit import OffsetCommitKey
from tests.unit.wire.schema import definitions


def produce_request(records: bytes | bytearray | memoryview | None) -> ProduceRequest:
    partition = ProduceRequestPartition(index=1, records=records)
    return ProduceRequest(acks=-1, topic_data=[ProduceRequestTopic(name="t", partition_data=[partition])])


def test_messages_do_not_share_lists() -> None:
    first, second = MetadataResponse(), MetadataResponse()
    first.topics.append(MetadataResponseTopic(name="t"))
    assert second.topics == []
    assert MetadataResponse().topics == []


def test_messages_are_equal_by_class_and_fields() -> None:
    assert CreateTopicsRequestTopic(name="t") == CreateTopicsRequestTopic(name="t")
    assert CreateTopicsRequestTopic(name="t") != CreateTopicsRequestTopic(name="u")
    assert CreateTopicsRequestTopic(name="t") != CreateTopicsRequestTopic(name="t", unknown_tags={7: b""})
    assert MetadataRequest() != CreateTopicsRequest()
    with pytest.raises(TypeError, match="unhashable"):
        hash(MetadataRequest())


def test_a_message_shows_its_fields() -> None:
    assert repr(OffsetCommitKey(group="g", topic="t", partition=3)) == (
        "OffsetCommitKey(group='g', topic='t', partition=3)"
    )
    assert "unknown_tags={7: b'x'}" in repr(MetadataRequest(unknown_tags={7: b"x"}))


def test_a_misspelt_field_is_an_error() -> None:
    with pytest.raises(AttributeError):
        MetadataRequest().topcis = []  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", [3, 9, 13])
@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_records_are_a_view_into_the_frame_and_encode_from_any_buffer(version: int, buffer: type[memoryview]) -> None:
    encoded = produce_request(buffer(b"some records")).encode(version)
    frame = bytearray(b"before") + encoded + b"after"
    records = ProduceRequest.decode(frame, version, pos=6).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records == b"some records"
    assert records.obj is frame


def test_null_records_are_not_empty_records() -> None:
    for records in (None, b""):
        decoded = ProduceRequest.decode(produce_request(records).encode(9), 9)
        assert decoded.topic_data[0].partition_data[0].records == records


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_any_buffer_is_decoded_from_any_position(buffer: type[memoryview]) -> None:
    message = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    frame = b"xx" + message.encode(12)
    assert MetadataRequest.decode(buffer(frame), 12, 2) == message


def test_a_message_without_records_keeps_no_hold_on_its_frame() -> None:
    frame = bytearray(MetadataRequest(unknown_tags={1: b"abc"}).encode(12))
    decoded = MetadataRequest.decode(memoryview(frame), 12)
    frame[:] = bytes(len(frame))
    assert decoded.unknown_tags == {1: b"abc"}


def test_an_absent_tagged_struct_is_none() -> None:
    assert FetchResponsePartition().current_leader is None
    leader = FetchResponseCurrentLeader(leader_id=3, leader_epoch=7)
    partition = FetchResponsePartition(current_leader=leader)
    decoded, _ = FetchResponsePartition.read_from(b"".join(written(partition, 12)), 0, 12)
    assert decoded.current_leader == leader
    assert decoded.diverging_epoch is None


def written(partition: FetchResponsePartition, version: int) -> list[bytes]:
    out: list[bytes] = []
    partition.write_to(lambda part: out.append(bytes(part)), version)
    return out


def test_a_tag_is_unknown_to_the_versions_before_it_and_kept_by_them() -> None:
    request = FetchRequest.decode(FetchRequest(unknown_tags={1: b"later"}).encode(14), 14)
    assert request.replica_state is None
    assert request.unknown_tags == {1: b"later"}


def test_tags_are_written_in_their_order() -> None:
    message = FetchResponse(unknown_tags={900: b"c", 5: b"b"})
    assert message.encode(17).endswith(b"\x02" + b"\x05\x01b" + b"\x84\x07\x01c")


def test_the_table_has_every_api_with_the_versions_of_its_messages() -> None:
    assert len(APIS) == len(ApiKey) == 70
    assert {api.key for api in APIS.values()} == {definition.key for definition in definitions() if definition.api}
    for key, api in APIS.items():
        assert key == api.key
        for message in (api.request_type(), api.response_type()):
            assert key == message.API_KEY
            assert (api.min_version, api.max_version) == (message.MIN_VERSION, message.MAX_VERSION)
            assert api.flexible_from == message.FLEXIBLE_FROM


def test_produce_is_known_from_version_0_and_only_init_producer_id_has_an_unstable_version() -> None:
    assert APIS[ApiKey.PRODUCE].min_version == 0
    assert [api.name for api in APIS.values() if api.latest_unstable] == ["InitProducerId"]
    assert APIS[ApiKey.INIT_PRODUCER_ID].max_stable_version == 5
    assert APIS[ApiKey.PRODUCE].max_stable_version == 13


def test_importing_one_message_imports_no_other() -> None:
    program = (
        "import sys, moldau.wire.header, moldau.wire.messages.metadata\n"
        "print(*sorted(name for name in sys.modules if name.startswith('moldau.wire.messages.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["moldau.wire.messages.metadata"]


def test_error_codes_are_integers_that_know_whether_to_retry() -> None:
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == 6
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert not ErrorCode.NONE.retriable
    assert not ErrorCode.OFFSET_OUT_OF_RANGE.retriable
    assert ErrorCode.of(87) is ErrorCode.INVALID_RECORD
    assert ErrorCode.of(9999) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert sorted(ErrorCode) == list(range(-1, 134))
