"""Avro values in the JSON encoding of Avro's specification, and back.

A value of a union is `{"string": "x"}`, with the name of its type; null stays null. Bytes are texts of the characters
0 to 255. Logical types are written as the type below them: a date is a number of days.
"""

from __future__ import annotations

import json
from io import StringIO
from typing import Any, Final

from moldau.rest.errors import CONVERSION, ProxyError, unprocessable
from moldau.schemas.avro.avro_schema import AvroSchema

FAILURES: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, EOFError, RecursionError)
"""What fastavro raises for a value that does not have the schema."""
MAX_SHOWN: Final = 300


def avro_from_json(schema: AvroSchema, data: Any) -> Any:
    """The value of a JSON value, for an Avro serializer. ProxyError 422: it does not have the schema."""
    import fastavro

    try:
        if schema.root.kind == "bytes":
            return data.encode("latin-1")
        parsed = fastavro.parse_schema(schema.expanded())
        return next(iter(fastavro.json_reader(StringIO(json.dumps(data)), parsed)))
    except (*FAILURES, StopIteration) as error:
        raise _wrong(error) from None


def avro_to_json(schema: AvroSchema, value: Any) -> Any:
    """The JSON value of a value that an Avro deserializer has read."""
    import fastavro

    try:
        if schema.root.kind == "bytes":
            return bytes(value).decode("latin-1")
        out = StringIO()
        fastavro.json_writer(out, fastavro.parse_schema(schema.expanded()), [value])
        return json.loads(out.getvalue(), parse_constant=str)  # NaN, which JSON does not have, as text
    except FAILURES as error:
        raise _wrong(error) from None


def _wrong(error: BaseException) -> ProxyError:
    reason = str(error)[:MAX_SHOWN] or type(error).__name__
    return unprocessable(f"the value does not have the Avro schema in JSON: {reason}", CONVERSION)
