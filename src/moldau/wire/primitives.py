"""Readers and writers of field types, used by the generated messages.

A reader takes the frame and a position, and returns the value and the position after it. A writer passes its bytes to
`write`, usually the `append` of a list that is joined at the end. `flexible` selects the encoding of lengths: int16 or
int32 with -1 for null before a message's flexible versions; an unsigned varint of length + 1 with 0 for null from then
on.

Readers never read past the frame, and allocate no memory for a count or length before it is checked against the
remaining bytes. They raise WireError, or IndexError, struct.error and UnicodeDecodeError, which `Message.decode` turns
into WireError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from moldau.wire.errors import WireError

Buffer: TypeAlias = bytes | bytearray | memoryview
Data: TypeAlias = bytes | memoryview
Write: TypeAlias = Callable[[Buffer], object]
T = TypeVar("T")

ZERO_UUID: Final = bytes(16)
NO_TAGS: Final[Mapping[int, bytes]] = MappingProxyType({})
"""The value of `unknown_tags` if there are none: shared by all messages, and therefore immutable."""
EMPTY: Final[list[Any]] = []
"""The default argument for an array; every message replaces it with its own list. Never stored, never modified."""

MAX_VARINT_BYTES: Final = 5  # an unsigned varint holds 32 bits, seven per byte

_unpack_int16 = struct.Struct(">h").unpack_from
_unpack_int32 = struct.Struct(">i").unpack_from
_pack_int16 = struct.Struct(">h").pack
_pack_int32 = struct.Struct(">i").pack
_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(128))
_NULL_INT16: Final = b"\xff\xff"
_NULL_INT32: Final = b"\xff\xff\xff\xff"


# --- unsigned varints ------------------------------------------------------------------------------------------------


def read_uvarint(data: Data, pos: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits."""
    value = data[pos]
    if value < 0x80:
        return value, pos + 1
    value &= 0x7F
    for index in range(1, MAX_VARINT_BYTES):
        byte = data[pos + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, pos + index + 1
    raise WireError(f"the varint at {pos} does not fit into 32 bits")


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# --- lengths and counts ----------------------------------------------------------------------------------------------


def _past_the_end(what: str, size: int, pos: int, data: Data) -> WireError:
    return WireError(f"{what} of {size} at {pos} runs past the end of the frame, which has {len(data)} bytes")


def _read_length(data: Data, pos: int, flexible: bool) -> tuple[int, int]:
    """Read the length of bytes or records: -1 for null, otherwise checked against the remaining bytes."""
    if flexible:
        length, pos = read_uvarint(data, pos)
        length -= 1
    else:
        (length,) = _unpack_int32(data, pos)
        pos += 4
    if length > len(data) - pos:
        raise _past_the_end("bytes", length, pos, data)
    if length < -1:
        raise WireError(f"negative length {length} at {pos}")
    return length, pos


def _read_count(data: Data, pos: int, flexible: bool, element_size: int) -> tuple[int, int]:
    """Read the count of an array, -1 for null. `element_size` is the minimal size of an element in the frame."""
    if flexible:
        count = data[pos] - 1
        if count < 0x7F:
            pos += 1
        else:
            count, pos = read_uvarint(data, pos)
            count -= 1
    else:
        (count,) = _unpack_int32(data, pos)
        pos += 4
    if count * element_size > len(data) - pos:
        raise _past_the_end("an array", count, pos, data)
    if count < -1:
        raise WireError(f"negative count {count} at {pos}")
    return count, pos


def _not_null(what: str, pos: int) -> WireError:
    return WireError(f"{what} before {pos} is null, which this version does not allow")


def _write_count(write: Write, count: int, flexible: bool) -> None:
    write(uvarint(count + 1) if flexible else _pack_int32(count))


def _write_null(write: Write, flexible: bool) -> None:
    write(b"\0" if flexible else _NULL_INT32)


def require(value: T | None, field: str, version: int) -> T:
    """Return a value that may be null in some versions, but not in this one."""
    if value is None:
        raise ValueError(f"{field} may not be null in version {version}")
    return value


# --- strings ---------------------------------------------------------------------------------------------------------


def read_nullable_string(data: Data, pos: int, flexible: bool) -> tuple[str | None, int]:
    """Read a string that may be null."""
    if flexible:
        length = data[pos] - 1
        if length < 0x7F:
            pos += 1
        else:
            length, pos = read_uvarint(data, pos)
            length -= 1
    else:
        (length,) = _unpack_int16(data, pos)
        pos += 2
    if length < 0:
        if length != -1:
            raise WireError(f"negative length {length} at {pos}")
        return None, pos
    end = pos + length
    if end > len(data):
        raise _past_the_end("a string", length, pos, data)
    return str(data[pos:end], "utf-8"), end


def read_string(data: Data, pos: int, flexible: bool) -> tuple[str, int]:
    """Read a string."""
    # A copy of read_nullable_string: it saves a call for the most frequent type.
    if flexible:
        length = data[pos] - 1
        if length < 0x7F:
            pos += 1
        else:
            length, pos = read_uvarint(data, pos)
            length -= 1
    else:
        (length,) = _unpack_int16(data, pos)
        pos += 2
    if length < 0:
        raise _not_null("a string", pos)
    end = pos + length
    if end > len(data):
        raise _past_the_end("a string", length, pos, data)
    return str(data[pos:end], "utf-8"), end


def write_string(write: Write, value: str, flexible: bool) -> None:
    """Write a string."""
    raw = value.encode()
    write(uvarint(len(raw) + 1) if flexible else _pack_int16(len(raw)))
    write(raw)


def write_nullable_string(write: Write, value: str | None, flexible: bool) -> None:
    """Write a string that may be null."""
    if value is None:
        write(b"\0" if flexible else _NULL_INT16)
    else:
        write_string(write, value, flexible)


# --- bytes and records -----------------------------------------------------------------------------------------------


def read_nullable_bytes(data: Data, pos: int, flexible: bool) -> tuple[bytes | None, int]:
    """Read bytes that may be null, as a copy."""
    length, pos = _read_length(data, pos, flexible)
    if length < 0:
        return None, pos
    end = pos + length
    return bytes(data[pos:end]), end


def read_bytes(data: Data, pos: int, flexible: bool) -> tuple[bytes, int]:
    """Read bytes, as a copy."""
    value, pos = read_nullable_bytes(data, pos, flexible)
    if value is None:
        raise _not_null("bytes", pos)
    return value, pos


def read_nullable_records(data: Data, pos: int, flexible: bool) -> tuple[memoryview | None, int]:
    """Read record batches that may be null, as a view into the frame."""
    length, pos = _read_length(data, pos, flexible)
    if length < 0:
        return None, pos
    end = pos + length
    return memoryview(data)[pos:end], end


def read_records(data: Data, pos: int, flexible: bool) -> tuple[memoryview, int]:
    """Read record batches, as a view into the frame."""
    value, pos = read_nullable_records(data, pos, flexible)
    if value is None:
        raise _not_null("records", pos)
    return value, pos


def write_bytes(write: Write, value: Buffer, flexible: bool) -> None:
    """Write bytes or records."""
    _write_count(write, len(value), flexible)
    write(value)


def write_nullable_bytes(write: Write, value: Buffer | None, flexible: bool) -> None:
    """Write bytes or records that may be null."""
    if value is None:
        _write_null(write, flexible)
    else:
        write_bytes(write, value, flexible)


# --- arrays ----------------------------------------------------------------------------------------------------------


def _read_elements(
    data: Data, pos: int, version: int, count: int, read: Callable[[Data, int, int], tuple[T, int]]
) -> tuple[list[T], int]:
    elements = []
    for _ in range(count):
        element, pos = read(data, pos, version)
        elements.append(element)
    return elements, pos


def read_array(
    data: Data, pos: int, version: int, flexible: bool, read: Callable[[Data, int, int], tuple[T, int]]
) -> tuple[list[T], int]:
    """Read an array of structs; `read` is the `read_from` of the struct."""
    count, pos = _read_count(data, pos, flexible, 1)
    if count < 0:
        raise _not_null("an array", pos)
    return _read_elements(data, pos, version, count, read)


def read_nullable_array(
    data: Data, pos: int, version: int, flexible: bool, read: Callable[[Data, int, int], tuple[T, int]]
) -> tuple[list[T] | None, int]:
    """Read an array of structs that may be null; `read` is the `read_from` of the struct."""
    count, pos = _read_count(data, pos, flexible, 1)
    return (None, pos) if count < 0 else _read_elements(data, pos, version, count, read)


class Writable(Protocol):
    """An object with fields to write."""

    def write_to(self, write: Write, version: int) -> None:
        """Write the fields of this version."""


def write_array(write: Write, elements: Sequence[Writable], version: int, flexible: bool) -> None:
    """Write an array of structs."""
    count = len(elements)
    write(uvarint(count + 1) if flexible else _pack_int32(count))
    for element in elements:
        element.write_to(write, version)


def write_nullable_array(write: Write, elements: Sequence[Writable] | None, version: int, flexible: bool) -> None:
    """Write an array of structs that may be null."""
    if elements is None:
        _write_null(write, flexible)
    else:
        write_array(write, elements, version, flexible)


# The size of an integer by its `struct` format character. Formats for short arrays, such as the replicas of a
# partition, are prepared, because parsing a format costs more than using it.
_NUMBER_SIZES: Final = {"b": 1, "h": 2, "i": 4, "q": 8}
_SHORT: Final = 8
_SHORT_FORMATS: Final = {
    code: tuple(struct.Struct(f">{count}{code}") for count in range(_SHORT)) for code in _NUMBER_SIZES
}


def _numbers_format(count: int, code: str) -> struct.Struct:
    return _SHORT_FORMATS[code][count] if count < _SHORT else struct.Struct(f">{count}{code}")


def read_numbers(data: Data, pos: int, flexible: bool, code: str) -> tuple[list[int], int]:
    """Read an array of integers; `code` is their format character in `struct`."""
    count, pos = _read_count(data, pos, flexible, _NUMBER_SIZES[code])
    if count < 0:
        raise _not_null("an array", pos)
    numbers = _numbers_format(count, code)
    return list(numbers.unpack_from(data, pos)), pos + numbers.size


def read_nullable_numbers(data: Data, pos: int, flexible: bool, code: str) -> tuple[list[int] | None, int]:
    """Read an array of integers that may be null; `code` is their format character in `struct`."""
    count, pos = _read_count(data, pos, flexible, _NUMBER_SIZES[code])
    if count < 0:
        return None, pos
    numbers = _numbers_format(count, code)
    return list(numbers.unpack_from(data, pos)), pos + numbers.size


def write_numbers(write: Write, numbers: Sequence[int], flexible: bool, code: str) -> None:
    """Write an array of integers."""
    count = len(numbers)
    write(uvarint(count + 1) if flexible else _pack_int32(count))
    write(_numbers_format(count, code).pack(*numbers))


def write_nullable_numbers(write: Write, numbers: Sequence[int] | None, flexible: bool, code: str) -> None:
    """Write an array of integers that may be null."""
    if numbers is None:
        _write_null(write, flexible)
    else:
        write_numbers(write, numbers, flexible, code)


def read_nullable_strings(data: Data, pos: int, flexible: bool) -> tuple[list[str] | None, int]:
    """Read an array of strings that may be null."""
    count, pos = _read_count(data, pos, flexible, 1)
    if count < 0:
        return None, pos
    strings = []
    for _ in range(count):
        string, pos = read_string(data, pos, flexible)
        strings.append(string)
    return strings, pos


def read_strings(data: Data, pos: int, flexible: bool) -> tuple[list[str], int]:
    """Read an array of strings."""
    strings, pos = read_nullable_strings(data, pos, flexible)
    if strings is None:
        raise _not_null("an array", pos)
    return strings, pos


def write_strings(write: Write, strings: Sequence[str], flexible: bool) -> None:
    """Write an array of strings."""
    _write_count(write, len(strings), flexible)
    for string in strings:
        write_string(write, string, flexible)


def write_nullable_strings(write: Write, strings: Sequence[str] | None, flexible: bool) -> None:
    """Write an array of strings that may be null."""
    if strings is None:
        _write_null(write, flexible)
    else:
        write_strings(write, strings, flexible)


# --- structs that may be null ----------------------------------------------------------------------------------------


def read_nullable_struct(
    data: Data, pos: int, version: int, read: Callable[[Data, int, int], tuple[T, int]]
) -> tuple[T | None, int]:
    """Read a struct that may be null: a byte before it is negative for null."""
    if data[pos] > 0x7F:
        return None, pos + 1
    return read(data, pos + 1, version)


def write_nullable_struct(write: Write, value: Writable | None, version: int) -> None:
    """Write a struct that may be null."""
    if value is None:
        write(b"\xff")
    else:
        write(b"\x01")
        value.write_to(write, version)


# --- tagged fields ---------------------------------------------------------------------------------------------------


def read_tags(data: Data, pos: int) -> tuple[dict[int, bytes], int]:
    """Read the block of tagged fields at the end of every struct of a flexible version: raw bytes by tag."""
    count, pos = read_uvarint(data, pos)
    tags: dict[int, bytes] = {}
    for _ in range(count):  # a hostile count fails soon, because the bytes run out
        tag, pos = read_uvarint(data, pos)
        size, pos = read_uvarint(data, pos)
        end = pos + size
        if end > len(data):
            raise _past_the_end(f"tagged field {tag}", size, pos, data)
        tags[tag] = bytes(data[pos:end])
        pos = end
    return tags, pos


def write_tags(write: Write, tags: Mapping[int, bytes]) -> None:
    """Write a block of tagged fields, in the order of their tags as the protocol requires."""
    if not tags:
        write(b"\0")
        return
    write(uvarint(len(tags)))
    for tag in sorted(tags):
        content = tags[tag]
        write(uvarint(tag) + uvarint(len(content)))
        write(content)


def content(write_value: Callable[..., None], *arguments: object) -> bytes:
    """The bytes that a writer writes: the content of a tagged field."""
    out: list[Buffer] = []
    write_value(out.append, *arguments)
    return b"".join(out)
