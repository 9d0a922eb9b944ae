"""Source of files and directories: lines, CSV, JSON lines, Parquet and Avro, with new files picked up.

Source partition: `{"path": path, "begin": position}`; source offset: `{"position": position, "file": identity}`.
Positions are bytes; of Parquet files they are row groups. With several tasks a big file is divided: each part, known by
the position at which it begins, is a source partition of its own, and a part ends where the next one begins. The order
of a file's rows is kept with tasks.max=1.

- Files of lines, CSV, JSON and Avro may grow: their identity is their beginning. With `files.grow=false`, with
  `after.read`, and always for Parquet, a file is complete when it was not written for `files.idle.ms`: its identity is
  size and time, and its last line needs no line end.
- A file that is shorter than what was read, or has another identity, has changed: `on.change` says fail or reread.
- `after.read` keeps, deletes or moves a file when the stored offsets cover all of it. A later file of the same name is
  a new one.

Guarantee: exactly once, for files that are only appended to.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import pyarrow as pa

from moldau.client.errors import MoldauError
from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, Importance, between, not_empty, one_of
from moldau.connect.connector import Offset, Slice, SourceConnector, SourceOffsets
from moldau.connect.connectors.source_files import FileAccessError, FoundFile, SourceFiles, has_id, head_id
from moldau.connect.connectors.source_formats import (
    SAMPLE_BYTES,
    AvroFormat,
    CsvFormat,
    JsonFormat,
    LineFormat,
    ParquetFormat,
    Section,
    SourceFormat,
)
from moldau.connect.record_batch import ConnectBatch, source_batch
from moldau.host.event_log import event_logger

log = event_logger(__name__)

PATH: Final = "path"
BEGIN: Final = "begin"
POSITION: Final = "position"
FILE: Final = "file"
TOTAL: Final = "total"
MAX_SLICES: Final = 32
"""Slices that are planned at once: bounds what one micro-batch reads."""

FORMATS: Final = ("lines", "csv", "json", "parquet", "avro")
_SUFFIXES: Final = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".avro": "avro",
}
_TYPES: Final = {
    "string": pa.string(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("ms", tz="UTC"),
    "bytes": pa.binary(),
}


class SourceChangedError(MoldauError):
    """A file that was read has been replaced, truncated or written again."""


def parse_types(text: str) -> dict[str, pa.DataType]:
    """`id:int64, price:decimal(10, 2)`: ValueError says what is wrong."""
    types = {}
    for part in filter(None, (one.strip() for one in text.split(";"))):
        name, colon, kind = part.rpartition(":")
        if not colon or kind.strip() not in _TYPES:
            raise ValueError(f"{part!r} is not of the form column:type; types are {', '.join(_TYPES)}")
        types[name.strip()] = _TYPES[kind.strip()]
    return types


def _check_types(name: str, value: Any) -> str | None:
    try:
        parse_types(value or "")
    except ValueError as error:
        return f"Invalid value {value} for configuration {name}: {error}"
    return None


def _one_character(name: str, value: Any) -> str | None:
    return None if len(value) == 1 else f"Invalid value {value} for configuration {name}: one character"


@dataclass(frozen=True)
class FilePart:
    """A part of a file: where it begins, what is read of it, and where it ends (None: at the end of the file)."""

    begin: int
    position: int
    end: int | None


@dataclass(frozen=True)
class StoredPart:
    """What the stored offsets say of a part of a file."""

    begin: int
    position: int
    identity: str
    total: int | None


class FileSource(SourceConnector):
    """Rows of files."""

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            ConfigKey(
                "path",
                ConfigType.STRING,
                "A file, a directory, a pattern such as /data/**/*.csv, or an fsspec URL of these.",
                importance=Importance.HIGH,
                validator=not_empty,
            ),
            ConfigKey("topic", ConfigType.STRING, "The topic.", importance=Importance.HIGH, validator=not_empty),
            ConfigKey(
                "format",
                ConfigType.STRING,
                "The format of the files. auto: by the end of each file's name; other names are lines.",
                "auto",
                Importance.HIGH,
                one_of("auto", *FORMATS),
                ("auto", *FORMATS),
            ),
            ConfigKey("storage.options", ConfigType.PASSWORD, "Options of fsspec, as JSON.", None),
            ConfigKey("files.grow", ConfigType.BOOLEAN, "Files may get more lines. Only with after.read=keep.", True),
            ConfigKey("files.idle.ms", ConfigType.LONG, "A complete file was not written for so long.", 1000),
            ConfigKey("on.change", ConfigType.STRING, "A changed file.", "fail", validator=one_of("fail", "reread")),
            ConfigKey(
                "after.read", ConfigType.STRING, "A file read.", "keep", validator=one_of("keep", "delete", "move")
            ),
            ConfigKey("move.to", ConfigType.STRING, "The directory of after.read=move.", None),
            ConfigKey("scan.interval.ms", ConfigType.LONG, "Time between two looks for files.", 1000, Importance.LOW),
            ConfigKey(
                "split.bytes",
                ConfigType.LONG,
                "The size of a slice, and of the parts that tasks read in parallel.",
                16 * 1024 * 1024,
                Importance.LOW,
                between(1),
            ),
            ConfigKey("csv.header", ConfigType.BOOLEAN, "The first line has the names of the columns.", True),
            ConfigKey("csv.delimiter", ConfigType.STRING, "Between two values.", ",", validator=_one_character),
            ConfigKey("csv.quote", ConfigType.STRING, "Around values.", '"', validator=_one_character),
            ConfigKey("csv.columns", ConfigType.LIST, "Names of the columns, instead of the header's.", ()),
            ConfigKey("csv.types", ConfigType.STRING, "Types: code:string; id:int64", "", validator=_check_types),
            ConfigKey(
                "csv.newlines.in.values",
                ConfigType.BOOLEAN,
                "Quoted values may have line ends. Files are not cut.",
                False,
            ),
        ]
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        options = config["storage.options"]
        self.files = SourceFiles(config["path"], json.loads(options) if options else {})
        self.topic: str = config["topic"]
        self.split: int = config["split.bytes"]
        self._listing: tuple[float, list[FoundFile]] | None = None
        self._known: dict[str, tuple[str, str]] = {}
        """By path: the version of the file that was compared with the stored identity, and the identity."""
        self._done: dict[str, tuple[str, bool]] = {}
        """By path: the version of which all complete records are read, and whether that is the whole file."""

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        problems: dict[str, list[str]] = {}
        if config["after.read"] == "move" and not config["move.to"]:
            problems["move.to"] = ["Name the directory for files that were read"]
        if config["csv.newlines.in.values"] and config["files.grow"] and config["after.read"] == "keep":
            problems["csv.newlines.in.values"] = [
                "Set files.grow=false: a file with line ends in values is read as a whole"
            ]
        try:
            options = json.loads(config["storage.options"] or "{}")
            if not isinstance(options, dict):
                raise ValueError("no object")
        except ValueError:
            problems["storage.options"] = ["It must be a JSON object"]
            return problems
        files = SourceFiles(config["path"], options)
        if files.remote:
            try:
                files._system()
            except FileAccessError as error:
                problems["path"] = [str(error)]
        return problems

    @classmethod
    def check_offsets(
        cls, config: Mapping[str, Any], offsets: Sequence[tuple[Offset | None, Offset | None]]
    ) -> str | None:
        for partition, offset in offsets:
            if partition is None or PATH not in partition or not isinstance(partition.get(BEGIN), int):
                return f"a source partition has a file in '{PATH}' and a position in '{BEGIN}'"
            if offset is not None and not (isinstance(offset.get(POSITION), int) and isinstance(offset.get(FILE), str)):
                return f"an offset has a position in '{POSITION}', and the identity of the file, as stored, in '{FILE}'"
        return None

    # -- driver --------------------------------------------------------------------------------------------------------

    def slices(self, offsets: SourceOffsets) -> list[Slice]:
        now = time.monotonic()
        if self._listing is None or (now - self._listing[0]) * 1000 >= self.config["scan.interval.ms"]:
            self._listing = (now, self.files.listed())
        stored = stored_by_path(offsets)
        found: list[Slice] = []
        for file in self._listing[1]:
            if len(found) >= MAX_SLICES:
                break
            try:
                found += self._file_slices(file, stored.get(file.path, []))
            except FileNotFoundError:
                self._listing = None
                break
        return found[:MAX_SLICES]

    def _file_slices(self, file: FoundFile, stored: list[StoredPart]) -> list[Slice]:
        form = self._format(file.path)
        idle_ms = (time.time() - file.modified_s) * 1000
        if not form.grows and idle_ms < self.config["files.idle.ms"]:
            return []
        version, complete = self._done.get(file.path, ("", False))
        if version == file.version and stored:
            if complete:
                self._finish(file)
            return []
        bounds = form.bounds(self.files, file)
        if bounds is None:
            return []
        first, total = bounds
        identity, positions = self._compared(file, form, total, stored)
        parts = plan_parts(first, positions)
        planned = list(self._planned(file, form, identity, parts, total))
        if not planned and positions:
            self._done[file.path] = (file.version, covered(parts, total))
        return planned

    def _compared(
        self, file: FoundFile, form: SourceFormat, total: int, stored: list[StoredPart]
    ) -> tuple[str, dict[int, int]]:
        """The identity of the file, and by begin the positions that are stored for it."""
        version, identity = self._known.get(file.path, ("", ""))
        if version != file.version:
            same = (one.identity for one in stored if self._is_same(file, form, one.identity))
            identity = next(same, "") or self._identity(file, form)
            self._known[file.path] = (file.version, identity)
        positions = {one.begin: one.position for one in stored if one.identity == identity}
        shorter = any(position > total for position in positions.values())
        if not shorter and (positions or not stored):
            return identity, positions
        if not (self._replaces_read_file(stored) or self.config["on.change"] == "reread"):
            raise SourceChangedError(
                f"{file.path} has changed since it was read: set on.change=reread to read it from its beginning, or "
                "reset the connector's offsets"
            )
        identity = self._identity(file, form)
        self._known[file.path] = (file.version, identity)
        return identity, {}

    def _replaces_read_file(self, stored: list[StoredPart]) -> bool:
        """Whether a file has the name of one that was read to its end, and then deleted or moved by this connector."""
        if self.config["after.read"] == "keep":
            return False
        total = stored[0].total
        positions = {one.begin: one.position for one in stored if one.identity == stored[0].identity}
        return total is not None and covered(plan_parts(0, positions), total)

    def _is_same(self, file: FoundFile, form: SourceFormat, identity: str) -> bool:
        return has_id(self.files, file, identity) if form.grows else identity == self._identity(file, form)

    def _identity(self, file: FoundFile, form: SourceFormat) -> str:
        return head_id(self.files, file) if form.grows else f"{file.size}:{file.version}"

    def _planned(
        self, file: FoundFile, form: SourceFormat, identity: str, parts: list[FilePart], total: int
    ) -> Iterator[Slice]:
        """Slices of all parts. The last part is divided if there are tasks that have nothing to do."""
        step = self.split if form.in_bytes else max(1, total * self.split // max(1, file.size))
        sample = min(SAMPLE_BYTES, file.size)
        busy = [part for part in parts[:-1] if part.end is not None and part.position < part.end]
        ranges = [*busy, *self._divided(file, form, parts[-1], total, step, self.max_tasks - len(busy))]
        for part in ranges:
            position, limit = part.position, total if part.end is None else part.end
            for _ in range(max(1, MAX_SLICES // len(ranges))):
                end = min(form.cut(self.files, file, position, min(position + step, limit)), limit)
                if end <= position:
                    break
                to = {POSITION: end, FILE: identity, **({} if form.grows else {TOTAL: total})}
                section = Section(file.path, position, end, sample)
                yield Slice({PATH: file.path, BEGIN: part.begin}, to, {POSITION: position, FILE: identity}, section)
                position = end

    def _divided(
        self, file: FoundFile, form: SourceFormat, last: FilePart, total: int, step: int, tasks: int
    ) -> list[FilePart]:
        """The last part of a file as parts for so many tasks, none of them shorter than a slice."""
        pieces = max(1, min(tasks, (total - last.position) // step))
        found, begin, position = [], last.begin, last.position
        for left in range(pieces, 1, -1):
            end = form.cut(self.files, file, position, position + (total - position) // left)
            if not position < end < total:
                break
            found.append(FilePart(begin, position, end))
            begin = position = end
        return [*found, FilePart(begin, position, None)]

    def _finish(self, file: FoundFile) -> None:
        """Delete or move a file that is read completely, according to the stored offsets."""
        action = self.config["after.read"]
        if action == "keep":
            return
        log.info("file read", extra={"connector": self.name, "file": file.path, "action": action})
        if action == "delete":
            self.files.delete(file.path)
        else:
            self.files.move(file.path, self.config["move.to"])
        self._known.pop(file.path, None)
        self._done.pop(file.path, None)
        self._listing = None

    def _format(self, path: str) -> SourceFormat:
        name = self.config["format"]
        if name == "auto":
            name = next((one for end, one in _SUFFIXES.items() if path.endswith(end)), "lines")
        if name == "parquet":
            return ParquetFormat()
        grows = self.config["files.grow"] and self.config["after.read"] == "keep"
        if name == "avro":
            return AvroFormat(grows)
        if name == "json":
            return JsonFormat(grows)
        return self._csv(grows) if name == "csv" else LineFormat(grows)

    def _csv(self, grows: bool) -> CsvFormat:
        config = self.config
        return CsvFormat(
            grows,
            header=config["csv.header"],
            delimiter=config["csv.delimiter"],
            quote=config["csv.quote"],
            columns=tuple(config["csv.columns"]),
            types=parse_types(config["csv.types"]),
            newlines_in_values=config["csv.newlines.in.values"],
        )

    # -- task ----------------------------------------------------------------------------------------------------------

    def read(self, part: Slice) -> Iterator[ConnectBatch]:
        section: Section = part.detail
        for value in self._format(section.path).read(self.files, section):
            if len(value):
                yield source_batch(self.topic, value)


def stored_by_path(offsets: SourceOffsets) -> dict[str, list[StoredPart]]:
    stored: dict[str, list[StoredPart]] = {}
    for partition, offset in offsets:
        if PATH in partition:
            total = offset.get(TOTAL)
            one = StoredPart(int(partition[BEGIN]), int(offset[POSITION]), str(offset[FILE]), total)
            stored.setdefault(str(partition[PATH]), []).append(one)
    return stored


def covered(parts: list[FilePart], total: int) -> bool:
    """Whether everything is read."""
    return all(part.position >= (total if part.end is None else part.end) for part in parts)


def plan_parts(first: int, positions: Mapping[int, int]) -> list[FilePart]:
    """The parts of a file according to the stored positions, by the position at which each begins."""
    known = {0: first, **positions}  # The first part may not have got anywhere when later ones had.
    parts = [FilePart(begin, max(first, known[begin]), None) for begin in sorted(known)]
    ended = [replace(one, end=later.begin) for one, later in itertools.pairwise(parts)]
    return [*ended, parts[-1]]
