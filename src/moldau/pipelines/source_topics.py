"""Source topics of a pipeline: whether they exist, and where they end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from moldau.pipelines.errors import PipelineError
from moldau.pipelines.graph import PipelineGraph
from moldau.pipelines.topics import client_settings

LOOK_TIMEOUT_S: Final = 30.0

Ends = dict[str, dict[str, int]]
"""The end offset of each partition, by topic and partition."""

_PLAIN: Final = re.compile(r"[\w.-]+")


class SourceTopics:
    def __init__(self) -> None:
        from moldau import Consumer

        settings: Mapping[str, Any] = client_settings("consumer")
        self._servers = settings["bootstrap.servers"]
        self._consumer = Consumer(settings)

    def close(self) -> None:
        self._consumer.close()

    def missing(self, wanted: Sequence[str]) -> list[str]:
        """The topics that do not exist. Patterns (subscribePattern) are not looked up: they may match later."""
        existing = self._consumer.list_topics(timeout=LOOK_TIMEOUT_S)
        return [topic for topic in wanted if _PLAIN.fullmatch(topic) and topic not in existing]

    def require(self, graph: PipelineGraph) -> None:
        """Raise an error that names the dataset and its line, if a source topic does not exist."""
        for topic in self.missing(graph.source_topics):
            reader = graph.readers(topic)[0]
            raise PipelineError(
                f"topic {topic} does not exist at {self._servers}; create it with moldau topics create {topic}",
                dataset=reader.target,
                where=reader.where,
            )

    def ends(self, wanted: Sequence[str]) -> Ends:
        """Where the topics end now. A pattern stands for the topics that match it."""
        existing = self._consumer.list_topics(timeout=LOOK_TIMEOUT_S)
        names = {name for one in wanted for name in existing if name == one or _matches(one, name)}
        partitions = [(name, one.index) for name in sorted(names) for one in existing[name]]
        found: Ends = {name: {} for name in names}
        if partitions:
            for partition, offset in self._consumer.end_offsets(*partitions, timeout=LOOK_TIMEOUT_S).items():
                found[partition.topic][str(partition.partition)] = offset
        return found


def _matches(pattern: str, name: str) -> bool:
    try:
        return not _PLAIN.fullmatch(pattern) and re.fullmatch(pattern, name) is not None
    except re.error:
        return False
