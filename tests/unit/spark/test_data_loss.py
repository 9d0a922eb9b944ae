from __future__ import annotations

import logging

import pytest

from moldau.client.data_types import TopicPartition
from moldau.spark.data_loss import (
    DataLoss,
    Loss,
    TopicShape,
    begun_late,
    cut_short,
    gone_topics,
    overtaken,
    report,
    still_valid,
)
from moldau.spark.offsets import StreamOffset
from moldau.spark.planning import OffsetRange

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
OLD, NEW = "0" * 32, "1" * 32


def test_offsets_stay_valid_while_the_topic_is_the_same_however_much_it_grows() -> None:
    start = StreamOffset({A0: 5, A1: 6}, {"a": OLD})
    assert still_valid(start, {"a": TopicShape(OLD, (0, 1, 2))}) == ({A0: 5, A1: 6}, [])


def test_a_topic_of_the_same_name_and_another_id_is_another_topic() -> None:
    valid, losses = still_valid(StreamOffset({A0: 5}, {"a": OLD}), {"a": TopicShape(NEW, (0,))})
    assert valid == {}
    assert [loss.partition for loss in losses] == [A0]
    assert "deleted and created again" in losses[0].text and OLD in losses[0].text and NEW in losses[0].text


def test_without_a_known_id_none_is_compared() -> None:
    assert still_valid(StreamOffset({A0: 5}), {"a": TopicShape(NEW, (0,))}) == ({A0: 5}, [])


def test_a_topic_or_partition_that_is_gone_is_a_loss() -> None:
    start = StreamOffset({A0: 5, A1: 6}, {"a": OLD})
    valid, losses = still_valid(start, {"a": TopicShape(OLD, (0,))})
    assert (valid, [loss.partition for loss in losses]) == ({A0: 5}, [A1])
    valid, losses = still_valid(start, {})
    assert (valid, len(losses)) == ({}, 2)


def test_a_log_that_got_shorter_is_a_loss() -> None:
    assert cut_short({A0: 5, A1: 6}, {A0: 5, A1: 9}) == []
    (loss,) = cut_short({A0: 5, A1: 6}, {A0: 4, A1: 9})
    assert loss.partition == A0 and "ends at offset 4" in loss.text and "up to 5" in loss.text


def test_a_new_partition_has_to_begin_at_its_beginning() -> None:
    assert begun_late({A0: 0}) == []
    (loss,) = begun_late({A0: 3})
    assert "begins at offset 3" in loss.text


def test_retention_that_overtakes_a_range_leaves_the_rest_of_it() -> None:
    ranges = [OffsetRange("a", OLD, 0, 5, 10), OffsetRange("a", OLD, 1, 5, 10)]
    assert overtaken(ranges, {A0: 5, A1: 0}) == (ranges, [])
    left, losses = overtaken(ranges, {A0: 8, A1: 12})
    assert left == [OffsetRange("a", OLD, 0, 8, 10)]
    assert "a-0 has lost offsets 5 to 7" in losses[0].text
    assert "a-1 has lost offsets 5 to 9" in losses[1].text


def test_a_logged_batch_of_a_topic_that_was_replaced_cannot_be_read_again() -> None:
    ranges = [OffsetRange("a", OLD, 0, 5, 10)]
    assert gone_topics(ranges, {"a": TopicShape(OLD, (0,))}) == []
    assert gone_topics(ranges, {"a": TopicShape("", (0,))}) == []
    for topics in ({}, {"a": TopicShape(NEW, (0,))}, {"a": TopicShape(OLD, ())}):
        (loss,) = gone_topics(ranges, topics)
        assert "a-0, offsets 5 to 9" in loss.text


def test_a_loss_is_an_error_or_a_warning_as_the_option_says(caplog: pytest.LogCaptureFixture) -> None:
    losses = [Loss(TopicPartition("a", index), f"a-{index} is lost") for index in range(12)]
    report([], fail=True)
    with pytest.raises(DataLoss, match=r"a-0 is lost.*and 2 more.*failOnDataLoss"):
        report(losses, fail=True)
    with caplog.at_level(logging.WARNING, logger="moldau.spark.data_loss"):
        report(losses[:1], fail=False)
    assert "a-0 is lost" in caplog.text and "failOnDataLoss is false" in caplog.text
