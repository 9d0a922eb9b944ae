"""Date patterns: what is refused, and a round trip over all times that 64 bits hold."""

from __future__ import annotations

import base64

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.config_def import ConfigError
from moldau.connect.transforms.date_patterns import DatePattern
from moldau.connect.transforms.java_casts import base64_text, float_text

MAX_MS = 250_000_000 * 365 * 86_400_000


@pytest.mark.parametrize(("pattern", "letters"), [("YYYY", "Y"), ("ww", "w"), ("yyyy-MM-dd B", "B"), ("W Q", "Q, W")])
def test_letters_that_are_not_supported_are_named(pattern: str, letters: str) -> None:
    with pytest.raises(ConfigError, match=f"not supported: {letters}"):
        DatePattern(pattern)


def test_a_quote_without_its_pair_is_refused() -> None:
    with pytest.raises(ConfigError, match="quote"):
        DatePattern("yyyy'T")


@given(st.lists(st.none() | st.integers(-62_000_000_000_000, MAX_MS), max_size=5))
def test_text_of_a_time_gives_the_time_again(times: list[int | None]) -> None:
    pattern = DatePattern("yyyy-MM-dd'T'HH:mm:ss.SSSXXX")
    array = pa.array(times, pa.int64())
    parsed, bad = pattern.parse(pattern.format(array))
    assert parsed.to_pylist() == times
    assert not any(bad.to_pylist())


def test_rows_that_do_not_match_are_marked_and_null_is_not() -> None:
    _, bad = DatePattern("yyyy-MM-dd").parse(pa.array(["2024-01-01", "yesterday", None, ""]))
    assert bad.to_pylist() == [False, True, False, True]


@given(st.lists(st.none() | st.floats(), max_size=5))
def test_text_of_a_number_gives_the_number_again(numbers: list[float | None]) -> None:
    texts = float_text(pa.array(numbers, pa.float64())).to_pylist()
    for number, text in zip(numbers, texts, strict=True):
        assert (number is None) == (text is None)
        if number is not None and text is not None:
            assert str(float(text.replace("Infinity", "inf"))) == str(number)


@given(st.lists(st.none() | st.binary(max_size=7), max_size=6), st.integers(0, 2))
def test_base64_of_a_column_is_that_of_its_rows(rows: list[bytes | None], skipped: int) -> None:
    array = pa.array(rows, pa.binary()).slice(skipped)
    expected = [None if row is None else base64.b64encode(row).decode() for row in rows[skipped:]]
    assert base64_text(array).to_pylist() == expected
