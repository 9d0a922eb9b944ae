"""Media types of API v2: `application/vnd.kafka[.FORMAT].v2+json`, and the format that they name."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from moldau.rest.errors import CONSUMER_FORMAT, ProxyError
from moldau.rest.record_formats import RecordFormat

V2: Final = "application/vnd.kafka.v2+json"
PLAIN_TYPES: Final = (V2, "application/vnd.kafka+json", "application/json")
FORMATS: Final = {
    "binary": RecordFormat.BINARY,
    "json": RecordFormat.JSON,
    "avro": RecordFormat.AVRO,
    "jsonschema": RecordFormat.JSONSCHEMA,
    "protobuf": RecordFormat.PROTOBUF,
}
RECORD_TYPES: Final = {f"application/vnd.kafka.{name}.v2+json": found for name, found in FORMATS.items()}


def record_type(found: RecordFormat) -> str:
    return f"application/vnd.kafka.{found.lower()}.v2+json"


def check_accepts(request: Request, found: RecordFormat) -> str:
    """The media type of records of this format. ProxyError 406: the client does not take it."""
    media = record_type(found)
    given = request.headers.get("accept", "*/*")
    wanted = [part.partition(";")[0].strip().lower() for part in given.split(",")]
    if any(one in (media, "*/*", "application/*", *PLAIN_TYPES) for one in wanted):
        return media
    raise ProxyError(406, CONSUMER_FORMAT, f"the consumer was created with the format {found.lower()}: accept {media}")
