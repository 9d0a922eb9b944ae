"""Results of admin calls: one result or error per item, and the rule for what a call raises.

One rule for all calls: a call returns if all items succeeded, and raises otherwise. A call about one item raises the
error of that item (`TopicAlreadyExists`). A call about several items raises `SomeFailed`, which has the errors of the
failed items and the results of the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from moldau.client.errors import BrokerError, BrokerUnavailable, ErrorCode, MoldauError, TimedOut, error_for

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Answers: TypeAlias = dict[K, V | MoldauError]
"""The result or the error of each item."""

MAX_ERRORS_SHOWN = 3

FINAL = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    }
)
"""Retriable codes that admin calls raise at once: a producer waits for a new topic or leader, an administrator does
not."""


class SomeFailed(MoldauError):
    """Some items of an admin call failed; the others succeeded."""

    def __init__(self, errors: Mapping[Any, MoldauError], results: Mapping[Any, Any]) -> None:
        shown = [str(error) for error in list(errors.values())[:MAX_ERRORS_SHOWN]]
        if len(errors) > MAX_ERRORS_SHOWN:
            shown.append(f"and {len(errors) - MAX_ERRORS_SHOWN} more, see `errors`")
        super().__init__(f"{len(errors)} of {len(errors) + len(results)} failed: " + "; ".join(shown))
        self.errors = errors
        """The error of each failed item."""
        self.results = results
        """The results of the other items."""


def settled(answers: Answers[K, V]) -> dict[K, V]:
    """Return the results if all items succeeded. Otherwise raise the error of the only item, or SomeFailed."""
    errors: dict[K, MoldauError] = {}
    results: dict[K, V] = {}
    for key, answer in answers.items():
        if isinstance(answer, MoldauError):
            errors[key] = answer
        else:
            results[key] = answer
    if not errors:
        return results
    if len(answers) == 1:
        raise next(iter(errors.values()))
    raise SomeFailed(errors, results)


def judged(code: int, what: str, detail: str | None = None) -> BrokerError | None:
    """Return the error for a code, or None for code 0."""
    return error_for(code, what, detail) if code else None


def checked(code: int, what: str, detail: str | None = None) -> None:
    """Raise the error for a code that concerns the whole response. Code 0 is no error."""
    if code:
        raise error_for(code, what, detail)


def unanswered(what: str) -> BrokerError:
    """Return the error for an item that is missing in the response."""
    return error_for(ErrorCode.UNKNOWN_SERVER_ERROR, what, "it is missing in the response of the broker")


def worth_retrying(error: MoldauError) -> bool:
    """Whether the same request may succeed a moment later."""
    return error.retriable and not (isinstance(error, BrokerError) and error.code in FINAL)


def leaves_doubt(error: MoldauError) -> bool:
    """Whether the broker may have carried out the request although no response arrived."""
    return isinstance(error, BrokerUnavailable | TimedOut)


def listed(things: str | K | Iterable[str | K], *kinds: type) -> list[Any]:
    """Return one item or several as a list without duplicates. A str or an instance of `kinds` is one item."""
    if isinstance(things, (str, *kinds)):
        return [things]
    return list(dict.fromkeys(things))  # type: ignore[arg-type]
