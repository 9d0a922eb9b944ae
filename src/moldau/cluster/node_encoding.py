"""Encoding of metadata nodes: JSON objects with a version as values, percent-encoded texts as names.

A value that was not written by this program, or by a later one in another version, is refused with the path of its
node. Nothing is guessed.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from moldau.cluster.store import StoreError

VERSION: Final = 1

_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_~")
"""Bytes of a text that stand for themselves in the name of a node; not the dot: `.` and `..` are no names."""

T = TypeVar("T")


class BadNode(StoreError):
    """The name or the value of a node is not valid for its path."""


def encode_name(text: str) -> str:
    """Any text as a part of a node's name that is legal in every store."""
    return "".join(chr(one) if one in _PLAIN else f"%{one:02X}" for one in text.encode())


def decode_name(name: str) -> str:
    """The text of an encoded name; `ValueError` if it is not valid UTF-8."""
    return re.sub(rb"%(..)", lambda match: bytes.fromhex(match[1].decode()), name.encode()).decode()


def encode_fields(fields: Mapping[str, Any]) -> bytes:
    return json.dumps({"version": VERSION, **fields}, separators=(",", ":")).encode()


def decode_fields(path: str, value: bytes, build: Callable[[Mapping[str, Any]], T]) -> T:
    """What `build` makes of the fields of a node; `BadNode` with its path if it cannot."""
    try:
        fields = json.loads(value.decode())
        version = fields["version"]
        if version == VERSION:
            return build(fields)
    except UnicodeDecodeError:
        raise BadNode(f"the metadata store: {path} cannot be understood (not UTF-8)") from None  # it names the value
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise BadNode(f"the metadata store: {path} cannot be understood ({error!r})") from error
    raise BadNode(f"the metadata store: {path} has version {version}, this program knows {VERSION}")


def text_field(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def number_field(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value


def numbers_field(values: object) -> tuple[int, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} is not a list")
    return tuple(map(number_field, values))


def float_field(value: object) -> float:
    if type(value) not in (int, float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)  # type: ignore[arg-type]


def encode_base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def base64_field(value: object) -> bytes:
    """Bytes that are stored as base64. The error does not show the value: it may be a secret."""
    if not isinstance(value, str):
        raise TypeError("not a text in base64")
    return base64.b64decode(value, validate=True)
