"""The pace of fetch responses, with a model of librdkafka's queue on a clock of its own."""

from __future__ import annotations

import pytest

from moldau.broker.requests.fetch_pacer import (
    CAUGHT_UP_S,
    DELAY_MAX_S,
    INTERVAL_MAX,
    MEBIBYTE,
    PAUSE_MAX_S,
    FetchPacer,
    needs_pacing,
)

QUEUE_BYTES = 10 * MEBIBYTE
"""100,000 records of 100 bytes: `queued.min.messages`."""
PAUSE_S = 1.0
RECEIVE_S = 0.0025
"""The time that librdkafka needs to receive and parse a MiB."""


class Librdkafka:
    """A reader with librdkafka's queue: it does not fetch for a second if the queue is full after a response."""

    def __init__(self, pacer: FetchPacer | None, application_s: float, receive_s: float = RECEIVE_S) -> None:
        self.pacer = pacer
        self.application_s = application_s  # per MiB
        self.receive_s = receive_s
        self.now = 100.0
        self.queued = 0.0
        self.pauses = 0
        self.delays: list[float] = []

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.queued = max(0.0, self.queued - seconds / self.application_s * MEBIBYTE)

    def read(self, mebibytes: int) -> float:
        """Read that much; returns the seconds."""
        began = self.now
        for _ in range(mebibytes):
            if self.pacer is not None:
                self.delays.append(self.pacer.fetch_arrived(self.now))
                self.pass_time(self.delays[-1])
                self.pacer.answered(self.now, MEBIBYTE)
            self.pass_time(self.receive_s)
            self.queued += MEBIBYTE
            while self.queued >= QUEUE_BYTES:
                self.pauses += 1
                self.pass_time(PAUSE_S)
        return self.now - began


def paused(pacer: FetchPacer, now: float, responses: int = 20, pause_s: float = PAUSE_S) -> float:
    """A run of responses at full speed, then a pause; returns the time after it."""
    for _ in range(responses):
        now += pacer.fetch_arrived(now)
        pacer.answered(now, MEBIBYTE)
        now += RECEIVE_S
    now += pause_s - RECEIVE_S
    assert pacer.fetch_arrived(now) == 0, "a fetch after a pause is answered at once"
    return now


@pytest.mark.parametrize("application_s", [0.003, 0.005, 0.010, 0.020, 0.030])
def test_a_reader_that_is_slower_than_the_broker_has_few_pauses(application_s: float) -> None:
    unpaced = Librdkafka(None, application_s)
    paced = Librdkafka(FetchPacer(), application_s)
    unpaced_s, paced_s = unpaced.read(2000), paced.read(2000)
    assert paced.pauses < unpaced.pauses / 5
    assert paced_s < unpaced_s / 2
    assert paced_s < 2000 * application_s * 1.75, "the application determines the time, not the pauses"


@pytest.mark.parametrize("application_s", [0.001, 0.0024])
def test_a_reader_that_is_faster_than_the_broker_is_never_delayed(application_s: float) -> None:
    reader = Librdkafka(FetchPacer(), application_s)
    reader.read(2000)
    assert reader.pauses == 0
    assert not any(reader.delays)


def test_nothing_is_delayed_before_the_first_pause() -> None:
    reader = Librdkafka(FetchPacer(), application_s=0.010)
    while not reader.pauses:
        reader.read(1)
    assert not any(reader.delays)
    reader.read(100)
    assert any(reader.delays)


def test_an_application_that_becomes_faster_is_no_longer_delayed() -> None:
    pacer = FetchPacer()
    reader = Librdkafka(pacer, application_s=0.020)
    reader.read(1000)
    assert pacer.pacing
    reader.application_s = 0.001
    began, pauses = reader.now, reader.pauses
    while pacer.pacing:
        reader.read(1)
    assert reader.now - began < 90
    assert reader.pauses == pauses


def test_an_application_that_becomes_slower_is_delayed_more() -> None:
    reader = Librdkafka(FetchPacer(), application_s=0.005)
    reader.read(1000)
    reader.application_s = 0.020
    pauses = reader.pauses
    assert reader.read(1000) < 1000 * 0.020 * 1.75
    assert reader.pauses - pauses < 8


def test_the_first_pause_may_be_an_accident_and_changes_little() -> None:
    pacer = FetchPacer()
    now = paused(pacer, 100.0)
    first = pacer.seconds_per_mebibyte
    assert RECEIVE_S < first <= RECEIVE_S * 1.25
    paused(pacer, now)
    assert pacer.seconds_per_mebibyte > first * 1.5


def test_interval_and_delay_are_bounded() -> None:
    pacer = FetchPacer()
    now = 100.0
    for _ in range(50):
        now = paused(pacer, now)
    assert pacer.seconds_per_mebibyte == pytest.approx(INTERVAL_MAX * MEBIBYTE)
    pacer.answered(now, 50 * MEBIBYTE)
    assert pacer.fetch_arrived(now + RECEIVE_S) == DELAY_MAX_S


def test_a_gap_longer_than_a_pause_means_that_the_application_is_slow() -> None:
    pacer = FetchPacer()
    now = 100.0
    for _ in range(10):
        now = paused(pacer, now, pause_s=PAUSE_MAX_S + 0.1)
    assert not pacer.pacing


def test_a_slow_network_is_not_a_pause() -> None:
    reader = Librdkafka(FetchPacer(), application_s=0.001, receive_s=0.5)
    reader.read(100)
    assert not any(reader.delays)


def test_a_network_that_becomes_slow_does_not_delay_for_long() -> None:
    pacer = FetchPacer()
    reader = Librdkafka(pacer, application_s=0.001)
    reader.read(100)
    reader.receive_s = 0.5
    reader.read(200)
    assert not pacer.pacing
    assert pacer.pauses < 20


def test_waiting_for_records_at_the_end_of_the_log_is_not_a_pause() -> None:
    pacer = FetchPacer()
    now = 100.0
    for _ in range(100):
        assert pacer.fetch_arrived(now) == 0
        now += 0.5  # the broker waits for records
        pacer.answered(now, MEBIBYTE)
        now += RECEIVE_S
    assert not pacer.pacing


def test_a_reader_that_has_caught_up_starts_a_new_run() -> None:
    """Few records after a wait have filled no queue: the gap after them has another reason."""
    pacer = FetchPacer()
    now = 100.0
    for _ in range(20):
        pacer.fetch_arrived(now)
        pacer.answered(now, MEBIBYTE)
        now += RECEIVE_S
    pacer.fetch_arrived(now)
    now += CAUGHT_UP_S * 2
    pacer.answered(now, 1000)
    pacer.fetch_arrived(now + PAUSE_S)
    assert pacer.pauses == 0


def test_an_empty_response_ends_the_run() -> None:
    pacer = FetchPacer()
    now = 100.0
    for size in (MEBIBYTE, MEBIBYTE, 0):
        pacer.fetch_arrived(now)
        pacer.answered(now, size)
        now += RECEIVE_S
    pacer.fetch_arrived(now + PAUSE_S)
    assert pacer.pauses == 0


@pytest.mark.parametrize(
    ("software", "expected"),
    [
        ("librdkafka/2.0.2", True),
        ("librdkafka/2.16.0", True),
        ("confluent-kafka-python/2.16.1-rdkafka-2.16.0", True),
        ("confluent-kafka-go/2.5.0-librdkafka-2.5.0", True),
        ("apache-kafka-java/4.3.0", False),
        ("moldau/1.0.0", False),
        ("kgo/1.20.0", False),
        ("", False),
    ],
)
def test_only_clients_with_librdkafka_are_paced(software: str, expected: bool) -> None:
    assert needs_pacing(software) is expected
