"""Error messages at the boundary to Spark: an error keeps its message, but loses its traceback.

Spark's worker formats the traceback of an error into its own message, followed by a Java stack trace. Our errors have a
message for the user, and the frames of our code would hide it. So each method that Spark calls removes these frames.
Spark removes its own frames; the only frame left is in this file.

This applies to `MoldauError` only. Any other error is a bug and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from moldau.client.errors import MoldauError
from moldau.host.event_log import event_logger

P = ParamSpec("P")
T = TypeVar("T")

log = event_logger(__name__)


def plain_errors(method: Callable[P, T]) -> Callable[P, T]:
    """Decorator of a method that Spark calls. If the method returns an iterator, it also covers errors during the
    iteration."""

    @wraps(method)
    def called_by_spark(*args: P.args, **named: P.kwargs) -> T:
        try:
            result = method(*args, **named)
        except MoldauError as error:
            raise _bare(error) from None
        return cast("T", _iterated(result)) if isinstance(result, Iterator) else result

    return called_by_spark


def _iterated(items: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from items
    except MoldauError as error:
        raise _bare(error) from None


def _bare(error: MoldauError) -> MoldauError:
    """The error without its traceback, which is logged at debug level."""
    log.debug("raised to Spark", exc_info=error)
    return error.with_traceback(None)
