"""Documents at an address: files, or pages of a web server, read whole up to a limit.

Blocks: call it in a thread.
"""

from __future__ import annotations

import urllib.request
from urllib.error import URLError
from urllib.parse import unquote, urlsplit

READ_TIMEOUT_S = 5.0


def read_document(url: str, max_bytes: int) -> bytes:
    """The bytes at an address. OSError if they cannot be read, ValueError if there are too many."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        with open(unquote(parts.path), "rb") as file:
            document = file.read(max_bytes + 1)
    elif parts.scheme in ("http", "https"):
        with urllib.request.urlopen(url, timeout=READ_TIMEOUT_S) as response:
            document = response.read(max_bytes + 1)
    else:
        raise ValueError("only file:, http: and https: addresses are read")
    if len(document) > max_bytes:
        raise ValueError(f"it has more than {max_bytes} bytes")
    return bytes(document)


def read_problem(error: Exception) -> str:
    """Why a document could not be read, in a few words."""
    if isinstance(error, URLError):
        return str(error.reason)
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
