"""Lines of one growing file: Kafka's FileStreamSource, with its offsets.

Source partition: `{"filename": path}`; source offset: `{"position": bytes}` after the last line that was read. Kafka
Connect continues from our offsets, and this connector from Kafka Connect's. (Kafka's connector counts UTF-16 units
where it means bytes; the two agree in ASCII files. Here a position is always in bytes.)

- The file may not exist yet. It may grow. The last line is read when its line end is there.
- A file that is shorter than the stored position is not read until it is longer, as in Kafka after a restart: a file
  that was truncated or replaced needs a reset of the offsets. A file that is renamed is not followed.
- Not done: standard input (a worker has none); `batch.size` is accepted and has no effect, slices are bounded in bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from moldau.client.errors import MoldauError
from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, Importance, not_empty
from moldau.connect.connector import Offset, Slice, SourceConnector, SourceOffsets
from moldau.connect.connectors.text_lines import line_array, line_boundary
from moldau.connect.record_batch import ConnectBatch, ValueColumn, source_batch
from moldau.connect.schemas import Schema, SchemaType

FILENAME: Final = "filename"
POSITION: Final = "position"
SLICE_BYTES: Final = 8 * 1024 * 1024
MAX_SLICES: Final = 16
"""Slices that are planned at once: bounds what one micro-batch reads."""

TEXT: Final = Schema(SchemaType.STRING)


class FileChangedError(MoldauError):
    """A file that no longer has the bytes that were planned to be read."""


class FileStreamSource(SourceConnector):
    """Lines of one file, in order, by one task."""

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            ConfigKey("file", ConfigType.STRING, "The file to read.", None, Importance.HIGH),
            ConfigKey(
                "topic", ConfigType.STRING, "The topic to write to.", importance=Importance.HIGH, validator=not_empty
            ),
            ConfigKey(
                "batch.size", ConfigType.INT, "Without effect: slices are bounded in bytes.", 2000, Importance.LOW
            ),
        ]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.path: str = config["file"]
        self.topic: str = config["topic"]
        self._incomplete: tuple[int, int] | None = None
        """Position and size of the file when the line there had no end: no need to search again before it grows."""

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        if not config["file"]:
            return {"file": ["Name a file: the standard input of a worker cannot be read"]}
        return {}

    @classmethod
    def check_offsets(
        cls, config: Mapping[str, Any], offsets: Sequence[tuple[Offset | None, Offset | None]]
    ) -> str | None:
        """The checks of Kafka's connector, in their order."""
        for partition, offset in offsets:
            if offset is None:
                continue  # an offset of any form can be removed
            position = offset.get(POSITION)
            if POSITION not in offset:
                return f"Offset objects should either be null or contain the key '{POSITION}'"
            if isinstance(position, bool) or not isinstance(position, int):
                return f"The value for the '{POSITION}' key in the offset is expected to be a Long value"
            if position < 0:
                return f"The value for the '{POSITION}' key in the offset should be a non-negative value"
            if partition is None:
                return "Partition objects cannot be null"
            if FILENAME not in partition:
                return f"Partition objects should contain the key '{FILENAME}'"
        return None

    def slices(self, offsets: SourceOffsets) -> list[Slice]:
        partition = {FILENAME: self.path}
        position = stored_position(offsets[partition])
        try:
            file = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return []
        try:
            size = os.fstat(file).st_size
            if size <= position or self._incomplete == (position, size):
                return []
            found = []
            for begin, end in self._ranges(file, position, size):
                found.append(Slice(partition, {POSITION: end}, {POSITION: begin}))
            self._incomplete = None if found else (position, size)
            return found
        finally:
            os.close(file)

    def _ranges(self, file: int, position: int, size: int) -> Iterator[tuple[int, int]]:
        """Byte ranges of complete lines."""
        for _ in range(MAX_SLICES):
            end = line_boundary(lambda at, length: os.pread(file, length, at), position, position + SLICE_BYTES, size)
            if end == position:
                return
            yield position, end
            position = end

    def read(self, part: Slice) -> Iterator[ConnectBatch]:
        assert part.start is not None
        start, end = int(part.start[POSITION]), int(part.end[POSITION])
        with open(self.path, "rb") as file:
            file.seek(start)
            data = file.read(end - start)
        if len(data) < end - start:
            raise FileChangedError(
                f"{self.path} had bytes {start} to {end} and now ends at {start + len(data)}: it was truncated or "
                "replaced; reset the connector's offsets to read it from the beginning"
            )
        yield source_batch(self.topic, ValueColumn(line_array(data), TEXT))


def stored_position(offset: Offset | None) -> int:
    """The position of a stored offset, checked as Kafka's connector does."""
    position = None if offset is None else offset.get(POSITION)
    if position is None:
        return 0
    if isinstance(position, bool) or not isinstance(position, int) or position < 0:
        raise MoldauError(
            f"the stored offset {dict(offset or {})} is wrong: position must be a number of bytes, at least 0"
        )
    return position
