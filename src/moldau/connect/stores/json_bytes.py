"""JSON bytes of the stores, exactly as Kafka Connect's JsonConverter writes them without schemas.

Kafka Connect finds a source offset by the bytes of its key: the same partition has to give the same bytes.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from moldau.client.errors import MoldauError

# Kafka Connect writes control characters with capital hexadecimal digits. An even number of backslashes before the "u"
# is not an escape, so pairs of backslashes are matched first.
_ESCAPES: Final = re.compile(r"\\\\|\\u00[01][0-9a-f]")


class StoredFormatError(MoldauError):
    """A record of a store that is not JSON."""


def encode(value: Any) -> bytes:
    """The bytes of a value. Objects keep the order of their fields."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if "\\u00" in text:
        text = _ESCAPES.sub(_capital, text)
    return text.encode()


def _capital(found: re.Match[str]) -> str:
    text = found[0]
    return text if text == "\\\\" else "\\u" + text[2:].upper()


def decode(data: bytes) -> Any:
    """The value of bytes from a topic. StoredFormatError if they are not JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StoredFormatError(f"not JSON: {error}") from None


def decode_object(data: bytes | None) -> dict[str, Any] | None:
    """The object in a record's value; None if it is a tombstone or not an object."""
    if data is None:
        return None
    try:
        value = decode(data)
    except StoredFormatError:
        return None
    return value if isinstance(value, dict) else None
