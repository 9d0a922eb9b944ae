"""Contents of a partition's files, printed as text (one line per entry, with Kafka's field names) or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from moldau.cli.serve import EXIT_ERROR, EXIT_OK, fail
from moldau.host.fs import FileSystem, LocalFileSystem
from moldau.log import file_names
from moldau.log.aborted import decode_aborted
from moldau.log.epochs import LeaderEpochs
from moldau.log.errors import LogError
from moldau.log.index import SegmentIndex
from moldau.log.producer_state import ProducerStates
from moldau.log.scan import batches
from moldau.records import BatchError, Codec, ControlType, decode_batch, parse_marker

Entry = dict[str, Any]

SUFFIXES = (file_names.LOG, file_names.INDEX, file_names.TIME_INDEX, file_names.TXN_INDEX, file_names.SNAPSHOT)


def dump_files(paths: Iterable[Path], *, records: bool, as_json: bool) -> int:
    """Print each file. Return exit code 1 if one is damaged or unreadable, after the others were printed."""
    fs = LocalFileSystem()
    code = EXIT_OK
    for path in _expanded(paths):
        if not as_json:
            print(f"# {path}")
        try:
            for entry in entries_of(fs, path, records=records):
                print(_json(path, entry) if as_json else _line(entry))
        except (LogError, BatchError, ValueError) as error:
            sys.stdout.flush()
            code = fail(f"{path}: {error}")
        except OSError as error:
            sys.stdout.flush()
            code = fail(f"{path}: {error.strerror}")
    return EXIT_ERROR if code else EXIT_OK


def _expanded(paths: Iterable[Path]) -> Iterator[Path]:
    """Replace a directory by its readable files, in order."""
    for path in paths:
        if path.is_dir():
            yield from sorted(
                file for file in path.iterdir() if file.name == file_names.EPOCHS or file.suffix in SUFFIXES
            )
        else:
            yield path


def entries_of(fs: FileSystem, path: Path, *, records: bool) -> Iterator[Entry]:
    kind = file_names.EPOCHS if path.name == file_names.EPOCHS else path.suffix
    if kind == file_names.LOG:
        return _batches(fs, path, records)
    readers = {
        file_names.INDEX: _offset_index,
        file_names.TIME_INDEX: _time_index,
        file_names.TXN_INDEX: _aborted,
        file_names.SNAPSHOT: _producers,
        file_names.EPOCHS: _epochs,
    }
    if kind not in readers:
        raise ValueError(f"not a file of a partition; known files: {', '.join(SUFFIXES)} and {file_names.EPOCHS}")
    return readers[kind](path, fs.read_bytes(str(path)))


def _batches(fs: FileSystem, path: Path, records: bool) -> Iterator[Entry]:
    file = fs.open(str(path))
    try:
        for batch in batches(file, 0, file.size):
            header = batch.header
            yield {
                "baseOffset": header.base_offset,
                "lastOffset": header.last_offset,
                "count": header.count,
                "baseSequence": header.base_sequence,
                "producerId": header.producer_id,
                "producerEpoch": header.producer_epoch,
                "partitionLeaderEpoch": header.leader_epoch,
                "isTransactional": header.is_transactional,
                "isControl": header.is_control,
                "position": batch.position,
                "timestampType": header.timestamp_type.name,
                "maxTimestamp": header.max_timestamp,
                "size": header.size,
                "magic": header.magic,
                "codec": Codec(header.codec_id).name.lower(),
                "crc": header.crc,
            }
            if records:
                yield from _records(batch.data, header.is_control)
    finally:
        file.close()


def _records(data: memoryview, control: bool) -> Iterator[Entry]:
    for record in decode_batch(data):
        entry: Entry = {"record": record.offset, "timestamp": record.timestamp}
        if control:
            marker = parse_marker(data)
            entry["marker"] = ControlType(marker.type).name
            entry["coordinatorEpoch"] = marker.coordinator_epoch
        else:
            entry["key"] = _text(record.key)
            entry["value"] = _text(record.value)
            if record.headers:
                entry["headers"] = {key: _text(value) for key, value in record.headers}
        yield entry


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


def _base_offset(path: Path) -> int:
    if not path.stem.isdigit():
        raise ValueError("the name of an index file must be the base offset of its segment, in twenty digits")
    return int(path.stem)


def _offset_index(path: Path, data: bytes) -> Iterator[Entry]:
    base = _base_offset(path)
    index = SegmentIndex.decode(data, b"")
    for offset, position in zip(index.offsets, index.positions, strict=True):
        yield {"offset": base + offset, "position": position}


def _time_index(path: Path, data: bytes) -> Iterator[Entry]:
    base = _base_offset(path)
    index = SegmentIndex.decode(b"", data)
    for timestamp, offset in zip(index.timestamps, index.time_offsets, strict=True):
        yield {"timestamp": timestamp, "offset": base + offset}


def _aborted(path: Path, data: bytes) -> Iterator[Entry]:
    for entry in decode_aborted(data, str(path)):
        yield dict(entry._asdict())


def _producers(path: Path, data: bytes) -> Iterator[Entry]:
    for producer_id, producer in ProducerStates.decode(data, _base_offset(path)).producers.items():
        last = producer.batches[-1] if producer.batches else None
        yield {
            "producerId": producer_id,
            "producerEpoch": producer.epoch,
            "coordinatorEpoch": producer.coordinator_epoch,
            "currentTxnFirstOffset": None if producer.transaction_start < 0 else producer.transaction_start,
            "lastTimestamp": producer.last_timestamp,
            "firstSequence": None if last is None else last.first_sequence,
            "lastSequence": None if last is None else last.last_sequence,
            "lastOffset": None if last is None else last.last_offset,
        }


def _epochs(path: Path, data: bytes) -> Iterator[Entry]:
    for epoch, start in LeaderEpochs.decode(data).entries():
        yield {"epoch": epoch, "startOffset": start}


def _line(entry: Entry) -> str:
    text = " ".join(f"{name}: {_shown(value)}" for name, value in entry.items())
    return f"| {text}" if "record" in entry else text


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _json(path: Path, entry: Entry) -> str:
    return json.dumps({"file": str(path), **entry})
