"""Memory allocation for large short-lived buffers, such as those of fetch responses.

By default glibc returns such memory to the kernel when it is freed and requests it again for the next response; the
resulting page faults cost three times as much as the copying. A broker keeps the memory instead. And a buffer that is
about to be overwritten need not be zeroed first, which `bytearray(size)` does.
"""

from __future__ import annotations

import ctypes

from moldau.host.event_log import event_logger

log = event_logger(__name__)

KEPT_BYTES = 64 * 1024 * 1024
"""Freed memory kept at the end of the heap; more than that is returned to the kernel."""

LARGEST_HEAP_BYTES = 32 * 1024 * 1024
"""Buffers up to this size come from the heap and can be kept; larger ones are mapped and unmapped each time."""

SMALL_BUFFER_BYTES = 16 * 1024
"""Up to this size zeroing costs less than the uninitialised allocation through ctypes."""

# From malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_freed_buffers() -> bool:
    """Keep freed memory, for the whole process. False if the C library is not glibc: that costs only speed."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        log.debug("the C library has no mallopt")
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, LARGEST_HEAP_BYTES) == 1 and mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES) == 1)


_uninitialised = ctypes.pythonapi.PyByteArray_FromStringAndSize
_uninitialised.restype = ctypes.py_object
_uninitialised.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t]


def fresh_buffer(size: int) -> bytearray:
    """A buffer with arbitrary content: the caller must overwrite all of it, or cut off the rest."""
    if size <= SMALL_BUFFER_BYTES:
        return bytearray(size)
    return _uninitialised(None, size)  # type: ignore[no-any-return]
