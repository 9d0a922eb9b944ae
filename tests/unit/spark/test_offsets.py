from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.data_types import TopicPartition
from moldau.client.errors import IllegalStateError
from moldau.spark.offsets import StreamOffset
from moldau.spark.progress import lag

A0, A10, A2 = TopicPartition("a", 0), TopicPartition("a", 10), TopicPartition("a", 2)

names = st.text("abc.-_", min_size=1, max_size=5)
offset_maps = st.dictionaries(st.builds(TopicPartition, names, st.integers(0, 20)), st.integers(0, 1 << 60))


@given(offset_maps, st.dictionaries(names, st.text("0123456789abcdef", min_size=32, max_size=32)), st.booleans())
def test_an_offset_survives_the_checkpoint(
    offsets: dict[TopicPartition, int], ids: dict[str, str], first: bool
) -> None:
    offset = StreamOffset(offsets, ids, initial=first, began=offsets if first else None)
    assert StreamOffset.from_json(json.loads(json.dumps(offset.as_json()))) == offset


@given(st.permutations([(A0, 1), (A10, 2), (A2, 3)]))
def test_equal_offsets_are_equal_texts(items: list[tuple[TopicPartition, int]]) -> None:
    assert json.dumps(StreamOffset(dict(items), {"a": "1"}).as_json()) == (
        '{"a": {"0": 1, "2": 3, "10": 2}, "@ids": {"a": "1"}}'
    )


def test_a_checkpoint_of_sparks_own_connector_is_understood() -> None:
    assert StreamOffset.from_json({"a": {"10": 2, "0": 1}}) == StreamOffset({A0: 1, A10: 2})


@pytest.mark.parametrize("value", [{"a": 3}, {"a": {"x": 3}}, {"logOffset": 5}, {"a": {"0": None}}])
def test_a_checkpoint_of_another_format_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(IllegalStateError, match="did not write"):
        StreamOffset.from_json(value)


def test_positions_are_compared_by_offsets_and_ids_only() -> None:
    here = StreamOffset({A0: 1}, {"a": "1"})
    assert here.same_place(StreamOffset({A0: 1}, {"a": "1"}, initial=True))
    assert not here.same_place(StreamOffset({A0: 2}, {"a": "1"}))
    assert not here.same_place(StreamOffset({A0: 1}, {"a": "2"}))


def test_lag_is_the_number_of_unread_records() -> None:
    ours = {"endOffset": '{"a": {"0": 5}, "@ids": {"a": "1"}}', "latestOffset": '{"a": {"0": 12, "2": 4}}'}
    rates = {"endOffset": "7", "latestOffset": "9"}
    silent = {"endOffset": '{"a": {"0": 5}}', "latestOffset": None}
    assert lag({"sources": [ours, rates, silent]}) == {A0: 7, A2: 4}
    assert lag({"sources": [{"endOffset": {"a": {"0": 5}}, "latestOffset": {"a": {"0": 5}}}]}) == {A0: 0}
    assert lag(None) == {}
