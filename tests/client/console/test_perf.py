"""The performance tools count right, whatever the speed; how fast it was is nobody's business here."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from moldau import Consumer, Producer
from moldau.cli.latencies import MAX_US, Latencies, Rate, Reporter
from moldau.cli.perf import CONSUME_COLUMNS, Passing, Receiving, Sending
from tests.client.console.commands import done, run

TIMEOUT_S = 30.0


@pytest.fixture
def producer(bootstrap: str) -> Iterator[Producer]:
    with Producer(bootstrap_servers=bootstrap) as client:
        yield client


def end_of(bootstrap: str, topic: str) -> int:
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        (end,) = consumer.end_offsets((topic, 0)).values()
        return end


# Numbers --------------------------------------------------------------------------------------------------------------


def test_percentiles_have_three_digits() -> None:
    latencies = Latencies()
    for milliseconds in range(1, 1001):
        latencies.add(milliseconds / 1000)
    assert latencies.count == 1000
    assert latencies.mean_ms == pytest.approx(500.5, rel=0.001)
    assert latencies.max_ms == 1000
    for percentile, milliseconds in ((50, 500), (95, 950), (99, 990), (99.9, 999)):
        assert latencies.percentile_ms(percentile) == pytest.approx(milliseconds, rel=0.002)


def test_what_is_shorter_or_longer_than_can_be_told_is_counted_all_the_same() -> None:
    latencies = Latencies()
    latencies.add(0.0)
    latencies.add(10 * MAX_US / 1_000_000)
    assert latencies.count == 2
    assert latencies.max_ms == MAX_US / 1000


def test_nothing_measured_is_no_error() -> None:
    assert "0.00 ms avg latency" in str(Latencies())
    assert Rate(5.0).as_json(5.0)["records_per_second"] == 0


def test_a_window_tells_of_itself_and_the_total_of_all() -> None:
    reporter = Reporter("sent", 100.0, 1.0)
    reporter.add(10, 10 * 1024 * 1024)
    assert reporter.due(100.5) is None
    assert reporter.due(102.0) == "10 records sent, 5.0 records/sec (5.00 MB/sec)"
    reporter.add(30, 0)
    assert reporter.due(103.0) == "30 records sent, 30.0 records/sec (0.00 MB/sec)"
    assert reporter.total.text("sent", 104.0) == "40 records sent, 10.0 records/sec (2.50 MB/sec)"


# Runs -----------------------------------------------------------------------------------------------------------------


def test_as_many_records_are_sent_as_were_asked_for(bootstrap: str, producer: Producer, topic: str) -> None:
    sending = Sending(producer, topic, 2_345, 10, throughput=-1, interval_s=60)
    sending.run()
    assert end_of(bootstrap, topic) == 2_345
    assert (sending.latencies.count, sending.failed) == (2_345, 0)
    assert sending.total["bytes"] == 23_450


def test_of_very_many_some_are_timed_and_all_are_sent(bootstrap: str, producer: Producer, topic: str) -> None:
    sending = Sending(producer, topic, 100_001, 1, throughput=-1, interval_s=60)
    sending.run()
    assert end_of(bootstrap, topic) == 100_001
    assert 100_001 // 16 <= sending.latencies.count <= 100_001 // 8


def test_a_throughput_is_not_exceeded(producer: Producer, topic: str) -> None:
    sending = Sending(producer, topic, 50, 1, throughput=200, interval_s=60)
    sending.run()
    assert sending.total["seconds"] >= 0.2


@pytest.mark.parametrize("arrow", [False, True])
def test_as_many_records_are_read_as_were_asked_for(
    bootstrap: str, producer: Producer, topic: str, arrow: bool
) -> None:
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
    assert b"only 1000 of 1001 records came" in short.stderr
    assert json.loads(short.stdout)["records"] == 1000
