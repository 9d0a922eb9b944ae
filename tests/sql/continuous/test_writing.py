"""Continuous queries that write topics: exactly once, with tombstones, and fenced once they are replaced."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from moldau import Consumer, TopicPartition
from moldau.sql.continuous import ContinuousPlan, progress_facts, start
from moldau.sql.declarations import Declaration
from moldau.sql.errors import SqlError
from tests.sql.continuous.conftest import DEADLINE_S, Declare, declaration
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@pytest.fixture
def settings(client_settings: dict[str, str]) -> dict[str, str]:
    return client_settings


def written(settings: dict[str, str], topic: str) -> list[tuple[Any, Any]]:
    """Keys and values of the committed records, in their order."""
    place = TopicPartition(topic, 0)
    found: list[tuple[Any, Any]] = []
    with Consumer({**settings, "isolation.level": "read_committed"}) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets(place)[place]
        while consumer.position(place) < end:
            for record in consumer.poll(timeout=1):
                value = None if record.value is None else json.loads(record.value)
                found.append((None if record.key is None else record.key.decode(), value))
    return found


def until_read(query: StreamingQuery, rows: int) -> None:
    """Wait until the query has processed so many rows."""

    def done() -> bool:
        if not query.isActive:
            raise AssertionError(str(query.exception()))
        return sum(int(one["numInputRows"]) for one in query.recentProgress) >= rows

    wait_until(done, f"{rows} rows read", DEADLINE_S)


def test_rows_of_a_stream_are_written_once_also_after_a_restart_and_bad_records_are_counted(
    declare: Declare,
    planned: Callable[[str], ContinuousPlan],
    records: Callable[..., None],
    settings: dict[str, str],
    name: str,
    tmp_path: Path,
) -> None:
    source, into = f"{name}s", f"{name}o"
    records(into, [])
    records(
        source, [({"customer": "c1", "amount": 5}, "o1"), (b"no json", "o2"), ({"customer": "c2", "amount": 1}, "o3")]
    )
    declare("STREAM", source, "id STRING, customer STRING, amount INT", key="id")
    target = declaration("STREAM", into, "customer STRING, amount INT, id STRING", key="id")
    text = f"SELECT id, customer, amount FROM {source} WHERE amount > 2 EMIT CHANGES"
    query = start(planned(text), target, settings, str(tmp_path / "cp"), f"{name}-1")
    until_read(query, 3)
    (first,) = [one for one in query.recentProgress if one["numInputRows"]]
    assert progress_facts(first)[0] == 3
    assert progress_facts(first)[2:] == (0, {"bad_records": 1})
    query.stop()
    assert written(settings, into) == [("o1", {"customer": "c1", "amount": 5})]
    records(source, [({"customer": "c3", "amount": 7}, "o4")])
    query = start(planned(text), target, settings, str(tmp_path / "cp"), f"{name}-2")
    until_read(query, 1)
    query.stop()
    assert written(settings, into) == [("o1", {"customer": "c1", "amount": 5}), ("o4", {"customer": "c3", "amount": 7})]


def test_a_table_is_written_with_tombstones_for_groups_that_vanish(
    declare: Declare,
    planned: Callable[[str], ContinuousPlan],
    records: Callable[..., None],
    settings: dict[str, str],
    name: str,
    tmp_path: Path,
) -> None:
    source, into = f"{name}t", f"{name}o"
    records(into, [], **{"cleanup.policy": "compact"})
    records(source, [({"region": "eu"}, "a"), ({"region": "us"}, "b"), ({"region": None}, "c")])
    declare("TABLE", source, "id STRING, region STRING", key="id")
    target = declaration("TABLE", into, "region STRING, n BIGINT", key="region")
    text = f"SELECT region, count(*) AS n FROM {source} GROUP BY region EMIT CHANGES"
    query = start(planned(text), target, settings, str(tmp_path / "cp"), f"{name}-1")
    until_read(query, 3)
    assert sorted(written(settings, into)) == [("eu", {"n": 1}), ("us", {"n": 1})]  # a null has no key
    query.stop()
    records(source, [({"region": "eu"}, "b")])
    query = start(planned(text), target, settings, str(tmp_path / "cp"), f"{name}-2")
    until_read(query, 1)
    query.stop()
    last: dict[Any, Any] = dict(written(settings, into))
    assert last == {"eu": {"n": 2}, "us": None}


@pytest.mark.parametrize("kind", ["append", "update"])
def test_a_run_that_was_replaced_makes_nothing_visible(
    kind: str,
    declare: Declare,
    planned: Callable[[str], ContinuousPlan],
    records: Callable[..., None],
    settings: dict[str, str],
    name: str,
    tmp_path: Path,
) -> None:
    """The first run has the checkpoint of the second one, as a driver that slept would: it has claimed the query, and
    has not committed anything before the second run claims it, too."""
    source, into = f"{name}s", f"{name}o"
    records(into, [])
    records(source, [])
    declare("STREAM", source, "id STRING, customer STRING", key="id")
    queries = {
        "append": f"SELECT id, customer FROM {source} EMIT CHANGES",
        "update": f"SELECT customer AS id, count(*) AS n FROM {source} GROUP BY customer EMIT CHANGES",
    }
    columns = {"append": "id STRING, customer STRING", "update": "id STRING, n BIGINT"}
    target: Declaration = declaration("STREAM", into, columns[kind], key="id")
    plan = planned(queries[kind])
    sleeper = start(plan, target, settings, str(tmp_path / "cp"), f"{name}-1")
    copy = tmp_path / "copy"
    # Spark refuses two runs of one checkpoint directory in one process, so the second has a copy with the same id.
    copy.mkdir()
    (copy / "metadata").write_bytes((tmp_path / "cp" / "metadata").read_bytes())
    from moldau.spark.claims import claim_checkpoint

    options = {f"kafka.{one}": value for one, value in settings.items()} | {"topic": into}
    claim_checkpoint(plan.spark, str(copy), options)
    records(source, [({"customer": "c1"}, "o1")])
    wait_until(lambda: not sleeper.isActive, "the end of the replaced run", DEADLINE_S)
    assert "another run of query" in str(sleeper.exception())
    assert written(settings, into) == []


def test_a_result_that_does_not_fit_its_target_is_refused(
    declare: Declare, planned: Callable[[str], ContinuousPlan], records: Callable[..., None], name: str, tmp_path: Path
) -> None:
    records(name, [])
    declare("STREAM", name, "id STRING, customer STRING", key="id")
    made = planned(f"SELECT id, customer FROM {name} EMIT CHANGES")
    with pytest.raises(SqlError, match="has no column customer"):
        start(made, declaration("STREAM", "other", "id STRING", key="id"), {}, str(tmp_path / "cp"), name)
    other = declaration("STREAM", "other", "id STRING, customer STRING, place STRING", key="place")
    with pytest.raises(SqlError, match="which is in the key of other"):
        start(made, other, {}, str(tmp_path / "cp"), name)
    assert not (tmp_path / "cp").exists()
