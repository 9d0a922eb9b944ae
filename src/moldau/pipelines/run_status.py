"""Status of a run: for each dataset its state, rows, rate, lag and last error; for each edge its rows and rate.

Rates are rows per second over the last update that was complete, the pause before it included. Lag is the number of
records of the source topics that came after what the last update read. Rows are those of this run, except for
materialized views, which are computed again in each update: their rows are those that they have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from moldau.pipelines.flow_events import DONE, FAILED, RUNNING, SKIPPED, WAITING, FlowEvent
from moldau.pipelines.graph import MATERIALIZED_VIEW, PipelineGraph, plain_name, topic_id
from moldau.pipelines.plain_words import reason_of

STARTING: Final = "starting"
IDLE: Final = "waiting for records"
STOPPING: Final = "stopping"
STOPPED: Final = "stopped"
COMPLETE: Final = "complete"
LOST: Final = "not running: it ended without a clean stop"

_FILE_SOURCE: Final = "FileStreamSource["


@dataclass
class DatasetStatus:
    name: str
    kind: str
    state: str = WAITING
    rows: int = 0
    rate: float = 0.0
    lag: int | None = None
    error: str | None = None


@dataclass
class EdgeStatus:
    rows: int = 0
    rate: float = 0.0
    in_update: int = 0


@dataclass
class RunStatus:
    """The state of a run. The runner changes it; a copy as JSON is in the project's state."""

    pipeline: str
    mode: str
    pid: int
    started_ms: int
    state: str = STARTING
    updates: int = 0
    changed_ms: int = 0
    error: str | None = None
    datasets: dict[str, DatasetStatus] = field(default_factory=dict)
    edges: dict[tuple[str, str], EdgeStatus] = field(default_factory=dict)
    graph: PipelineGraph = field(default_factory=PipelineGraph)
    positions: dict[str, dict[str, int]] = field(default_factory=dict)
    """The next offset of each partition of each source topic; the smallest if several flows read it."""

    def use_graph(self, graph: PipelineGraph) -> None:
        self.graph = graph
        self.datasets = {one.id: DatasetStatus(one.id, one.kind) for one in graph.datasets}
        self.edges = {edge: EdgeStatus() for edge in graph.edges}

    def begin_update(self) -> None:
        self.state = RUNNING
        for edge in self.edges.values():
            edge.in_update = 0
        for dataset in self.datasets.values():
            if dataset.state in (FAILED, SKIPPED):
                dataset.state = WAITING

    def take_event(self, event: FlowEvent) -> None:
        flow = self.graph.flow(event.flow)
        dataset = self.datasets.get(flow.target if flow is not None else plain_name(event.flow))
        if dataset is None:
            return
        if event.state == DONE and dataset.state == FAILED:
            return  # Spark reports the end of a failed query as complete, before or after its failure
        dataset.state = event.state
        if event.state == DONE:
            dataset.error = None  # Spark has tried the flow again
        if event.state == FAILED:
            dataset.error = reason_of(event.error or "")

    def take_progress(self, progress: Mapping[str, Any]) -> None:
        """Count a micro-batch: `progress` is the JSON of Spark's StreamingQueryProgress."""
        flow = self.graph.flow(str(progress.get("name") or ""))
        if flow is None:
            return
        written = int((progress.get("sink") or {}).get("numOutputRows") or -1)
        read = int(progress.get("numInputRows") or 0)
        dataset = self.datasets[flow.target]
        dataset.rows += written if written >= 0 else read
        topic = self.graph.written_topics.get(flow.target)
        if topic is not None:
            self._count((flow.target, topic_id(topic)), max(written, 0))
        for source in progress.get("sources") or ():
            self._take_source(flow.target, source, flow.inputs)

    def _take_source(self, target: str, source: Mapping[str, Any], inputs: tuple[str, ...]) -> None:
        rows = int(source.get("numInputRows") or 0)
        description = str(source.get("description") or "")
        if description.startswith(_FILE_SOURCE):
            self._count((PurePosixPath(description.removeprefix(_FILE_SOURCE).rstrip("]")).name, target), rows)
            return
        ends, begins = (_offsets(source.get(name)) for name in ("endOffset", "startOffset"))
        for topic, partitions in ends.items():
            self.positions[topic] = dict(partitions)
            before = begins.get(topic)
            known = rows if len(ends) == 1 or before is None else sum(partitions.values()) - sum(before.values())
            self._count((topic_id(topic), target), known)
        if not ends and len(inputs) == 1:
            self._count((inputs[0], target), rows)

    def _count(self, edge: tuple[str, str], rows: int) -> None:
        found = self.edges.get(edge)
        if found is not None:
            found.rows += rows
            found.in_update += rows

    def end_update(self, seconds: float) -> None:
        """Compute the rates of an update that took so long."""
        self.updates += 1
        self.state = IDLE
        for edge in self.edges.values():
            edge.rate = edge.in_update / seconds if seconds > 0 else 0.0
        for name, dataset in self.datasets.items():
            if dataset.kind != MATERIALIZED_VIEW:
                dataset.rate = sum(edge.rate for (_, target), edge in self.edges.items() if target == name)
            if dataset.state != FAILED:
                dataset.state, dataset.error = DONE, None

    def rows_in_update(self) -> int:
        return sum(edge.in_update for edge in self.edges.values())

    def set_lags(self, ends: Mapping[str, Mapping[str, int]], read: Mapping[str, Mapping[str, int]]) -> None:
        """Compute lags from the ends of the source topics now, and from those before the last update, which has read
        everything up to there."""
        for flow in self.graph.flows:
            topics = [one.removeprefix("topic:") for one in flow.inputs if one.removeprefix("topic:") in ends]
            if topics:
                self.datasets[flow.target].lag = sum(
                    max(end - max(self.positions.get(topic, {}).get(one, 0), read.get(topic, {}).get(one, 0)), 0)
                    for topic in topics
                    for one, end in ends[topic].items()
                )

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "mode": self.mode,
            "pid": self.pid,
            "state": self.state,
            "updates": self.updates,
            "started_ms": self.started_ms,
            "changed_ms": self.changed_ms,
            "error": self.error,
            "datasets": [asdict(one) for one in self.datasets.values()],
            "graph": self.graph.to_json(),
            "edges": [
                {"from": source, "to": target, "rows": one.rows, "rate": one.rate}
                for (source, target), one in self.edges.items()
            ],
        }


def _offsets(value: Any) -> dict[str, dict[str, int]]:
    """The offsets per topic and partition in an offset of our source, as JSON or parsed; empty for other sources."""
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return {}
    if not isinstance(parsed, Mapping):
        return {}
    return {
        topic: {str(one): int(offset) for one, offset in partitions.items()}
        for topic, partitions in parsed.items()
        if not topic.startswith("@") and isinstance(partitions, Mapping)
    }
