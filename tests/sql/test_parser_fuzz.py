"""Random texts for the parser: it gives statements or a SqlError with a place in the text, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.sql.errors import SqlError
from moldau.sql.parser import is_complete, parse
from moldau.sql.shell.completion import KnownNames, candidates
from moldau.sql.statements import EVENT_TIME, SelectStatement, Statement
from moldau.sql.text_positions import SourceText, TextEdit, TextPosition
from moldau.sql.tokens import UnclosedError, tokenise

WORDS = (
    "SELECT * FROM a b WHERE GROUP BY HAVING ORDER LIMIT 5 JOIN ON AS UNION WINDOW TUMBLING HOPPING SESSION ( ) SIZE "
    "ADVANCE GRACE PERIOD 10 MINUTES DAY WITHIN EMIT CHANGES FINAL AT OFFSET TIMESTAMP 'x' PARTITION , . = ; CREATE OR "
    "REPLACE STREAM TABLE IF NOT EXISTS INT STRING ARRAY < > STRUCT MAP DECIMAL : KEY PRIMARY WITH topic format key "
    "INSERT INTO VALUES SHOW LIST TOPICS DESCRIBE EXTENDED FUNCTION PRINT BEGINNING EXPLAIN PAUSE QUERY ALL DROP "
    "DELETE TOPIC SET UNSET DEFINE ${x} UNDEFINE RUN SCRIPT WINDOWSTART WINDOWEND ` \" ' /* */ -- [ ] { } - \\ 1.5e3 ž"
)
STARTS = (
    "", "SELECT * FROM a ", "SELECT WINDOWSTART FROM a WINDOW ", "CREATE STREAM s ",
    "CREATE TABLE t AS SELECT * FROM a ",
    "INSERT INTO a ", "CREATE STREAM s WITH (", "CREATE TABLE t (", "SELECT * FROM a WINDOW TUMBLING (SIZE 1 DAY) ",
)  # fmt: skip
PARTS = st.one_of(st.sampled_from(WORDS.split()), st.sampled_from([" ", "\n", "\t"]), st.text(max_size=3))
TEXTS = st.builds(lambda start, parts: start + " ".join(parts), st.sampled_from(STARTS), st.lists(PARTS, max_size=30))


@pytest.mark.timeout(120)
@given(text=TEXTS)
def test_any_text_gives_statements_or_an_error_with_its_place(text: str) -> None:
    lines = text.split("\n")
    found: list[Statement] = []
    failure: SqlError | None = None
    try:
        found = parse(text, {"x": "a"})
    except SqlError as error:
        failure = error
    if failure is not None:
        assert failure.line is not None
        assert failure.column is not None
        assert 1 <= failure.line <= len(lines)
        assert 1 <= failure.column <= len(lines[failure.line - 1]) + 1
    for statement in found:
        assert 1 <= statement.position.line <= len(lines)
        if isinstance(statement, SelectStatement):
            assert EVENT_TIME not in statement.query.with_event_time("`t`").text


@given(text=TEXTS, cut=st.integers(0, 200))
def test_completion_never_fails(text: str, cut: int) -> None:
    size, _ = candidates(text[:cut], text[cut:], KnownNames(("a",), ("q",), {"a": ("c",)}, ("f",)))
    assert 0 <= size <= len(text[:cut])


@given(text=TEXTS)
def test_tokens_are_where_they_say(text: str) -> None:
    try:
        tokens = tokenise(SourceText(text))
    except UnclosedError:
        assert not is_complete(text)
        return
    for token in tokens:
        assert text[token.start : token.end] == token.text
        line = text.split("\n")[token.position.line - 1]
        assert line[token.position.column - 1 :].startswith(token.text.split("\n")[0])
    assert is_complete(text) == (not tokens or tokens[-1].text == ";")


@given(text=st.text("ab\n", max_size=40), cuts=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), max_size=4))
def test_characters_that_are_kept_keep_their_places_when_a_text_is_edited(
    text: str, cuts: list[tuple[int, int]]
) -> None:
    """Every character is different, so that it can be found again after two rounds of edits."""
    places: dict[str, TextPosition] = {}
    marked = ""
    position = TextPosition()
    for number, char in enumerate(text):
        own = "\n" if char == "\n" else chr(0x4E00 + number)
        places[own] = position
        marked += own
        position = position.after(own)
    source = SourceText(marked)
    for start, length in cuts:
        at = min(start, len(source.text))
        source = source.edited([TextEdit(at, min(at + length, len(source.text)), "xy\nz")])
    for offset, char in enumerate(source.text):
        if char not in "xyz\n":
            assert source.position(offset) == places[char]
