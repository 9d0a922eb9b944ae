"""Graph of a pipeline: topics, datasets and sinks, and the flows between them.

Plain values, without Spark: they are stored as JSON in the project's state, and drawn by `picture`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.pipelines.errors import SourceLine

TOPIC: Final = "topic"
TABLE: Final = "streaming table"
MATERIALIZED_VIEW: Final = "materialized view"
VIEW: Final = "view"
SINK: Final = "sink"
EXTERNAL: Final = "external table"

TOPIC_PREFIX: Final = "topic:"
"""The id of a topic: a dataset may have the same name."""


@dataclass(frozen=True)
class GraphNode:
    id: str
    kind: str
    label: str
    where: SourceLine | None = None


@dataclass(frozen=True)
class DataFlow:
    """A query that reads `inputs` (ids of nodes) and writes to the dataset `target`."""

    name: str
    target: str
    inputs: tuple[str, ...]
    where: SourceLine | None = None


@dataclass(frozen=True)
class PipelineGraph:
    nodes: Mapping[str, GraphNode] = field(default_factory=dict)
    flows: tuple[DataFlow, ...] = ()
    written_topics: Mapping[str, str] = field(default_factory=dict)
    """The topic of each sink that writes to one."""

    @property
    def datasets(self) -> list[GraphNode]:
        return [node for node in self.nodes.values() if node.kind not in (TOPIC, EXTERNAL)]

    @property
    def source_topics(self) -> list[str]:
        return sorted({one.removeprefix(TOPIC_PREFIX) for flow in self.flows for one in flow.inputs if is_topic(one)})

    @property
    def edges(self) -> list[tuple[str, str]]:
        found = [(one, flow.target) for flow in self.flows for one in flow.inputs]
        found += [(sink, topic_id(topic)) for sink, topic in self.written_topics.items()]
        return list(dict.fromkeys(found))

    def flow(self, name: str) -> DataFlow | None:
        """The flow with the name that Spark reports, which may be qualified: spark_catalog.default.orders."""
        wanted = plain_name(name)
        return next((flow for flow in self.flows if flow.name.lower() == wanted.lower()), None)

    def readers(self, topic: str) -> list[DataFlow]:
        return [flow for flow in self.flows if topic_id(topic) in flow.inputs]

    def to_json(self) -> dict[str, Any]:
        return {
            "nodes": [{"id": one.id, "kind": one.kind, "label": one.label} for one in self.nodes.values()],
            "edges": [list(edge) for edge in self.edges],
        }


def graph_of(nodes: Iterable[GraphNode], flows: Iterable[DataFlow], written: Mapping[str, str]) -> PipelineGraph:
    """The graph of these datasets. Topics and tables that only flows mention become nodes, too."""
    found = {node.id: node for node in nodes}
    by_name = {name.lower(): name for name in found}

    def known(name: str) -> str:
        return name if is_topic(name) else by_name.get(plain_name(name).lower(), plain_name(name))

    resolved = tuple(
        DataFlow(flow.name, known(flow.target), tuple(dict.fromkeys(map(known, flow.inputs))), flow.where)
        for flow in flows
    )
    for name in [one for flow in resolved for one in flow.inputs] + [topic_id(topic) for topic in written.values()]:
        kind = TOPIC if is_topic(name) else EXTERNAL
        found.setdefault(name, GraphNode(name, kind, name.removeprefix(TOPIC_PREFIX)))
    return PipelineGraph(found, resolved, dict(written))


def is_topic(node_id: str) -> bool:
    return node_id.startswith(TOPIC_PREFIX)


def topic_id(topic: str) -> str:
    return TOPIC_PREFIX + topic


def plain_name(name: str) -> str:
    """The last part of a qualified name, without quotes."""
    return name.replace("`", "").rpartition(".")[2]
