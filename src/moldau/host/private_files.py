"""Private files: files with secrets, which only their owner may read."""

from __future__ import annotations

import contextlib
import os
from typing import Final

PRIVATE: Final = 0o600


def make_private(path: str) -> None:
    """Take the permissions of all others from a file, or create it without them.

    No error: a file that cannot be created or changed fails where it is opened, with a better message.
    """
    with contextlib.suppress(OSError):
        try:
            # An existing file is not opened: to close it would end all locks that this process has on it.
            os.chmod(path, os.stat(path).st_mode & PRIVATE)
        except FileNotFoundError:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))
