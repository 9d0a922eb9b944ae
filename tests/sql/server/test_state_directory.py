"""State directory of SQL servers: whose it is, and what it never does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moldau.sql.errors import SqlError
from moldau.sql.server.state_directory import MARKER, StateDirectory


def test_the_first_server_marks_it_and_servers_of_the_same_cluster_share_it(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    StateDirectory(directory).claim("cluster-1")
    StateDirectory(directory).claim("cluster-1")
    assert json.loads((directory / MARKER).read_text()) == {"cluster_id": "cluster-1"}
    assert [path.name for path in directory.iterdir()] == [MARKER]


def test_the_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    StateDirectory(tmp_path).claim("cluster-1")
    with pytest.raises(SqlError, match=r"belongs to cluster cluster-1, and the brokers are cluster cluster-2.*--state"):
        StateDirectory(tmp_path).claim("cluster-2")
    assert json.loads((tmp_path / MARKER).read_text()) == {"cluster_id": "cluster-1"}


@pytest.mark.parametrize("content", ["", "[]", "{}", "no json"])
def test_a_damaged_marker_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / MARKER).write_text(content)
    with pytest.raises(SqlError, match="state directory"):
        StateDirectory(tmp_path).claim("cluster-1")


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SqlError, match="cannot be used"):
        StateDirectory(tmp_path / "file").claim("cluster-1")


@pytest.mark.parametrize("query", ["", ".", "..", "../other", "a/b", "/etc", "a\x00b", "x" * 101])
def test_an_id_that_leads_out_of_the_directory_is_refused(tmp_path: Path, query: str) -> None:
    state = StateDirectory(tmp_path / "state")
    keep = tmp_path / "other"
    keep.mkdir()
    for call in (state.checkpoint, state.spark_id, state.remove):
        with pytest.raises(SqlError, match="not one of Moldau's"):
            call(query)
    assert keep.exists()


def test_state_of_a_query_is_found_and_removed(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    assert state.queries() == set()
    checkpoint = Path(state.checkpoint("q1"))
    assert state.spark_id("q1") is None
    (checkpoint / "metadata").write_text('{"id": "abc"}')
    assert state.spark_id("q1") == "abc"
    state.checkpoint("q2")
    assert state.queries() == {"q1", "q2"}
    state.remove("q1")
    state.remove("q1")
    assert state.queries() == {"q2"}


def test_a_damaged_checkpoint_is_an_error_with_its_path(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    (Path(state.checkpoint("q")) / "metadata").write_text("{")
    with pytest.raises(SqlError, match=str(tmp_path)):
        state.spark_id("q")
