"""JSON objects one after another in a stream of bytes, as produce requests of API v3 have them.

White space, commas and brackets of a surrounding array are not needed and not allowed, except white space. Pure: bytes
in, values out.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from json import JSONDecodeError
from typing import Any, Final

from moldau.rest.errors import ProxyError, bad_request

LONGEST_TOKEN: Final = 12
"""An error so near to the end may be a value that continues in the next piece."""
SPACE: Final = " \t\r\n"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a value of JSON")


class JsonStream:
    """Reads values from pieces of a body. `feed` raises ProxyError 400 for what is not JSON, 413 for a long value."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._decode = codecs.getincrementaldecoder("utf-8")()
        self._scan = json.JSONDecoder(parse_constant=_no_constant).raw_decode
        self._text = ""
        self._try_at = 0
        """The length from which it is worth to look for a value again: a long value is not scanned for every piece."""

    def feed(self, data: bytes, last: bool = False) -> Iterator[Any]:
        """The values that are complete with these bytes. `last`: no more follow."""
        try:
            self._text += self._decode.decode(data, last)
        except UnicodeDecodeError as error:
            raise bad_request(f"the body is not UTF-8: {error.reason}") from None
        if len(self._text) < self._try_at and not last:
            return
        at = 0
        text = self._text
        try:
            while True:
                at = _skip_space(text, at)
                if at >= len(text):
                    break
                value, end = self._scan(text, at)
                if end == len(text) and not last and not isinstance(value, dict | list | str):
                    break  # a number may continue
                at = end
                yield value
        except (ValueError, RecursionError) as error:
            if last or not _may_continue(error, len(text)):
                reason = str(error) if not isinstance(error, RecursionError) else "too many levels"
                raise bad_request(f"the body is not JSON: {reason}") from None
        finally:
            self._text = text[at:]
        if len(self._text) > self._max:
            raise ProxyError(
                413, 413, f"a record is larger than {self._max} bytes; the limit is moldau.rest.max.record.bytes"
            )
        self._try_at = 2 * len(self._text) if len(self._text) > 65_536 else 0


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in SPACE:
        at += 1
    return at


def _may_continue(error: Exception, length: int) -> bool:
    """Whether the value is incomplete, rather than wrong."""
    if not isinstance(error, JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated string") or error.pos >= length - LONGEST_TOKEN
