"""Patterns of JSON Schemas: matching that takes linear time, whatever the pattern is.

A registry matches patterns that its clients have sent. RE2 has no look-around and no back references: a pattern
with one of them is unknown, and the rules then assume the worse of both answers.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

MAX_PATTERNS = 1024


def matches(pattern: str, text: str) -> bool | None:
    """Does the pattern match somewhere in the text? None if it cannot be known."""
    compiled = _compiled(pattern)
    return None if compiled is None else compiled.search(text) is not None


def is_pattern(pattern: str) -> bool:
    """Is this a regular expression, for one of the two engines that may have to match it?"""
    if _compiled(pattern) is not None:
        return True
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


@lru_cache(MAX_PATTERNS)
def _compiled(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None
