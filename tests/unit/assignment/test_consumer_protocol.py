"""Subscriptions and assignments of the consumer protocol, as coordinator, consumer and admin client read them."""

import pytest

from moldau.assignment import consumer_protocol as protocol
from moldau.client.admin.groups import decode_assignment as described
from moldau.client.consumer.assignors import consumer_protocol as client
from moldau.client.consumer.assignors.assignor import NO_GENERATION, MemberSubscription
from moldau.client.data_types import TopicPartition
from moldau.wire.errors import WireError

ASSIGNED = [TopicPartition("orders", 0), TopicPartition("orders", 2), TopicPartition("refunds", 1)]
BY_TOPIC = [("orders", [0, 2]), ("refunds", [1])]


@pytest.mark.parametrize("version", range(4))
def test_all_readers_decode_the_same_assignment_from_the_bytes_of_a_coordinator(version):
    data = protocol.encode_assignment(BY_TOPIC, version)
    assert int.from_bytes(data[:2]) == version
    assert protocol.parse_assignment(data) == BY_TOPIC
    assert list(client.decode_assignment(data)) == list(described(data)) == ASSIGNED


def test_a_later_version_is_read_as_the_newest_known_one():
    data = b"\0\x63" + client.encode_assignment(ASSIGNED)[2:] + b"more"
    assert protocol.parse_assignment(data) == BY_TOPIC
    assert protocol.encode_assignment(BY_TOPIC, 99)[:2] == b"\0\x03"


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff" + protocol.encode_assignment(BY_TOPIC)[2:], b"\0\0\0"])
def test_invalid_bytes_assign_nothing_and_are_an_error_where_the_assignment_is_required(data):
    assert protocol.parse_assignment(data) == []
    assert described(data) == ()
    assert protocol.parse_subscription(data) is None
    with pytest.raises(WireError):
        protocol.decode_assignment(data)
    with pytest.raises(WireError):
        client.decode_subscription(data)


def test_a_coordinator_reads_what_a_consumer_subscribes_to():
    said = MemberSubscription(("orders", "refunds"), tuple(ASSIGNED), 7, b"x", None, "rack-1")
    data = client.encode_subscription(said)
    found = protocol.parse_subscription(data)
    assert found is not None
    assert (found.topics, found.generation_id, found.rack_id) == (["orders", "refunds"], 7, "rack-1")
    assert protocol.subscription_version(data) == protocol.SUBSCRIPTION_VERSION
    assert client.decode_subscription(data) == said


def test_a_subscription_of_version_0_has_no_generation():
    data = b"\0\0" + b"\0\0\0\x01\0\x06orders" + b"\xff\xff\xff\xff"
    assert client.decode_subscription(data) == MemberSubscription(("orders",), (), NO_GENERATION)
