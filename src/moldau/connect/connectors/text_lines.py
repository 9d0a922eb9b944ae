"""Lines of text files: where lines end, and Arrow arrays of lines.

A line ends with `\\n`, `\\r\\n` or `\\r`, as in Kafka's file connector. A `\\r` at the end of what can be seen does not
end a line yet, because a `\\n` may follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.client.errors import MoldauError

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""A longer line is an error: a binary file, or one with another kind of line end."""

_SEARCH_BYTES: Final = 64 * 1024

ReadAt = Callable[[int, int], bytes]
"""Reads so many bytes at a position; fewer only at the end of the file."""


class LineTooLongError(MoldauError):
    """A line of more than MAX_LINE_BYTES bytes."""


def last_line_end(data: bytes) -> int:
    """The position after the last complete line; 0: there is none."""
    return max(data.rfind(b"\n"), data.rfind(b"\r", 0, max(0, len(data) - 1))) + 1


def first_line_end(data: bytes) -> int:
    """The position after the first complete line; 0: there is none."""
    newline, carriage = data.find(b"\n"), data.find(b"\r", 0, max(0, len(data) - 1))
    if carriage >= 0 and (newline < 0 or carriage < newline):
        return carriage + (2 if data[carriage + 1 : carriage + 2] == b"\n" else 1)
    return newline + 1


def line_boundary(read_at: ReadAt, start: int, target: int, size: int) -> int:
    """A position after a complete line, near `target`; `start` if the line there is not complete yet.

    It is the last one that is not after `target`. If the line at `start` is longer, it is the end of that line.
    """
    found = _last_boundary(read_at, start, min(target, size))
    if found > start or target >= size:
        return found
    return _end_of_line(read_at, start, size)


def _last_boundary(read_at: ReadAt, start: int, target: int) -> int:
    """The last line end in [start, target], searched backwards."""
    end = target
    while end > start:
        begin = max(start, end - _SEARCH_BYTES)
        found = last_line_end(read_at(begin, end - begin))
        if found:
            return begin + found
        if begin == start:
            break
        end = begin + 1  # One byte again: a `\r` at the end of the next block is judged with what follows it.
    return start


def _end_of_line(read_at: ReadAt, start: int, size: int) -> int:
    """The end of the line that begins at `start`, searched forwards; `start`: it has no end yet."""
    position = start
    while position < size:
        block = read_at(position, min(_SEARCH_BYTES, size - position))
        found = first_line_end(block)
        if found:
            return position + found
        if position + len(block) - start > MAX_LINE_BYTES:
            raise LineTooLongError(
                f"the line at byte {start} is longer than {MAX_LINE_BYTES} bytes: this is not a file of text lines"
            )
        if len(block) < 2:
            break
        position += len(block) - 1  # One byte again, as above.
    return start


def line_array(data: bytes, *, last_without_end: bool = False) -> pa.Array:
    """The lines of complete lines of text, as Arrow strings. Bytes that are not UTF-8 become U+FFFD.

    `last_without_end`: what follows the last line end is a line too.
    """
    try:
        text = pa.array([data], pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        data = data.decode("utf-8", "replace").encode()
        text = pa.array([data], pa.large_binary()).cast(pa.large_string())
    if b"\r" in data:
        text = pc.replace_substring(pc.replace_substring(text, "\r\n", "\n"), "\r", "\n")
    lines = pc.split_pattern(text, "\n").values
    if not last_without_end or data.endswith((b"\n", b"\r")) or not data:
        lines = lines.slice(0, len(lines) - 1)
    return lines.cast(pa.string())
