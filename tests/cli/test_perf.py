"""`moldau perf`: counts of records and bytes. Speeds are not tested."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from moldau import Consumer, Producer
from moldau.cli.perf import CONSUME_COLUMNS, Passing, Receiving, Sending
from tests.cli.processes import done, run

TIMEOUT_S = 30.0


@pytest.fixture
def producer(bootstrap: str) -> Iterator[Producer]:
    with Producer(bootstrap_servers=bootstrap) as client:
        yield client


def end_of(bootstrap: str, topic: str) -> int:
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        (end,) = consumer.end_offsets((topic, 0)).values()
        return end


def test_the_requested_number_of_records_is_sent(bootstrap: str, producer: Producer, topic: str) -> None:
    sending = Sending(producer, topic, 2_345, 10, throughput=-1, interval_s=60)
    sending.run()
    assert end_of(bootstrap, topic) == 2_345
    assert (sending.latencies.count, sending.failed) == (2_345, 0)
    assert sending.total["bytes"] == 23_450


def test_large_runs_time_a_sample_and_send_everything(bootstrap: str, producer: Producer, topic: str) -> None:
    sending = Sending(producer, topic, 100_001, 1, throughput=-1, interval_s=60)
    sending.run()
    assert end_of(bootstrap, topic) == 100_001
    assert 100_001 // 16 <= sending.latencies.count <= 100_001 // 8


def test_a_throughput_is_not_exceeded(producer: Producer, topic: str) -> None:
    sending = Sending(producer, topic, 50, 1, throughput=200, interval_s=60)
    sending.run()
    assert sending.total["seconds"] >= 0.2


@pytest.mark.parametrize("arrow", [False, True])
def test_the_requested_number_of_records_is_read(bootstrap: str, producer: Producer, topic: str, arrow: bool) -> None:
    Sending(producer, topic, 3_000, 10, throughput=-1, interval_s=60).run()
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        reading = Receiving(consumer, 2_500, TIMEOUT_S, 60, arrow=arrow)
        reading.run()
    assert reading.total.records == 2_500
    assert reading.total.bytes >= 25_000
    _, header, row = reading.table()
    assert header == CONSUME_COLUMNS
    assert len(row.split(", ")) == len(header.split(", "))


def test_a_reader_that_gets_nothing_gives_up(bootstrap: str, topic: str) -> None:
    with Consumer(topic, bootstrap_servers=bootstrap) as consumer:
        reading = Receiving(consumer, 1, 0.01, 60)
        reading.run()
    assert reading.total.records == 0


def test_records_are_passed_on_one_by_one(bootstrap: str, producer: Producer, topic: str) -> None:
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        passing = Passing(producer, consumer, topic, 100)
        passing.run(20, 60)
    assert passing.latencies.count == 20
    assert end_of(bootstrap, topic) == 20


def test_the_commands_print_a_summary(bootstrap: str, topic: str) -> None:
    printed = done(bootstrap, "perf", "produce", "--topic", topic, "--num-records", "1000", "--record-size", "10")
    assert printed.decode().startswith("1000 records sent, ")
    assert printed.decode().rstrip().endswith("99.9th.")
    short = run(bootstrap, "perf", "consume", "--topic", topic, "-n", "1001", "--timeout", "500", "-o", "json")
    assert short.returncode == 1
    assert b"only 1000 of 1001 records arrived" in short.stderr
    assert json.loads(short.stdout)["records"] == 1000
