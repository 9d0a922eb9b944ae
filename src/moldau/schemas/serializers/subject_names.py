"""Subject name strategies: the subject under which the schema of a key or value is registered.

    topic          TOPIC-key or TOPIC-value: all values of a topic have one schema and its later versions (the default)
    record         the full name of the record: a topic may have several types, and topics share them
    topic-record   TOPIC-NAME: a topic may have several types, of its own

The names of Confluent's classes are accepted too, and functions of (topic, is_key, name of the record).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moldau.schemas.errors import SchemaError

SubjectName = Callable[[str, bool, str | None], str]
"""Topic, whether it is a key, and the record's full name (None: it has none, or it is not known) → subject."""


def topic_name(topic: str, is_key: bool, name: str | None) -> str:
    return f"{topic}-{'key' if is_key else 'value'}"


def record_name(topic: str, is_key: bool, name: str | None) -> str:
    return _needed(topic, is_key, name)


def topic_record_name(topic: str, is_key: bool, name: str | None) -> str:
    return f"{topic}-{_needed(topic, is_key, name)}"


def _needed(topic: str, is_key: bool, name: str | None) -> str:
    if name is None:
        part = "key" if is_key else "value"
        raise SchemaError(
            f"the schema of the {part} for topic {topic!r} has no name, which the subject name strategy needs; use the "
            "strategy 'topic', or give the schema a name (JSON Schema: a title)"
        )
    return name


_STRATEGIES: Final[dict[str, SubjectName]] = {
    "topic": topic_name,
    "record": record_name,
    "topic-record": topic_record_name,
}
_JAVA_NAMES: Final = {
    "TopicNameStrategy": "topic",
    "RecordNameStrategy": "record",
    "TopicRecordNameStrategy": "topic-record",
}


def subject_name_strategy(given: str | SubjectName) -> SubjectName:
    """The strategy with this name, or the function itself. Raises ValueError."""
    if callable(given):
        return given
    plain = given.strip()
    name = _JAVA_NAMES.get(plain.rpartition(".")[2], plain.lower().replace("_", "-"))
    found = _STRATEGIES.get(name)
    if found is None:
        raise ValueError(f"subject name strategy {given!r} is not known; give one of {', '.join(_STRATEGIES)}")
    return found
