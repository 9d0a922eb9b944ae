"""Nodes of the metadata tree: compact encoding, exact decoding, no guessing."""

from __future__ import annotations

from string import ascii_letters, digits

import hypothesis.strategies as st
import pytest
from hypothesis import given

from moldau.cluster.image import EMPTY, BrokerImage, Endpoint, PartitionState, PartitionStates, TopicImage
from moldau.cluster.node_encoding import BadNode
from moldau.cluster.nodes import (
    BrokerConfigNode,
    BrokerNode,
    ClusterIdNode,
    ControllerEpochNode,
    ControllerNode,
    GroupConfigNode,
    TopicConfigNode,
    TopicNode,
    id_bytes,
    id_text,
)
from moldau.cluster.store import MAX_VALUE_BYTES, split

BROKER_IDS = st.integers(0, 2**31 - 1)
STATES = st.builds(
    PartitionState,
    st.lists(BROKER_IDS, min_size=1, max_size=3).map(tuple),
    st.lists(BROKER_IDS, max_size=3).map(tuple),
    st.integers(-1, 5),
    st.integers(0, 3),
    st.integers(0, 3),
)
TOPICS = st.builds(
    TopicImage, st.just("t"), st.binary(min_size=16, max_size=16), st.lists(STATES, min_size=1, max_size=20).map(tuple)
)


@given(TOPICS)
def test_a_topic_is_read_as_it_was_written(topic: TopicImage) -> None:
    assert TopicNode.decode("t", TopicNode.encode(topic), EMPTY, PartitionStates()) == topic


@given(st.text(), st.text(), st.integers(0, 65535), st.none() | st.text(), BROKER_IDS)
def test_a_broker_is_read_as_it_was_written(listener: str, host: str, port: int, rack: str | None, number: int) -> None:
    broker = BrokerImage(number, (Endpoint(listener, host, port, "SSL"),), rack, epoch=7)
    assert BrokerNode.decode(str(number), BrokerNode.encode(broker)) == broker


@given(st.dictionaries(st.text(), st.text()))
def test_settings_are_read_as_they_were_written(configs: dict[str, str]) -> None:
    assert TopicConfigNode.decode("/config/topics/t", TopicConfigNode.encode(configs)) == configs


def test_single_values_are_read_as_they_were_written() -> None:
    assert ClusterIdNode.decode(ClusterIdNode.encode("x" * 22)) == "x" * 22
    assert ControllerNode.decode(ControllerNode.encode(3)) == 3
    assert ControllerEpochNode.decode(ControllerEpochNode.encode(2**40)) == 2**40


def test_the_settings_of_all_brokers_are_the_node_named_default() -> None:
    assert BrokerConfigNode.path("") == "/config/brokers/default"
    assert BrokerConfigNode.path("7") == "/config/brokers/7"
    assert BrokerConfigNode.resource_name("default") == ""
    assert BrokerConfigNode.resource_name("7") == "7"
    for group_id in ("plain", "a/b", "..", "%2F", "grüße 1", "\0"):
        folder, name = split(GroupConfigNode.path(group_id))
        assert (folder, GroupConfigNode.group_id(name)) == ("/config/groups", group_id)
        assert set(name) <= set("%-_~" + ascii_letters + digits)


def test_partitions_in_the_same_state_share_it_when_read() -> None:
    state = PartitionState((1, 2), (1, 2), 1, 0, 0)
    states = PartitionStates()
    one = TopicNode.decode("a", TopicNode.encode(TopicImage("a", bytes(16), (state,) * 3)), EMPTY, states)
    other = TopicNode.decode("b", TopicNode.encode(TopicImage("b", bytes(16), (state,) * 3)), EMPTY, states)
    assert len({id(partition) for partition in one.partitions + other.partitions}) == 1


def test_rare_fields_of_a_partition_take_no_space_if_absent() -> None:
    plain = PartitionState((1, 2), (1, 2), 1, 0, 0)
    rare = PartitionState((1, 2, 3), (), -1, 7, 9, elr=(2,), last_known_elr=(1,), adding=(3,), removing=(1,))
    topic = TopicImage("a", bytes(16), (plain, rare))
    assert TopicNode.decode("a", TopicNode.encode(topic), EMPTY, PartitionStates()) == topic
    assert b"elr" not in TopicNode.encode(TopicImage("a", bytes(16), (plain,)))


def test_ten_thousand_partitions_of_a_large_cluster_fit_in_one_node_even_if_no_two_are_alike() -> None:
    states = tuple(
        PartitionState((998, 999, index), (998, 999, index), 998, 1000 + index, index) for index in range(10_000)
    )
    assert len(TopicNode.encode(TopicImage("t", bytes(16), states))) < MAX_VALUE_BYTES
    alike = (PartitionState((0,), (0,), 0, 0, 0),) * 10_000
    assert len(TopicNode.encode(TopicImage("t", bytes(16), alike))) < 25_000


@given(st.binary(min_size=16, max_size=16))
def test_an_id_is_22_characters_and_back(identity: bytes) -> None:
    assert len(id_text(identity)) == 22
    assert id_bytes(id_text(identity)) == identity


@pytest.mark.parametrize("text", ["", "abc", "x" * 21, "x" * 23, "!" * 22, "AAAAAAAAAAAAAAAAAAAAAB", "/" * 22])
def test_malformed_ids_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (base64 has its own words)
        id_bytes(text)


BAD_TOPICS = [
    b"",
    b"\xff\xfe",
    b"[]",
    b"null",
    b"{}",
    b'{"version":1}',
    b'{"version":1,"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","states":[],"partitions":[]}',
    b'{"version":1,"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","states":[],"partitions":[0]}',
    b'{"version":1,"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","states":[[[0],[0],0,0,0]],"partitions":[-1]}',
    b'{"version":1,"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","states":[[[0],[0],0,0]],"partitions":[0]}',
    b'{"version":1,"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","states":[[["0"],[0],0,0,0]],"partitions":[0]}',
    b'{"version":1,"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","states":[[[0],[0],0.5,0,0]],"partitions":[0]}',
    b'{"version":1,"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","states":[["0",[0],0,0,0]],"partitions":[0]}',
    b'{"version":1,"topic_id":"short","states":[[[0],[0],0,0,0]],"partitions":[0]}',
]


@pytest.mark.parametrize("value", BAD_TOPICS)
def test_a_malformed_topic_node_is_named(value: bytes) -> None:
    with pytest.raises(BadNode, match=r"/topics/orders cannot be understood"):
        TopicNode.decode("orders", value, EMPTY, PartitionStates())


def test_a_later_version_of_a_node_is_refused() -> None:
    with pytest.raises(BadNode, match="/config/topics/t has version 2, this program knows 1"):
        TopicConfigNode.decode("/config/topics/t", b'{"version":2,"config":{}}')
    with pytest.raises(BadNode, match="cannot be understood"):
        TopicConfigNode.decode("/config/topics/t", b'{"version":1,"config":{"a":1}}')
    with pytest.raises(BadNode, match="/brokers/ids/x"):
        BrokerNode.decode("x", b'{"version":1,"epoch":0,"directory_id":"","endpoints":[],"rack":null}')
