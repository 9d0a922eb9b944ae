"""Dead letters of sinks: records that could not be processed, with Kafka Connect's context headers.

A task returns its dead letters to the driver, which writes them in one transaction with the note that it has done so
(see `sink_commit.py`): each is in the dead-letter topic exactly once. A task that has more than MAX_BYTES of them
writes the rest itself, and those may be there twice if the batch is repeated.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from moldau.connect.engine.tolerance import BadRow

MAX_BYTES: Final = 16 * 1024 * 1024
"""The largest size of the dead letters that a task returns to the driver."""
_PREFIX: Final = "__connect.errors."


class DeadLetter(NamedTuple):
    """One record for the dead-letter topic, with the offset of the record that it comes from."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def size(self) -> int:
        values = (self.key, self.value, *(value for _, value in self.headers))
        return sum(len(value) for value in values if value is not None)


def dead_letter(bad: BadRow, origin: Any, connector: str, task: int, *, with_headers: bool) -> DeadLetter:
    """The dead letter of a bad row. `origin` is the consumed record: one row with the columns of Spark's source."""
    row = origin.to_pylist()[0]
    headers = [(one["key"], one["value"]) for one in row.get("headers") or ()]
    if with_headers:
        headers += context_headers(bad, row["topic"], row["partition"], row["offset"], connector, task)
    moment = row["timestamp"]
    return DeadLetter(
        row["topic"],
        row["partition"],
        row["offset"],
        row["key"],
        row["value"],
        None if moment is None else max(round(moment.timestamp() * 1000), 0),
        tuple(headers),
    )


def context_headers(
    bad: BadRow, topic: str, partition: int, offset: int, connector: str, task: int
) -> list[tuple[str, bytes | None]]:
    """The headers that Kafka Connect adds with errors.deadletterqueue.context.headers.enable, in its order."""
    texts = {
        "topic": topic,
        "partition": str(partition),
        "offset": str(offset),
        "connector.name": connector,
        "task.id": str(task),
        "stage": bad.stage.value,
        "class.name": bad.class_name,
        "exception.class.name": bad.error_class,
        "exception.message": bad.message,
        "exception.stacktrace": bad.trace,
    }
    return [(_PREFIX + name, text.encode(errors="replace")) for name, text in texts.items()]
