"""Large buffers that live for a moment: every fetch response is read into some.

By default glibc gives such memory back to the kernel when it is freed and asks for it again for the next response; the
page faults of that cost three times what the copying costs. A broker keeps it instead. And a buffer that is about to be
overwritten need not be zeroed first, which `bytearray(size)` does.
"""

from __future__ import annotations

import ctypes
import logging

logger = logging.getLogger(__name__)

KEPT_BYTES = 64 * 1024 * 1024
"""Freed memory that is kept at the end of the heap; more than that goes back to the kernel."""

LARGEST_HEAP_BYTES = 32 * 1024 * 1024
"""Buffers up to this size come from the heap and can be kept; larger ones are mapped and unmapped each time."""

SMALL_BUFFER_BYTES = 16 * 1024
"""Up to here zeroing costs less than the way around it."""

# From malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_freed_buffers() -> bool:
    """For the whole process. False where the C library is not glibc: nothing is lost but speed."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        logger.debug("the C library has no mallopt")
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, LARGEST_HEAP_BYTES) == 1 and mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES) == 1)


_uninitialised = ctypes.pythonapi.PyByteArray_FromStringAndSize
_uninitialised.restype = ctypes.py_object
_uninitialised.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t]


def fresh_buffer(size: int) -> bytearray:
    """A buffer whose content is arbitrary: whoever asks for it overwrites it, or cuts off what he does not."""
    if size <= SMALL_BUFFER_BYTES:
        return bytearray(size)
    return _uninitialised(None, size)  # type: ignore[no-any-return]
