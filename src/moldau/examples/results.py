"""Results of a study: read from its topics for the live view, and compared with the reference."""

from __future__ import annotations

import json
import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from moldau.examples.place import Place, parsed_record, read_topic
from moldau.examples.study import Content, Study, StudyRecord

MAX_KEYS: Final = 10_000
"""The keys per topic that the view remembers: those that changed last."""
RECENT: Final = 20
SHOWN_DIFFERENCES: Final = 5


class Results:
    """The results so far, for the view. One thread follows the topics, another one reads."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[str, Any]] = {}
        self._recent: dict[str, deque[StudyRecord]] = {}
        self._counts: Counter[str] = Counter()
        self.stored: Mapping[str, Content] = {}
        """The stores that are not topics."""

    def table(self, topic: str) -> dict[str, Any]:
        """The latest value per key."""
        return dict(self._tables.get(topic, {}))

    def recent(self, topic: str) -> list[StudyRecord]:
        """The last records, the newest first."""
        return list(self._recent.get(topic, ()))[::-1]

    def count(self, topic: str) -> int:
        return self._counts[topic]

    def add(self, record: StudyRecord) -> None:
        table = self._tables.setdefault(record.topic, {})
        table.pop(record.key, None)
        if record.value is not None:
            table[record.key] = record.value
        if len(table) > MAX_KEYS:
            del table[next(iter(table))]
        self._recent.setdefault(record.topic, deque(maxlen=RECENT)).append(record)
        self._counts[record.topic] += 1

    def follow(self, study: Study, place: Place, stop: threading.Event) -> None:
        """Read all topics of the study until `stop`."""
        from moldau import Consumer, TopicPartition

        topics = [topic.name for topic in (*study.input_topics, *study.result_topics)]
        with Consumer({**place.client, "isolation.level": "read_committed"}) as consumer:
            partitions = [
                TopicPartition(topic, one.index) for topic in topics for one in consumer.partitions_for(topic)
            ]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            while not stop.is_set():
                for record in consumer.poll(timeout=0.5):
                    self.add(parsed_record(record, study.decode))
                self.stored = study.stored(place)


# -- Comparison --------------------------------------------------------------------------------------------------------


class ContentCheck(NamedTuple):
    """The comparison of one topic or store."""

    name: str
    compared: int
    differences: tuple[str, ...]

    def __str__(self) -> str:
        if not self.differences:
            return f"{self.name}: {self.compared} as computed by reference.py"
        shown = "".join(f"\n  {line}" for line in self.differences[:SHOWN_DIFFERENCES])
        return f"{self.name}: {len(self.differences)} of {self.compared} differ{shown}"


def check(study: Study, place: Place) -> list[ContentCheck]:
    """Compare all results with those that reference.py computes from the same records."""

    def read(topic: str) -> Iterable[StudyRecord]:
        return read_topic(place, topic, study.decode)

    expected = study.expected(read)
    stored = study.stored(place)
    return [
        compare(name, content, stored[name] if name in stored else topic_content(read(name), content))
        for name, content in expected.items()
    ]


def topic_content(records: Iterable[StudyRecord], like: Content) -> Content:
    """The content of a topic, as a table or as a list, like the expected one."""
    if isinstance(like, list):
        return [record.value for record in records]
    table: dict[str, Any] = {}
    for record in records:
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table


def compare(name: str, expected: Content, found: Content) -> ContentCheck:
    if isinstance(expected, dict) and isinstance(found, dict):
        differences = [
            f"{key}: found {found.get(key, 'nothing')}, expected {expected.get(key, 'nothing')}"
            for key in sorted({*expected, *found})
            if expected.get(key) != found.get(key)
        ]
    else:
        wanted, there = (Counter(json.dumps(one, sort_keys=True) for one in side) for side in (expected, found))
        differences = [
            f"found {there[value]} times, expected {wanted[value]} times: {value}"
            for value in sorted({*wanted, *there})
            if wanted[value] != there[value]
        ]
    return ContentCheck(name, len(expected), tuple(differences))
