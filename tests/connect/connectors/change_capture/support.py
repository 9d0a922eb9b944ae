"""Consumer of captured changes: stores them as the engine does, and replays them into a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.connect.connector import Connector, RetriableError, SourceOffsets
from moldau.connect.connectors.change_capture.source import ChangeSource
from tests.support.waiting import NotYet, wait_until


def config_of(kind: type[Connector], given: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: str(value) for name, value in given.items()}
    return {**given, **kind.config_def.parse(given)}


class ChangeTopics:
    """Topics and offsets that outlive the connector. Records and their offset are stored together."""

    def __init__(self, kind: type[ChangeSource], settings: Mapping[str, Any]) -> None:
        self._kind = kind
        self.config = config_of(kind, settings)
        self.records: dict[str, list[tuple[Any, Any]]] = {}
        self.offsets = SourceOffsets()
        self.failures: list[str] = []
        self.connector = self._new()

    def _new(self) -> ChangeSource:
        return self._kind(self.config)

    def take_over(self) -> None:
        """Another worker continues; the process of the old one is killed."""
        capture = self.connector._capture
        if capture is not None:
            capture.close(orderly=False)
        self.connector = self._new()

    def poll(self) -> int:
        """One poll; how many records it stored. A failure that may pass is remembered."""
        stored = 0
        try:
            for polled in self.connector.poll(self.offsets):
                for batch in (polled.batch, *polled.more):
                    keys, values = batch.key.array.to_pylist(), batch.value.array.to_pylist()
                    for topic, key, value in zip(batch.topic.to_pylist(), keys, values, strict=True):
                        self.records.setdefault(topic, []).append((key, value))
                        stored += 1
                self.offsets = SourceOffsets(polled.offsets)
        except RetriableError as error:
            self.failures.append(str(error))
        return stored

    def poll_until(self, condition: Any, what: str, timeout_s: float = 90.0) -> None:
        def look() -> bool:
            self.poll()
            if condition():
                return True
            capture = self.connector._capture
            counts = {topic: self.operations(topic) for topic in self.records}
            raise NotYet(f"{counts}, failures {self.failures[-1:]}, log {list(capture._log)[-8:] if capture else None}")

        wait_until(look, what, timeout_s)

    def replayed(self, topic: str, key: str = "id") -> dict[Any, dict[str, Any]]:
        """The table that the topic describes."""
        table: dict[Any, dict[str, Any]] = {}
        for record_key, event in self.records.get(topic, []):
            if event is None:
                assert record_key[key] not in table, "a tombstone follows the delete"
            elif event["op"] == "d":
                table.pop(event["before"][key] if event["before"] else record_key[key], None)
            else:
                table[record_key[key]] = event["after"]
        return table

    def operations(self, topic: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for _, event in self.records.get(topic, []):
            if event is not None:
                found[event["op"]] = found.get(event["op"], 0) + 1
        return found

    def close(self) -> None:
        self.connector.close()
