"""Offset topic: the bytes of Kafka Connect 4.3, by which it finds an offset."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.stores import json_bytes
from moldau.connect.stores.offset_store import OffsetState, offset_key, offset_value, parse_key
from moldau.service.state_topic import StateRecord


def stored(state: OffsetState, connector: str) -> list[tuple[object, object]]:
    return [(dict(partition), dict(offset)) for partition, offset in state.offsets(connector)]


def test_what_we_write_has_the_bytes_of_kafka_connect() -> None:
    assert offset_key("src", {"filename": "/tmp/in.txt"}) == b'["src",{"filename":"/tmp/in.txt"}]'
    assert offset_value({"position": 14}) == b'{"position":14}'
    assert offset_value(None) is None


def test_text_is_escaped_as_kafka_connect_does() -> None:
    # Jackson's rules: letters of all scripts as they are, control characters with capital digits.
    assert json_bytes.encode({"ž/": 'a"\\u001f\x1f\x7f\n'}) == b'{"\xc5\xbe/":"a\\"\\\\u001f\\u001F\x7f\\n"}'


@given(st.text(), st.dictionaries(st.text(), st.integers() | st.text() | st.none() | st.booleans()))
def test_every_key_is_read_back(name: str, partition: dict[str, object]) -> None:
    try:
        key = offset_key(name, partition)
    except UnicodeEncodeError:
        return  # half a surrogate pair is in no file name and no JSON text
    assert parse_key(key) == (name, partition)


def test_the_newest_offset_of_each_partition_counts_until_its_tombstone() -> None:
    state = OffsetState()
    for offset, (part, value) in enumerate([("x", 1), ("y", 5), ("x", 2)]):
        state.apply(StateRecord(0, offset, 0, offset_key("a", {"f": part}), offset_value({"p": value})))
    assert stored(state, "a") == [({"f": "x"}, {"p": 2}), ({"f": "y"}, {"p": 5})]
    state.apply(StateRecord(0, 3, 0, offset_key("a", {"f": "x"}), None))
    assert stored(state, "a") == [({"f": "y"}, {"p": 5})]
    assert state.reset_entries("a") == [(b'["a",{"f":"y"}]', None)]


def test_a_partition_keeps_the_bytes_that_are_in_the_topic() -> None:
    state = OffsetState()
    key = b'["a",{"server":"s","database":"d"}]'
    state.apply(StateRecord(0, 0, 0, key, b"{}"))
    assert state.entry("a", {"database": "d", "server": "s"}, {"lsn": 1}) == (key, b'{"lsn":1}')
    assert state.entry("b", {"database": "d", "server": "s"}, {}) == (b'["b",{"database":"d","server":"s"}]', b"{}")


@pytest.mark.parametrize("key", [None, b"", b"x", b"{}", b'["a"]', b'["a",{},1]', b"[1,{}]", b'["a",[]]', b"\xff"])
def test_a_key_of_a_wrong_format_changes_nothing(key: bytes | None) -> None:
    state = OffsetState()
    state.apply(StateRecord(0, 0, 0, key, b"{}"))
    assert stored(state, "a") == []


def test_an_offset_that_is_no_object_keeps_the_one_before() -> None:
    state = OffsetState()
    for value in (json.dumps({"p": 1}).encode(), b"7", b"no json"):
        state.apply(StateRecord(0, 0, 0, offset_key("a", {}), value))
    assert stored(state, "a") == [({}, {"p": 1})]
