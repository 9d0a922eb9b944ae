"""The C library's memory allocator, told how a broker uses memory.

Every fetch response is read into large buffers that live for a moment. By default glibc gives such memory back to the
kernel when it is freed and asks for it again for the next response; the page faults of that cost three times what
the copying costs. A broker keeps it instead.
"""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)

KEPT_BYTES = 64 * 1024 * 1024
"""Freed memory that is kept at the end of the heap; more than that goes back to the kernel."""

LARGEST_HEAP_BYTES = 32 * 1024 * 1024
"""Buffers up to this size come from the heap and can be kept; larger ones are mapped and unmapped each time."""

# From malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_freed_buffers() -> bool:
    """For the whole process. False where the C library is not glibc: nothing is lost but speed."""
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        logger.debug("the C library has no mallopt")
        return False
    return bool(
        mallopt(_M_MMAP_THRESHOLD, LARGEST_HEAP_BYTES) == 1 and mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES) == 1
    )
