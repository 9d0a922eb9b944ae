"""File connectors and generated rows in the engine: from files to topics and from topics to files, each record once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from moldau import Producer
from moldau.connect.engine import ConnectorState
from tests.connect.engine.conftest import Worker
from tests.support.waiting import wait_until

JSON = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "true",
}
LINES = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}

Read = Callable[..., list[Any]]
Names = Callable[[], str]


def numbers(rows: int, topic: str, tasks: int = 2) -> dict[str, str]:
    return {
        **JSON,
        "connector.class": "datagen",
        "topic": topic,
        "quickstart": "numbers",
        "max.interval": "0",
        "iterations": str(rows),
        "batch.size": "700",
        "tasks.max": str(tasks),
    }


def rows_in(target: Path, form: str = "parquet") -> list[Any]:
    if not target.exists():
        return []
    directories = [one for one in target.iterdir() if one.name != "_moldau"]
    files = [str(path) for one in directories for path in one.rglob(f"*.{form}")]
    return ds.dataset(files, format=form).to_table().to_pylist() if files else []


def texts_in(directory: Path) -> dict[str, str]:
    """The visible text files of a topic. Staged files come and go elsewhere while a sink works."""
    return {path.name: path.read_text() for path in directory.rglob("*.txt")} if directory.exists() else {}


def payloads(records: list[Any]) -> list[Any]:
    return [json.loads(record.value)["payload"] for record in records]


def test_generated_rows_reach_parquet_files_exactly_once_over_restarts(
    worker: Worker, new_topic: Callable[..., str], unused_name: Names, tmp_path: Path, read: Read
) -> None:
    source, sink, topic = unused_name(), unused_name(), new_topic(3)
    target = tmp_path / "lake"
    worker.engine.start(source, numbers(2000, topic))
    settings = {"flush.size": "100", "rotate.schedule.interval.ms": "100", "path": str(target), "tasks.max": "2"}
    config = {**JSON, "connector.class": "FileSink", "topics": topic, **settings}
    for least in (1, 1500):
        worker.engine.start(sink, config)
        wait_until(lambda least=least: len(rows_in(target)) >= least)
        worker.stop(sink)
    worker.engine.start(sink, config)
    wait_until(lambda: len(rows_in(target)) >= 4000)
    worker.stop(source, sink)
    counts = Counter(row["number"] for row in rows_in(target))
    assert len(counts) == 4000
    assert set(counts.values()) == {1}
    assert sorted(counts) == sorted(row["number"] for row in payloads(read(topic)))


def test_lines_of_a_file_reach_another_file(
    worker: Worker, new_topic: Callable[..., str], unused_name: Names, tmp_path: Path
) -> None:
    source, sink, topic = unused_name(), unused_name(), new_topic(1)
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_text("one\ntwo\nincomplete")
    worker.engine.start(source, {**LINES, "connector.class": "FileStreamSource", "file": str(first), "topic": topic})
    worker.engine.start(sink, {**LINES, "connector.class": "FileStreamSink", "file": str(second), "topics": topic})
    wait_until(lambda: second.exists() and second.read_text() == "one\ntwo\n")
    worker.stop(source, sink)
    with first.open("a") as file:
        file.write(" no more\nthree\n")
    worker.engine.start(source, {**LINES, "connector.class": "FileStreamSource", "file": str(first), "topic": topic})
    worker.engine.start(sink, {**LINES, "connector.class": "FileStreamSink", "file": str(second), "topics": topic})
    wait_until(lambda: second.read_text() == "one\ntwo\nincomplete no more\nthree\n")
    worker.stop(source, sink)


def test_files_of_a_directory_reach_a_topic_once_and_are_moved(
    worker: Worker, new_topic: Callable[..., str], unused_name: Names, tmp_path: Path, read: Read
) -> None:
    name, topic = unused_name(), new_topic(1)
    inbox, done = tmp_path / "in", tmp_path / "done"
    inbox.mkdir()
    for number in range(3):
        rows = range(number * 1000, number * 1000 + 1000)
        (inbox / f"{number}.csv").write_text("n,text\n" + "".join(f"{n},row {n}\n" for n in rows))
    settings = {"path": str(inbox), "after.read": "move", "move.to": str(done), "files.idle.ms": "0"}
    config = {**JSON, "connector.class": "FileSource", "topic": topic, "tasks.max": "3", "split.bytes": "3000"}
    worker.engine.start(name, config | settings)
    wait_until(lambda: done.exists() and len(list(done.iterdir())) == 3)
    (inbox / "2.csv").write_text("n,text\n3000,again\n")
    wait_until(lambda: (done / "2.csv.1").exists())
    worker.stop(name)
    assert sorted(row["n"] for row in payloads(read(topic))) == list(range(3001))


def test_records_wait_for_a_full_file(
    worker: Worker, bootstrap: str, new_topic: Callable[..., str], unused_name: Names, tmp_path: Path
) -> None:
    name, topic = unused_name(), new_topic(1)
    target = tmp_path / "s3"
    config = {**LINES, "connector.class": "io.confluent.connect.hdfs.HdfsSinkConnector", "topics": topic}
    settings = {"hdfs.url": str(target), "flush.size": "4", "format.class": "StringFormat", "topics.dir": ""}
    worker.engine.start(name, config | settings)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(7):
            producer.send(topic, str(number).encode())
    wait_until(lambda: texts_in(target / topic))
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"7")
    wait_until(lambda: len(texts_in(target / topic)) == 2)
    worker.stop(name)
    assert texts_in(target / topic) == {
        f"{topic}+0+0000000000+0000000003.txt": "0\n1\n2\n3\n",
        f"{topic}+0+0000000004+0000000007.txt": "4\n5\n6\n7\n",
    }


def test_a_sink_that_was_replaced_in_its_target_recovers_and_doubles_nothing(
    worker: Worker, bootstrap: str, new_topic: Callable[..., str], unused_name: Names, tmp_path: Path
) -> None:
    name, topic = unused_name(), new_topic(1)
    target = tmp_path / "lake"
    settings = {"path": str(target), "format": "text", "rotate.schedule.interval.ms": "0"}
    worker.engine.start(name, {**LINES, "connector.class": "FileSink", "topics": topic, **settings})
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"before")
    wait_until(lambda: list(texts_in(target / topic).values()) == ["before\n"])
    commits = target / "_moldau" / name / "commits"
    last = max(commits.iterdir())
    later = commits / f"{int(last.stem) + 1:020d}.json"
    later.write_text(last.read_text().replace(f'"commit":{int(last.stem)}', f'"commit":{int(last.stem) + 1}'))
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"after")
    worker.wait_for_report(name, ConnectorState.RESTARTING)
    worker.engine.restart(name)
    wait_until(lambda: sorted(texts_in(target / topic).values()) == ["after\n", "before\n"])
    worker.stop(name)


def test_offsets_that_the_user_resets_are_reset_in_the_target(
    worker: Worker, bootstrap: str, new_topic: Callable[..., str], unused_name: Names, tmp_path: Path
) -> None:
    name, topic = unused_name(), new_topic(1)
    target = tmp_path / "lake"
    settings = {"path": str(target), "format": "text", "rotate.schedule.interval.ms": "0"}
    config = {**LINES, "connector.class": "FileSink", "topics": topic, **settings}
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"once")
    worker.engine.start(name, config)
    wait_until(lambda: list(texts_in(target / topic).values()) == ["once\n"])
    worker.stop(name)
    (path,) = (target / topic).rglob("*.txt")
    path.unlink()
    worker.engine.change_offsets(
        name, config, [({"kafka_topic": topic, "kafka_partition": 0}, {"kafka_offset": 0})]
    ).result(60)
    worker.engine.start(name, config)
    wait_until(lambda: list(texts_in(target / topic).values()) == ["once\n"])
    worker.stop(name)
