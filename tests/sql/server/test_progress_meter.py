"""Progress of a continuous query, from reports that are read again and again."""

from __future__ import annotations

from moldau.sql.queries import QueryState, QueryStatus
from moldau.sql.server.progress_meter import RATE_OVER_S, BatchFacts, QueryMeter


def test_each_report_counts_once() -> None:
    meter = QueryMeter()
    one, two = BatchFacts("2026-01-01T00:00:01Z", 5, 3, {"bad_records": 1}), BatchFacts("2026-01-01T00:00:02Z", 7, 0)
    assert meter.add([one], 1.0) == 5
    assert meter.add([two, one], 2.0) == 7
    assert meter.add([one, two], 3.0) == 0
    assert (meter.rows, meter.lag, meter.dropped) == (12, 0, {"bad_records": 1})


def test_a_report_without_lag_keeps_the_last_one() -> None:
    meter = QueryMeter()
    meter.add([BatchFacts("1", 0, 9), BatchFacts("2", 0, None)], 1.0)
    assert meter.lag == 9


def test_the_rate_is_that_of_the_last_seconds() -> None:
    meter = QueryMeter()
    meter.add([BatchFacts("1", 100)], 0.0)
    meter.add([BatchFacts("2", 50)], 5.0)
    assert meter.rate(5.0) == 150 / RATE_OVER_S
    assert meter.rate(RATE_OVER_S + 1) == 50 / RATE_OVER_S
    assert meter.rate(1_000.0) == 0.0


def test_counts_go_on_after_a_restart_and_on_another_server() -> None:
    last = QueryStatus("q", "1", QueryState.RUNNING, "http://a", rows=10, dropped={"late_records": 2})
    meter = QueryMeter(last)
    meter.add([BatchFacts("5", 1, 0, {"late_records": 1})], 0.0)
    meter.restarted()
    meter.add([BatchFacts("4", 1)], 1.0)
    assert (meter.rows, meter.dropped) == (12, {"late_records": 3})
    assert last.dropped == {"late_records": 2}
