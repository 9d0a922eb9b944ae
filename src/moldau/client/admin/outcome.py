"""What became of each thing that an admin call was asked about, and how the call tells: a result, or an error raised.

One rule for all calls: a call returns when everything that it was asked for was done, and raises otherwise. Asked about
one thing, it raises that thing's error as it is (`TopicAlreadyExists`); asked about several, it raises `SomeFailed`,
which has the errors of those that failed and the results of those that did not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from moldau.client.errors import BrokerError, BrokerUnavailable, ErrorCode, MoldauError, TimedOut, error_for

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Answers: TypeAlias = dict[K, V | MoldauError]
"""What is known of each thing that was asked about: its result, or its error."""

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
"""Codes that a producer retries, since the topic or its leader may be about to appear, and an administrator wants to
hear at once."""


class SomeFailed(MoldauError):
    """Some of the things that one admin call was asked about failed; the others were done."""

    def __init__(self, errors: Mapping[Any, MoldauError], results: Mapping[Any, Any]) -> None:
        shown = [str(error) for error in list(errors.values())[:MAX_ERRORS_SHOWN]]
        if len(errors) > MAX_ERRORS_SHOWN:
            shown.append(f"and {len(errors) - MAX_ERRORS_SHOWN} more, see `errors`")
        super().__init__(f"{len(errors)} of {len(errors) + len(results)} failed: " + "; ".join(shown))
        self.errors = errors
        """The error of each thing that failed."""
        self.results = results
        """What the call would have returned for the others."""


def settled(answers: Answers[K, V]) -> dict[K, V]:
    """The results, where there is one for everything; otherwise the error that says what is missing."""
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
    """The error of one answer; None where it is none."""
    return error_for(code, what, detail) if code else None


def checked(code: int, what: str, detail: str | None = None) -> None:
    """Raises the error of an answer that stands or falls as a whole."""
    if code:
        raise error_for(code, what, detail)


def unanswered(what: str) -> BrokerError:
    """The error of a thing that the broker's answer leaves out."""
    return error_for(ErrorCode.UNKNOWN_SERVER_ERROR, what, "the broker's answer does not mention it")


def worth_retrying(error: MoldauError) -> bool:
    """Whether the same request may be answered better in a moment."""
    return error.retriable and not (isinstance(error, BrokerError) and error.code in FINAL)


def leaves_doubt(error: MoldauError) -> bool:
    """Whether the broker may have done what was asked although its answer did not come."""
    return isinstance(error, BrokerUnavailable | TimedOut)


def listed(things: str | K | Iterable[str | K], *kinds: type) -> list[Any]:
    """One thing or many, as a list in which each stands once. A text is one thing, and so is any of `kinds`."""
    if isinstance(things, (str, *kinds)):
        return [things]
    return list(dict.fromkeys(things))  # type: ignore[arg-type]
