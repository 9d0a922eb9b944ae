"""Lines of one file: offsets of Kafka's connector, incomplete lines, every kind of line end, and files that change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.errors import MoldauError
from moldau.connect.config_def import ConfigError
from moldau.connect.connectors import file_stream_source, text_lines
from moldau.connect.connectors.file_stream_source import FileChangedError, FileStreamSource
from moldau.connect.connectors.text_lines import LineTooLongError, line_array, line_boundary
from tests.connect.connectors.support import Reader, created


def source(path: Path) -> FileStreamSource:
    return created(FileStreamSource, file=path, topic="lines")


def at(path: Path, position: object) -> dict[str, tuple[dict[str, str], dict[str, object]]]:
    return {"x": ({"filename": str(path)}, {"position": position})}


def test_lines_with_the_offsets_of_kafka(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes("first\nžluťoučký\n\nlast\n".encode())
    reader = Reader(source(path))
    assert reader.rows() == ["first", "žluťoučký", "", "last"]
    assert list(reader.stored()) == [({"filename": str(path)}, {"position": path.stat().st_size})]
    assert reader.rows() == []


def test_a_file_that_does_not_exist_yet_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "later.txt"
    reader = Reader(source(path))
    assert reader.rows() == []
    path.write_text("now\n")
    assert reader.rows() == ["now"]


def test_the_last_line_is_read_when_its_end_is_there(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"one\ntw")
    reader = Reader(source(path))
    assert reader.rows() == ["one"]
    assert reader.rows() == []
    with path.open("ab") as file:
        file.write(b"o\r")
    assert reader.rows() == []
    with path.open("ab") as file:
        file.write(b"\nthree\rfour")
    assert reader.rows() == ["two", "three"]


def test_a_stored_position_of_kafka_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("one\ntwo\nthree\n")
    assert Reader(source(path), at(path, 4)).rows() == ["two", "three"]
    assert Reader(source(path), at(path, None)).rows() == ["one", "two", "three"]


@pytest.mark.parametrize("position", [-1, "4", 1.5, True])
def test_a_stored_position_that_is_no_number_of_bytes_is_an_error(tmp_path: Path, position: object) -> None:
    path = tmp_path / "in.txt"
    path.write_text("one\n")
    with pytest.raises(MoldauError, match="position"):
        Reader(source(path), at(path, position)).rows()


def test_a_file_shorter_than_its_position_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("one\ntwo\n")
    reader = Reader(source(path))
    reader.rows()
    path.write_text("new\n")
    assert reader.rows() == []


def test_a_file_truncated_between_plan_and_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("one\ntwo\n")
    connector = source(path)
    (part,) = connector.slices(Reader(connector).stored())
    path.write_text("one\n")
    with pytest.raises(FileChangedError, match="truncated"):
        list(connector.read(part))


def test_a_big_file_is_cut_at_line_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_stream_source, "SLICE_BYTES", 1000)
    monkeypatch.setattr(text_lines, "_SEARCH_BYTES", 64)
    lines = [f"{number:>{number % 400}}" for number in range(300)] + ["x" * 5000, "end"]
    path = tmp_path / "in.txt"
    path.write_text("".join(line + "\n" for line in lines))
    reader = Reader(source(path))
    found: list[str] = []
    for _ in range(100):
        rows = reader.rows()
        assert len(reader.slices) <= file_stream_source.MAX_SLICES
        if not rows:
            break
        found += rows
    assert found == lines


def test_bytes_that_are_no_text_become_replacement_characters(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"caf\xe9\nok\n")
    assert Reader(source(path)).rows() == ["caf\ufffd", "ok"]


def test_a_file_without_line_ends_is_an_error_at_some_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lines, "MAX_LINE_BYTES", 100_000)
    monkeypatch.setattr(file_stream_source, "SLICE_BYTES", 1000)
    path = tmp_path / "in.bin"
    path.write_bytes(b"x" * 300_000)
    with pytest.raises(LineTooLongError, match="at byte 0"):
        Reader(source(path)).rows()


def test_standard_input_is_refused() -> None:
    with pytest.raises(ConfigError, match="standard input"):
        created(FileStreamSource, topic="lines")


@given(st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b"\xc3\xa9"])), st.integers(1, 9))
def test_lines_are_the_same_wherever_the_text_is_cut(pieces: list[bytes], step: int) -> None:
    text = b"".join(pieces)
    position, cut = 0, []
    while (end := line_boundary(lambda at, n: text[at : at + n], position, position + step, len(text))) > position:
        cut += line_array(text[position:end]).to_pylist()
        position = end
    # A `\r` that is the last byte may be half of a line end: the line before it is not complete.
    complete = text[:-1] + b"?" if text.endswith(b"\r") else text
    expected = complete.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")[:-1]
    assert [line.encode() for line in cut] == expected


@pytest.mark.parametrize(
    ("partition", "offset", "problem"),
    [
        ({"filename": "f"}, {"position": 3}, None),
        ({"filename": "f"}, None, None),
        ({"filename": "f"}, {"at": 3}, "should either be null or contain the key 'position'"),
        ({"filename": "f"}, {"position": "3"}, "expected to be a Long value"),
        ({"filename": "f"}, {"position": -3}, "non-negative"),
        (None, {"position": 3}, "Partition objects cannot be null"),
        ({"file": "f"}, {"position": 3}, "should contain the key 'filename'"),
    ],
)
def test_offsets_of_users_are_checked_as_in_kafka(partition: Any, offset: Any, problem: str | None) -> None:
    found = FileStreamSource.check_offsets({}, [(partition, offset)])
    assert found is None if problem is None else problem in str(found)
