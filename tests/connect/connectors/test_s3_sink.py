"""Confluent's S3 sink on a real S3 server: conditional puts, copies inside the store, takeovers and crashes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest

from moldau.client.data_types import TopicPartition
from moldau.connect.config_def import ConfigError
from moldau.connect.connector import RetriableError, TakenOverError
from moldau.connect.connectors import file_sink
from moldau.connect.connectors.file_sink import S3Sink
from moldau.connect.connectors.file_store import FileStore, open_store
from tests.connect.connectors.crashing_store import Crash, CrashingStore
from tests.connect.connectors.s3_server import BUCKET, S3Server, running_s3_server
from tests.connect.connectors.support import Writer, created_from

pytestmark = pytest.mark.needs_versitygw

A, B = TopicPartition("a", 0), TopicPartition("a", 1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_s3_server(tmp_path_factory.mktemp("s3") / "objects") as running:
        yield running


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return request.node.name.replace("[", "-").replace("]", "")


def settings(server: S3Server, prefix: str, **more: Any) -> dict[str, Any]:
    return {
        **server.settings,
        "topics.dir": prefix,
        "flush.size": 4,
        "rotate.schedule.interval.ms": 0,
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        **more,
    }


def published(server: S3Server, prefix: str) -> dict[str, list[int]]:
    root = server.directory / prefix
    files = [path for path in root.rglob("*.parquet") if "_moldau" not in path.parts]
    return {str(path.relative_to(root)): pq.read_table(path).column("n").to_pylist() for path in sorted(files)}


def test_objects_with_the_names_of_confluent(server: S3Server, prefix: str) -> None:
    driver = Writer(created_from(S3Sink, settings(server, prefix)), {A: 6, B: 2})
    driver.step()
    assert published(server, prefix) == {
        "a/partition=0/a+0+0000000000.snappy.parquet": [0, 1, 2, 3],
        "a/partition=0/a+0+0000000004.snappy.parquet": [4, 5],
        "a/partition=1/a+1+0000000000.snappy.parquet": [0, 1],
    }
    again = Writer(created_from(S3Sink, settings(server, prefix)), {A: 6, B: 2})
    assert again.connector.written_offsets() == {A: 6, B: 2}
    assert not again.step()


def test_an_object_is_created_only_once(server: S3Server, prefix: str) -> None:
    won: list[int] = []
    barrier = threading.Barrier(4)
    stores = [open_store(f"s3://{BUCKET}/{prefix}", server.options) for _ in range(4)]

    def race(number: int) -> None:
        for turn in range(5):
            barrier.wait()
            if stores[number].create(f"{turn}", b"%d" % number):
                won.append(turn)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == list(range(5))


def test_a_put_whose_answer_was_lost_counts_as_won(server: S3Server, prefix: str) -> None:
    store = open_store(f"s3://{BUCKET}/{prefix}", server.options)
    assert store.create("1", b"mine")
    assert store.create("1", b"mine")
    assert not store.create("1", b"theirs")


def test_a_process_that_slept_through_a_takeover_publishes_nothing(server: S3Server, prefix: str) -> None:
    old = Writer(created_from(S3Sink, settings(server, prefix)), {A: 4})
    asleep = old.written()
    new = Writer(created_from(S3Sink, settings(server, prefix)), {A: 6})
    new.step()
    before = published(server, prefix)
    with pytest.raises(TakenOverError):
        old.connector.commit(asleep)
    assert published(server, prefix) == before


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_step_loses_and_doubles_nothing(
    server: S3Server, prefix: str, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    for operation in range(1, 10):
        place = f"{prefix}-{operation}"
        store = CrashingStore(open_store(f"s3://{BUCKET}/{place}", server.options), operation, after=after)

        def opened(url: str, options: object, store: FileStore = store) -> FileStore:
            return store

        with monkeypatch.context() as patch:
            patch.setattr(file_sink, "open_store", opened)
            try:
                Writer(created_from(S3Sink, settings(server, place)), {A: 6, B: 2}).step()
            except Crash:
                pass
        second = Writer(created_from(S3Sink, settings(server, place)), {A: 7, B: 2})
        while second.step():
            pass
        files = published(server, place)
        mine = [number for name, numbers in files.items() if "partition=0/" in name for number in numbers]
        assert sorted(mine) == list(range(7))
        if not store.crashed:
            assert operation >= 6
            return
    raise AssertionError("the crash never moved past the end")


def test_a_server_that_is_away_is_an_error_that_may_go_away(
    server: S3Server, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 1)
    away = settings(server, prefix) | {"store.url": "http://127.0.0.1:9"}
    with pytest.raises(RetriableError, match="does not answer"):
        created_from(S3Sink, away).start()


def test_wrong_keys_are_an_error_without_the_keys(server: S3Server, prefix: str) -> None:
    wrong = settings(server, prefix) | {"aws.secret.access.key": "not-the-secret"}
    with pytest.raises(PermissionError) as caught:
        created_from(S3Sink, wrong).start()
    assert "not-the-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flush.size", "0"),
        ("format.class", "com.example.MyFormat"),
        ("schema.compatibility", "BACKWARD"),
        ("partitioner.class", "com.example.MyPartitioner"),
        ("s3.compression.type", "zip"),
    ],
)
def test_a_setting_that_is_not_honoured_is_named(name: str, value: str) -> None:
    given = {"s3.bucket.name": "b", "flush.size": 1, "format.class": "json", name: value}
    with pytest.raises(ConfigError, match=name):
        created_from(S3Sink, given)
    assert set(S3Sink.config_def.unknown(["s3.ssea.name", "s3.object.tagging"])) == {
        "s3.ssea.name",
        "s3.object.tagging",
    }
