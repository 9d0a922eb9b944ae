from __future__ import annotations

import re
from pathlib import Path

import pytest

from moldau.client.data_types import TopicPartition
from moldau.client.errors import ConfigurationError
from moldau.spark.bounds import AtOffsets, AtTimes, Edge
from moldau.spark.options import REFUSED, SOURCE_OPTIONS, SourceOptions, include_headers, parse, push_filters

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "spark.md"


def batch(**options: str) -> SourceOptions:
    return parse(LEAST | options, streaming=False)


def stream(**options: str) -> SourceOptions:
    return parse(LEAST | options, streaming=True)


def test_a_batch_reads_everything_and_a_stream_only_new_records() -> None:
    assert (batch().starting, batch().ending) == (Edge.EARLIEST, Edge.LATEST)
    assert stream().starting is Edge.LATEST
    assert batch().fail_on_data_loss


def test_names_count_in_any_case_as_spark_hands_them_over_in_lower_case() -> None:
    options = {name.lower(): text for name, text in {**LEAST, "maxOffsetsPerTrigger": "7"}.items()}
    assert parse(options, streaming=True).max_offsets_per_trigger == 7
    assert include_headers({"INCLUDEHEADERS": "True"})
    assert not push_filters({})


def test_options_with_the_prefix_kafka_are_client_settings() -> None:
    options = batch(**{"kafka.isolation.level": "read_committed", "kafka.group.id": "ignored"})
    assert options.settings == {"bootstrap.servers": "localhost:9092", "isolation.level": "read_committed"}
    assert options.read_committed
    assert not batch().read_committed


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"subscribe": " a, b ,a,"}, ("a", "b")),
        ({"subscribePattern": "orders-.*"}, "orders-.*"),
        (
            {"assign": '{"b": [1, 0], "a": [2]}'},
            (TopicPartition("a", 2), TopicPartition("b", 0), TopicPartition("b", 1)),
        ),
    ],
)
def test_topics_are_chosen_in_three_ways(given: dict[str, str], expected: object) -> None:
    chosen = parse({"kafka.bootstrap.servers": "x:1", **given}, streaming=True).subscription
    assert expected in (chosen.topics, chosen.pattern, chosen.partitions)
    assert next(iter(given)) in str(chosen)


def test_offsets_and_times_go_in_the_order_of_sparks_own_connector() -> None:
    offsets = {"startingOffsets": '{"orders": {"0": 23, "1": -2}}'}
    times = {"startingOffsetsByTimestamp": '{"orders": {"0": 1000}}'}
    assert stream(**offsets).starting == AtOffsets(
        "startingOffsets", {TopicPartition("orders", 0): 23, TopicPartition("orders", 1): -2}
    )
    assert stream(**offsets, **times).starting == AtTimes(
        "startingOffsetsByTimestamp", {TopicPartition("orders", 0): 1000}, otherwise_latest=False
    )
    assert stream(**offsets, **times, startingTimestamp="5").starting == AtTimes(
        "startingTimestamp", 5, otherwise_latest=False
    )
    assert batch(endingTimestamp="9").ending == AtTimes("endingTimestamp", 9, otherwise_latest=True)
    lenient = stream(startingTimestamp="5", startingOffsetsByTimestampStrategy="latest").starting
    assert lenient == AtTimes("startingTimestamp", 5, otherwise_latest=True)


@pytest.mark.parametrize(
    ("text", "expected"), [("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("2 h", 7_200_000), ("250", 250)]
)
def test_durations_are_sparks(text: str, expected: int) -> None:
    assert stream(maxTriggerDelay=text).max_trigger_delay_ms == expected


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"startingOffset": "earliest"}, "startingOffsets"),
        ({"failOnDataLoss": "perhaps"}, "failOnDataLoss"),
        ({"minPartitions": "0"}, "minPartitions"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"}, "minOffsetsPerTrigger"),
        ({"minPartitions": "9", "maxPartitions": "3"}, "maxPartitions"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay"),
        ({"startingOffsets": "first"}, "startingOffsets"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "startingOffsets"),
        ({"startingOffsets": '{"orders": {"zero": 3}}'}, "startingOffsets"),
        ({"startingOffsets": '{"orders": 3}'}, "startingOffsets"),
        ({"startingOffsets": '{"orders": {"0": "3"}}'}, "startingOffsets"),
        ({"startingOffsets": "[]"}, "startingOffsets"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "startingOffsetsByTimestampStrategy"),
        ({"subscribe": " , "}, "subscribe"),
        ({"subscribePattern": "a"}, "subscribe and subscribePattern"),
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers"),
        *(({f"kafka.{name}": "x"}, f"kafka.{name}") for name in REFUSED),
    ],
)
def test_an_error_names_the_option(options: dict[str, str], named: str) -> None:
    for streaming in (True, False):
        with pytest.raises(ConfigurationError, match=re.escape(named)):
            parse(LEAST | options, streaming=streaming)


@pytest.mark.parametrize("text", ["", "(", "[a"])
def test_an_invalid_pattern_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="subscribePattern"):
        parse({"kafka.bootstrap.servers": "x:1", "subscribePattern": text}, streaming=True)


@pytest.mark.parametrize("text", ["{}", "[1]", '{"a": []}', '{"a": [-1]}', '{"a": ["x"]}', '{"a": [true]}', "nothing"])
def test_an_invalid_assignment_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="option assign"):
        parse({"kafka.bootstrap.servers": "x:1", "assign": text}, streaming=True)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        stream(**{name: "5"})


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"orders": {"0": -1}}'},
        {"endingOffsets": "earliest"},
        {"endingOffsets": '{"orders": {"0": -2}}'},
    ],
)
def test_a_batch_that_could_read_nothing_is_a_mistake(options: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        batch(**options)


def test_unknown_options_are_ignored() -> None:
    assert batch(topic="out", checkpointLocation="/tmp/x", path="y") == batch()


def test_the_documentation_has_every_option_and_no_other() -> None:
    documented = set(re.findall(r"^\| `([A-Za-z.]+)` \|", DOCUMENT.read_text(), re.MULTILINE))
    assert documented == set(SOURCE_OPTIONS) | {"kafka.bootstrap.servers", "kafka.isolation.level"}
