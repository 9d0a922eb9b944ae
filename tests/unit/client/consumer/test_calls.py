"""Calls of the two consumers: equal names, arguments, results and docstrings, declared once."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest

from moldau import Consumer, aio


def public_calls(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


CALLS = sorted(public_calls(Consumer))


def test_both_consumers_have_the_same_calls() -> None:
    assert public_calls(Consumer) == public_calls(aio.Consumer) - {"start"}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_has_the_same_arguments_and_result_in_both(name: str) -> None:
    blocking, awaited = getattr(Consumer, name), getattr(aio.Consumer, name)
    assert inspect.signature(blocking) == inspect.signature(awaited)
    assert not inspect.iscoroutinefunction(blocking)
    assert blocking.__name__ == name
    if name != "poll_arrow":  # the type of its result is imported only for type checkers
        hints: dict[str, Any] = get_type_hints(blocking)
        assert hints == get_type_hints(awaited)
        assert "return" in hints


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_documented_and_in_the_same_words_in_both(name: str) -> None:
    blocking, awaited = inspect.getdoc(getattr(Consumer, name)), inspect.getdoc(getattr(aio.Consumer, name))
    assert blocking and awaited
    if name not in ("commit_async", "wakeup"):  # these name a thread or a task
        assert blocking == awaited
