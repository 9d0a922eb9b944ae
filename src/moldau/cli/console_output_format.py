"""Output format of the console consumer: renders records as text, like Kafka's console consumer, or as JSON."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from moldau.cli.console_input_format import Format, is_true
from moldau.records.batch_layout import TimestampType

NO_TIMESTAMP = -1


class PrintableRecord(Protocol):
    """The fields of a record that can be printed."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def timestamp_type(self) -> TimestampType: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def key(self) -> Any: ...
    @property
    def value(self) -> Any: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


class TextForm(NamedTuple):
    """The fields and separators to print: Kafka's formatter properties."""

    format: Format = Format.STRING
    print_timestamp: bool = False
    print_partition: bool = False
    print_offset: bool = False
    print_epoch: bool = False
    print_headers: bool = False
    print_key: bool = False
    print_value: bool = True
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"


FORMATTER_PROPERTIES = {name.replace("_", "."): name for name in TextForm._fields if name != "format"}


def text_form(properties: Mapping[str, str], format_: Format) -> TextForm:
    """Parse Kafka's formatter properties; ValueError for an unknown one."""
    fields: dict[str, Any] = {"format": format_}
    for name, text in properties.items():
        if name not in FORMATTER_PROPERTIES:
            raise ValueError(f"unknown property {name!r}; known properties: {', '.join(sorted(FORMATTER_PROPERTIES))}")
        field = FORMATTER_PROPERTIES[name]
        fields[field] = is_true(name, text) if field.startswith("print_") else _bytes(text)
    return TextForm(**fields)


def _bytes(text: str) -> bytes:
    return text.replace("\\t", "\t").replace("\\n", "\n").encode("utf-8", "surrogateescape")


Render = Callable[[Iterable[PrintableRecord]], bytes]
"""Renders records as bytes for the output."""


def text_renderer(form: TextForm) -> Render:
    if form == TextForm(line_separator=form.line_separator, null_literal=form.null_literal):
        return _values(form)
    render_one = _line(form)
    separator = form.line_separator

    def render(records: Iterable[PrintableRecord]) -> bytes:
        return b"".join([render_one(record) + separator for record in records])

    return render


def _values(form: TextForm) -> Render:
    """Render only values, the most common case in pipes: without a function call per record."""
    separator, null = form.line_separator, form.null_literal

    def render(records: Iterable[PrintableRecord]) -> bytes:
        values = [record.value for record in records]
        try:
            return separator.join(values) + separator if values else b""
        except TypeError:  # one of the records has no value
            return separator.join([null if value is None else value for value in values]) + separator

    return render


def _line(form: TextForm) -> Callable[[PrintableRecord], bytes]:
    """Render one record in Kafka's order: timestamp, partition, offset, epoch, headers, key, value."""
    parts: list[Callable[[PrintableRecord], bytes]] = []
    if form.print_timestamp:
        parts.append(_timestamp)
    if form.print_partition:
        parts.append(lambda record: b"Partition:%d" % record.partition)
    if form.print_offset:
        parts.append(lambda record: b"Offset:%d" % record.offset)
    if form.print_epoch:
        parts.append(lambda record: b"Epoch:%d" % record.leader_epoch)
    if form.print_headers:
        parts.append(lambda record: _headers(record, form))
    if form.print_key:
        parts.append(lambda record: _shown(record.key, form))
    if form.print_value:
        parts.append(lambda record: _shown(record.value, form))
    separator = form.key_separator
    return lambda record: separator.join([part(record) for part in parts])


def _timestamp(record: PrintableRecord) -> bytes:
    if record.timestamp == NO_TIMESTAMP:
        return b"NO_TIMESTAMP"
    kind = b"LogAppendTime" if record.timestamp_type == TimestampType.LOG_APPEND_TIME else b"CreateTime"
    return b"%s:%d" % (kind, record.timestamp)


def _headers(record: PrintableRecord, form: TextForm) -> bytes:
    if not record.headers:
        return b"NO_HEADERS"
    return form.headers_separator.join([name.encode() + b":" + _shown(value, form) for name, value in record.headers])


def _shown(value: bytes | None, form: TextForm) -> bytes:
    if value is None:
        return form.null_literal
    return value.hex().encode() if form.format is Format.HEX else value


# -- JSON --------------------------------------------------------------------------------------------------------------


def json_renderer(format_: Format, key_format: Format | None = None) -> Render:
    """Render one JSON object per line. Bytes that are not UTF-8 are in base64, in a field with the suffix `_base64`.
    With the format `json`, keys and values that are JSON are embedded as JSON; with `hex`, all are hexadecimal.
    `key_format` is the format of keys, if they have another one."""
    dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

    def render(records: Iterable[PrintableRecord]) -> bytes:
        lines = [dump(as_object(record, format_, key_format or format_)) for record in records]
        return ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass") if lines else b""

    return render


def as_object(record: PrintableRecord, format_: Format, key_format: Format) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": "LogAppendTime" if record.timestamp_type == TimestampType.LOG_APPEND_TIME else "CreateTime",
    }
    fields |= _json_field("key", record.key, key_format)
    fields |= _json_field("value", record.value, format_)
    if record.headers:
        fields["headers"] = [
            {"key": name, **_json_field("value", value, Format.STRING)} for name, value in record.headers
        ]
    return fields


def _json_field(name: str, value: bytes | None, format_: Format) -> dict[str, Any]:
    if value is None:
        return {name: None}
    if format_ is Format.HEX:
        return {name: value.hex()}
    if format_ is Format.JSON:
        try:
            return {name: json.loads(value)}
        except ValueError:
            pass  # not JSON: continue as text
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(value).decode()}
