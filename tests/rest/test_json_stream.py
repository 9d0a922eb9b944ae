"""JSON objects in a stream: pieces of any size give the same values, and mistakes are found."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.rest.errors import ProxyError
from moldau.rest.json_stream import JsonStream

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def read(data: bytes, cuts: list[int], limit: int = 1 << 20) -> list[Any]:
    stream = JsonStream(limit)
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    found: list[Any] = []
    start = 0
    for end in ends:
        found += stream.feed(data[start:end])
        start = end
    return [*found, *stream.feed(b"", last=True)]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(st.text(), VALUES, max_size=3), max_size=6), st.lists(st.integers(0, 300), max_size=8))
def test_pieces_of_any_size_give_the_same_values(values: list[Any], cuts: list[int]) -> None:
    data = " ".join(json.dumps(value, ensure_ascii=False) for value in values).encode("utf-8", "surrogatepass")
    try:
        data.decode()
    except UnicodeDecodeError:
        with pytest.raises(ProxyError):
            read(data, cuts)
        return
    assert read(data, cuts) == values


@pytest.mark.parametrize(
    "data", [b'{"a":}', b"{'a': 1}", b'{"a": 1} nope', b'{"a": 1', b"\xff", b'{"a": NaN}', b"[1,,2]"]
)
def test_what_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(ProxyError) as caught:
        read(data, list(range(len(data))))
    assert caught.value.status == 400


def test_values_before_a_mistake_are_returned() -> None:
    stream = JsonStream(1000)
    values = stream.feed(b'{"a":1}{"b":2} oh no, this is not JSON', last=True)
    assert [next(values), next(values)] == [{"a": 1}, {"b": 2}]
    with pytest.raises(ProxyError):
        next(values)


def test_a_mistake_is_found_before_the_stream_ends() -> None:
    with pytest.raises(ProxyError):
        list(JsonStream(1000).feed(b'{"a" 1, and much more text that never becomes an object'))


def test_a_record_that_is_too_large_is_refused_before_it_is_complete() -> None:
    stream = JsonStream(1000)
    list(stream.feed(b'{"a":"' + b"x" * 900))
    with pytest.raises(ProxyError) as caught:
        list(stream.feed(b"x" * 100))
    assert caught.value.status == 413
