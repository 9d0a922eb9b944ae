"""Boot id of the machine: tells whether it has restarted."""

from __future__ import annotations

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_id() -> str:
    """A text that stays the same until the machine restarts; empty if the machine does not provide one.

    Callers never treat two empty ids as the same boot: then everything that a restart may lose counts as lost.
    """
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""
