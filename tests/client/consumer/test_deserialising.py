"""Deserialisers: converted keys and values, and records that cannot be deserialised."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from moldau import Consumer, TopicPartition
from moldau.client.consumer.decode import Record
from moldau.client.errors import ConfigurationError, DeserializationError
from tests.client.consumer.reading import poll, take, values

Consumers = Callable[..., Consumer]
Write = Callable[..., int]


@pytest.fixture
def with_a_bad_one(write: Write, topic: str) -> TopicPartition:
    """Ten numbers in JSON, except that the value at offset 4 is not valid."""
    write(topic, [b"%d" % i if i != 4 else b"{" for i in range(10)])
    return TopicPartition(topic, 0)


def test_keys_and_values_are_deserialised(consumer: Consumers, write: Write, topic: str) -> None:
    write(topic, [json.dumps({"n": i}).encode() for i in range(3)] + [None])
    records = take(consumer(topic, key_deserializer="str", value_deserializer="json"), 4)
    assert values(records) == [{"n": 0}, {"n": 1}, {"n": 2}, None]
    assert records[1].key == "k1"


@pytest.mark.parametrize("how", ["poll", "iterate"])
def test_a_record_that_cannot_be_deserialised_is_an_error_with_its_offset_until_a_seek(
    consumer: Consumers, with_a_bad_one: TopicPartition, how: str
) -> None:
    one = consumer(with_a_bad_one.topic, value_deserializer="json")
    read = poll if how == "poll" else take
    assert values(read(one, 4)) == [0, 1, 2, 3]
    for _ in range(3):
        with pytest.raises(
            DeserializationError, match=f"value of the record at offset 4 .*{with_a_bad_one.topic}"
        ) as it:
            read(one, 1)
        assert (it.value.topic, it.value.partition, it.value.offset) == (with_a_bad_one.topic, with_a_bad_one, 4)
        assert it.value.part == "value"
        assert isinstance(it.value.record, Record) and it.value.record.value == b"{"
        assert one.position(with_a_bad_one) == 4
    one.seek(with_a_bad_one, it.value.offset + 1)
    assert values(read(one, 5)) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("how", ["poll", "iterate"])
def test_records_that_cannot_be_deserialised_can_be_skipped(
    consumer: Consumers, with_a_bad_one: TopicPartition, how: str
) -> None:
    one = consumer(with_a_bad_one.topic, value_deserializer="json", on_error="skip")
    read = poll if how == "poll" else take
    assert values(read(one, 9)) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert one.position(with_a_bad_one) == 10


def test_records_that_cannot_be_deserialised_can_be_given_to_a_function(
    consumer: Consumers, with_a_bad_one: TopicPartition
) -> None:
    letters: list[DeserializationError] = []
    one = consumer(with_a_bad_one.topic, value_deserializer="json", on_error=letters.append)
    assert values(take(one, 9)) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert [letter.offset for letter in letters] == [4]


def test_an_interruption_is_raised_at_once_and_loses_no_record(consumer: Consumers, write: Write, topic: str) -> None:
    write(topic, [b"%d" % i for i in range(6)])
    interrupted: list[bytes] = []

    def mark(data: bytes) -> bytes:
        if data == b"3" and not interrupted:
            interrupted.append(data)
            raise KeyboardInterrupt
        return data + b"!"

    one = consumer(topic, value_deserializer=mark)
    with pytest.raises(KeyboardInterrupt):
        poll(one, 6)
    assert values(poll(one, 6)) == [b"%d!" % i for i in range(6)]


def test_records_returned_to_the_buffer_are_not_deserialised_twice(
    consumer: Consumers, write: Write, topic: str
) -> None:
    write(topic, [b"%d" % i for i in range(6)])
    one = consumer(topic, value_deserializer=lambda data: data + b"!")
    records = iter(one)
    assert [next(records).value for _ in range(2)] == [b"0!", b"1!"]
    one.pause((topic, 0))
    one.resume((topic, 0))
    assert values(take(one, 2)) == [b"2!", b"3!"]
    assert values(poll(one, 2)) == [b"4!", b"5!"]


def test_interceptors_see_records_before_the_application(consumer: Consumers, write: Write, topic: str) -> None:
    class Even:
        def on_consume(self, records: list[Record]) -> list[Record]:
            return [record for record in records if record.offset % 2 == 0]

    write(topic, [b"%d" % i for i in range(6)])
    assert values(take(consumer(topic, interceptor_classes=[Even]), 3)) == [b"0", b"2", b"4"]
    assert values(poll(consumer(topic, interceptor_classes=[Even()]), 3)) == [b"0", b"2", b"4"]


def test_an_unknown_on_error_is_refused(consumer: Consumers) -> None:
    with pytest.raises(ConfigurationError, match="on_error"):
        consumer(on_error="ignore")
