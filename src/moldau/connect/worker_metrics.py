"""Metrics of a Connect worker: what its connectors have done, for Prometheus.

The values are read from the engine when the page is asked for. Connectors that another worker has taken over are not
shown: their worker shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from moldau.connect.engine import ConnectorEngine, ConnectorState, StatusReport

PREFIX: Final = "moldau_connect"
COUNTERS: Final = {
    "records": "Records written to topics (sources) or given to the target (sinks)",
    "bytes": "Keys and values of these records",
    "batches": "Micro-batches that were committed",
    "skipped": "Records that were skipped as errors",
    "dead_letters": "Records that were written to the dead-letter topic",
    "retries": "Attempts after an error that may go away",
    "failures": "Failed attempts",
}
GAUGES: Final = {
    "records_per_s": "Records per second, over about the last ten seconds",
    "bytes_per_s": "Bytes per second, over about the last ten seconds",
    "lag": "Records that a sink has not written yet",
    "last_batch_ms": "Time of the last micro-batch",
}


class ConnectorMetrics(Collector):
    """A collector for the registry of the worker."""

    def __init__(self) -> None:
        self._engine: ConnectorEngine | None = None
        self._names: set[str] = set()

    def watch(self, engine: ConnectorEngine) -> None:
        """Show the connectors of this engine."""
        self._engine = engine

    def note(self, report: StatusReport) -> None:
        """Take a report of the engine: from then on its connector is shown."""
        self._names.add(report.name)

    def collect(self) -> Iterable[Metric]:
        reports = self._reports()
        state = GaugeMetricFamily(f"{PREFIX}_connector_state", "1 for the state", labels=["connector", "state"])
        tasks = GaugeMetricFamily(f"{PREFIX}_connector_tasks", "Tasks that may run in parallel", labels=["connector"])
        for report in reports:
            tasks.add_metric([report.name], report.tasks)
            for one in ConnectorState:
                state.add_metric([report.name, one.value], one is report.state)
        yield from (state, tasks)
        for name, text in COUNTERS.items():
            counter = CounterMetricFamily(f"{PREFIX}_connector_{name}", text, labels=["connector"])
            yield _filled(counter, reports, name)
        for name, text in GAUGES.items():
            yield _filled(GaugeMetricFamily(f"{PREFIX}_connector_{name}", text, labels=["connector"]), reports, name)

    def describe(self) -> Iterable[Metric]:
        return ()  # collect is not called when it is registered

    def _reports(self) -> list[StatusReport]:
        find: Callable[[str], StatusReport | None] = (lambda name: None) if self._engine is None else self._engine.state
        found = [(name, find(name)) for name in sorted(self._names)]
        self._names -= {name for name, report in found if report is None}
        return [report for _, report in found if report is not None]


def _filled(
    family: CounterMetricFamily | GaugeMetricFamily, reports: Iterable[StatusReport], name: str
) -> CounterMetricFamily | GaugeMetricFamily:
    for report in reports:
        value = getattr(report.progress, name)
        if value is not None:
            family.add_metric([report.name], value)
    return family
