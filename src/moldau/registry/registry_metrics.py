"""Metrics of a registry's content, for Prometheus. `service/metrics.py` has those of its requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from moldau.registry.stored_registry import StoredRegistry
from moldau.registry.subject_names import context_of

PREFIX: Final = "moldau_registry"


class RegistryMetrics(Collector):
    """A collector for the metrics page of the registry."""

    def __init__(self, registry: StoredRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        store = self._registry.store
        leads = GaugeMetricFamily(f"{PREFIX}_leads", "1 if this registry carries out the writes of its group")
        leads.add_metric([], self._registry.leads)
        subjects = GaugeMetricFamily(f"{PREFIX}_subjects", "Subjects", labels=["context"])
        versions = GaugeMetricFamily(f"{PREFIX}_versions", "Versions of all subjects", labels=["context", "state"])
        largest = GaugeMetricFamily(f"{PREFIX}_max_id", "The largest id that was given", labels=["context"])
        counts: dict[str, list[int]] = {context: [0, 0, 0] for context in store.context_names()}
        for subject in store.subjects():
            count = counts.setdefault(context_of(subject), [0, 0, 0])
            count[0] += 1
            for one in store.versions(subject):
                count[2 if one.deleted else 1] += 1
        for context, (named, live, deleted) in counts.items():
            subjects.add_metric([context], named)
            versions.add_metric([context, "live"], live)
            versions.add_metric([context, "deleted"], deleted)
            largest.add_metric([context], store.max_id(context))
        yield from (leads, subjects, versions, largest)
