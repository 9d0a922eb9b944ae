"""Metrics of the continuous queries that a server runs, for Prometheus. A server that stands by shows none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from moldau.sql.queries import QueryState

if TYPE_CHECKING:
    from moldau.sql.server.query_manager import QueryManager

PREFIX: Final = "moldau_sql_query"


class QueryMetrics(Collector):
    """A collector for the registry of the server."""

    def __init__(self, manager: QueryManager) -> None:
        self._manager = manager

    def collect(self) -> Iterable[Metric]:
        leads = GaugeMetricFamily("moldau_sql_leads", "1 if this server runs the queries of its group")
        leads.add_metric([], self._manager.leading)
        state = GaugeMetricFamily(f"{PREFIX}_state", "1 for the state", labels=["query", "state"])
        rows = CounterMetricFamily(f"{PREFIX}_rows", "Rows that the query has read", labels=["query"])
        rate = GaugeMetricFamily(f"{PREFIX}_rows_per_s", "Rows per second", labels=["query"])
        lag = GaugeMetricFamily(f"{PREFIX}_lag", "Records that the query has not read yet", labels=["query"])
        restarts = CounterMetricFamily(f"{PREFIX}_restarts", "Starts after a failure", labels=["query"])
        dropped = CounterMetricFamily(
            f"{PREFIX}_dropped", "Records that the query did not use", labels=["query", "reason"]
        )
        for status in self._manager.statuses():
            for one in QueryState:
                state.add_metric([status.name, one.value], one is status.state)
            rows.add_metric([status.name], status.rows)
            rate.add_metric([status.name], status.rows_per_s)
            if status.lag is not None:
                lag.add_metric([status.name], status.lag)
            restarts.add_metric([status.name], status.restarts)
            for reason, count in status.dropped.items():
                dropped.add_metric([status.name, reason], count)
        yield from (leads, state, rows, rate, lag, restarts, dropped)
