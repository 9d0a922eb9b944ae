"""The machine itself: which of its runs this is."""

from __future__ import annotations

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_id() -> str:
    """The same text as long as the machine runs without a restart; empty where it does not tell.

    An empty one is never taken for the same run: what may be lost with the machine's memory then counts as lost.
    """
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""
