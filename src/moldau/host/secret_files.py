"""Files with secrets: bounded reads of small files, and files that exist only for the duration of one call.

For keys, certificates and tokens, which a process reads once from the machine's own file system. Logs and metadata use
`fs.py`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_BYTES = 16 << 20
"""The size limit of such a file. The certificates of all public authorities have less than 1 MB."""


def read_bounded(path: str) -> bytes:
    """Return the content of a file. Raises OSError, also if the file is too large."""
    with Path(path).open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(f"it has more than {MAX_BYTES} bytes")
    return data


@contextmanager
def private_file(content: bytes) -> Iterator[str]:
    """The path of a file that no other user can read; in memory where the system has such files (Linux with /proc)."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("moldau-secret", os.MFD_CLOEXEC)
        try:
            os.fchmod(descriptor, 0o600)
            with open(descriptor, "wb", closefd=False) as file:
                file.write(content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:  # mode 0600
            file.write(content)
            file.flush()
            yield file.name
