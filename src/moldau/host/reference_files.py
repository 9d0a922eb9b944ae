"""Files that settings refer to with `${file:/path}`: read whole, up to a limit."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping

from moldau.settings.references import resolve_all

MAX_REFERENCE_BYTES = 1024 * 1024
"""The largest file that a setting may refer to: a password, a key, a chain of certificates."""


def read_reference_file(path: str) -> str:
    """The text of a file. Raises OSError if it cannot be read or is too large, UnicodeError if it is not UTF-8."""
    with open(path, "rb") as file:
        data = file.read(MAX_REFERENCE_BYTES + 1)
    if len(data) > MAX_REFERENCE_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MAX_REFERENCE_BYTES} bytes", path)
    return data.decode()


def resolve_references(texts: Mapping[str, str]) -> dict[str, str]:
    """The texts of settings with `${env:NAME}` and `${file:/path}` replaced, from this process and this machine."""
    return resolve_all(texts, os.environ, read_reference_file)


def is_within(path: str, directories: Iterable[str]) -> bool:
    """Whether a file is in one of these directories, or is one of these files. Links are followed first."""
    real = os.path.realpath(path)
    found = [os.path.realpath(one) for one in directories]
    return any(real == one or real.startswith(one.rstrip(os.sep) + os.sep) for one in found)


def is_absolute(path: str) -> bool:
    return os.path.isabs(path)
