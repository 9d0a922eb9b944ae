"""`TopicPartition`: one type for all packages, and its public names."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

import moldau
from moldau.client import data_types
from moldau.wire.topic_partition import TopicPartition, by_topic


def test_every_public_name_is_the_same_type():
    assert moldau.TopicPartition is data_types.TopicPartition is TopicPartition


def test_a_partition_survives_pickling():
    partition = moldau.TopicPartition("orders", 3)
    assert pickle.loads(pickle.dumps(partition)) == partition


def test_a_pickle_that_names_the_module_of_the_client_is_still_read():
    named_by_client = b"cmoldau.client.data_types\nTopicPartition\n(Vorders\nI3\ntR."
    assert pickle.loads(named_by_client) == moldau.TopicPartition("orders", 3)


def test_a_partition_equals_a_plain_tuple_and_prints_as_its_directory_is_named():
    assert TopicPartition("orders", 3) == ("orders", 3)
    assert str(TopicPartition("orders", 3)) == "orders-3"


@given(st.lists(st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 5)), unique=True))
def test_partitions_are_grouped_by_topic_in_order_and_none_is_lost(partitions: list[TopicPartition]) -> None:
    grouped = by_topic(partitions)
    assert [TopicPartition(topic, index) for topic, some in grouped.items() for index in some] == sorted(partitions)


def test_partitions_may_have_topic_ids_in_place_of_names():
    assert by_topic({(b"2", 1), (b"1", 3), (b"2", 0)}) == {b"1": [3], b"2": [0, 1]}
