"""Latencies and rates of `moldau perf`: percentiles, reporting windows and totals."""

from __future__ import annotations

import pytest

from moldau.cli.latencies import MAX_US, Latencies, Rate, Reporter


def test_percentiles_have_three_digits() -> None:
    latencies = Latencies()
    for milliseconds in range(1, 1001):
        latencies.add(milliseconds / 1000)
    assert latencies.count == 1000
    assert latencies.mean_ms == pytest.approx(500.5, rel=0.001)
    assert latencies.max_ms == 1000
    for percentile, milliseconds in ((50, 500), (95, 950), (99, 990), (99.9, 999)):
        assert latencies.percentile_ms(percentile) == pytest.approx(milliseconds, rel=0.002)


def test_latencies_outside_the_measurable_range_are_counted() -> None:
    latencies = Latencies()
    latencies.add(0.0)
    latencies.add(10 * MAX_US / 1_000_000)
    assert latencies.count == 2
    assert latencies.max_ms == MAX_US / 1000


def test_empty_measurements_are_shown_as_zero() -> None:
    assert "0.00 ms avg latency" in str(Latencies())
    assert Rate(5.0).as_json(5.0)["records_per_second"] == 0


def test_a_window_shows_its_own_rate_and_the_total_the_rate_of_the_whole_run() -> None:
    reporter = Reporter("sent", 100.0, 1.0)
    reporter.add(10, 10 * 1024 * 1024)
    assert reporter.due(100.5) is None
    assert reporter.due(102.0) == "10 records sent, 5.0 records/sec (5.00 MB/sec)"
    reporter.add(30, 0)
    assert reporter.due(103.0) == "30 records sent, 30.0 records/sec (0.00 MB/sec)"
    assert reporter.total.text("sent", 104.0) == "40 records sent, 10.0 records/sec (2.50 MB/sec)"
