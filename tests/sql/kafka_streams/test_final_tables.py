"""Kafka Streams as the judge of tables: the same random changes give the same final tables."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.compat.apache_kafka.jars import JVM_FLAGS, JarsUnavailableError, fetch_jars
from tests.sql.continuous.conftest import Declare, settled

if TYPE_CHECKING:
    from moldau.sql.continuous import ContinuousPlan
    from moldau.sql.session import SqlSession

PROGRAM = Path(__file__).with_name("FinalTables.java")
POM = Path(__file__).with_name("pom.xml")
TIMEOUT_S = 240

QUERIES = {
    "inner": "SELECT a.id, concat(region, ',', credit, '|', name) AS v FROM {a} a JOIN {b} b ON a.id = b.id",
    "left": "SELECT a.id, concat(concat_ws(',', region, credit), '|', coalesce(name, 'null')) AS v"
    " FROM {a} a LEFT JOIN {b} b ON a.id = b.id",
    "outer": "SELECT coalesce(a.id, b.id) AS id, concat(coalesce(nullif(concat_ws(',', region, credit), ''), 'null'),"
    " '|', coalesce(name, 'null')) AS v FROM {a} a FULL JOIN {b} b ON a.id = b.id",
    "regions": "SELECT region, count(*) AS n, sum(credit) AS total FROM {a} GROUP BY region",
}

Change = tuple[str, str, str | None]


def random_changes(chance: random.Random, count: int) -> list[Change]:
    """Of both tables; a quarter are deletions."""
    changes: list[Change] = []
    for _ in range(count):
        table, key = chance.choice("ab"), f"k{chance.randrange(8)}"
        value = f"{chance.choice(['eu', 'us', 'ap'])},{chance.randrange(-5, 100)}"
        if table == "b":
            value = chance.choice(["x", "y", "z"])
        changes.append((table, key, None if chance.random() < 0.25 else value))
    return changes


def judged(changes: Sequence[Change], state: Path) -> dict[str, dict[str, str]]:
    """The final tables of Kafka Streams, by name."""
    try:
        jars = fetch_jars(POM)
    except JarsUnavailableError as reason:
        pytest.skip(f"Kafka Streams cannot be had: {reason}")
    lines = "".join(f"{table}\t{key}\t{'-' if value is None else value}\n" for table, key, value in changes)
    command = ["java", *JVM_FLAGS, "-cp", f"{jars.directory}/*", str(PROGRAM), str(state)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, str]] = {name: {} for name in ("inner", "left", "outer", "count", "sum")}
    for line in done.stdout.splitlines():
        table, key, value = line.split("\t")
        found[table][key] = value
    return found


@pytest.mark.needs_java
@pytest.mark.timeout(900)
def test_joins_and_aggregates_of_tables_end_like_those_of_kafka_streams(
    session: SqlSession,
    declare: Declare,
    planned: Callable[[str], ContinuousPlan],
    records: Callable[..., None],
    name: str,
    seed: int,
    count: Callable[[int, int], int],
    tmp_path: Path,
) -> None:
    changes = random_changes(random.Random(seed), count(60, 5000))
    streams = judged(changes, tmp_path / "state")
    names = {"a": f"{name}a", "b": f"{name}b"}
    for table, topic in names.items():
        records(topic, [(value, key) for one, key, value in changes if one == table], partitions=2)
    declare("TABLE", names["a"], "id STRING, region STRING, credit BIGINT", key="id", value_format="csv")
    declare("TABLE", names["b"], "id STRING, name STRING", key="id", value_format="string")
    found: dict[str, dict[Any, Any]] = {}
    for query, text in QUERIES.items():
        rows = settled(session, planned(text.format(**names) + " EMIT CHANGES"), text.format(**names))
        found[query] = {row[0]: row[1:] for row in rows}
    for join in ("inner", "left", "outer"):
        assert found[join] == {key: (value,) for key, value in streams[join].items()}
    # Kafka Streams keeps a group without rows, with a count of 0.
    groups = {key: int(value) for key, value in streams["count"].items() if value != "0"}
    assert found["regions"] == {key: (rows, int(streams["sum"][key])) for key, rows in groups.items()}
