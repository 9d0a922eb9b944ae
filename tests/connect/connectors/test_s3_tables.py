"""Files and tables on a real S3 server: read as a source, and written as Delta and Iceberg tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.client.data_types import TopicPartition
from moldau.connect.connector import TakenOverError
from moldau.connect.connectors.delta_sink import DeltaSink
from moldau.connect.connectors.file_source import FileSource
from moldau.connect.connectors.iceberg_sink import IcebergSink
from tests.connect.connectors.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server, running_s3_server
from tests.connect.connectors.support import Reader, Writer, created_from

pytestmark = pytest.mark.needs_versitygw

A = TopicPartition("a", 0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_s3_server(tmp_path_factory.mktemp("s3") / "objects") as running:
        yield running


def delta_options(server: S3Server) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ENDPOINT_URL": server.url,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "aws_conditional_put": "etag",
    }


def lake(server: S3Server, place: str) -> dict[str, Any]:
    options = json.dumps(server.options)
    return {"path": f"s3://{BUCKET}/{place}", "storage.options": options, "rotate.schedule.interval.ms": 0}


def test_objects_are_read_and_moved(server: S3Server) -> None:
    inbox = server.directory / "in"
    inbox.mkdir()
    for number in range(3):
        rows = range(number * 100, number * 100 + 100)
        (inbox / f"{number}.csv").write_text("n,text\n" + "".join(f"{n},row {n}\n" for n in rows))
    settings = {
        "path": f"s3://{BUCKET}/in/*.csv",
        "topic": "t",
        "storage.options": json.dumps(server.options),
        "split.bytes": 500,
        "tasks.max": 2,
        "scan.interval.ms": 0,
        "files.idle.ms": 0,
        "after.read": "move",
        "move.to": f"s3://{BUCKET}/done",
    }
    reader = Reader(created_from(FileSource, settings))
    rows: list[int] = []
    while found := reader.rows():
        rows += [row["n"] for row in found]
    for _ in range(4):
        assert reader.rows() == []
    assert sorted(rows) == list(range(300))
    assert sorted(path.name for path in (server.directory / "done").iterdir()) == ["0.csv", "1.csv", "2.csv"]
    assert not list(inbox.glob("*.csv"))


def test_a_delta_table(server: S3Server) -> None:
    from deltalake import DeltaTable

    settings = lake(server, "delta") | {"delta.storage.options": json.dumps(delta_options(server))}
    old = Writer(created_from(DeltaSink, settings), {A: 5})
    old.step()
    old.ends = {A: 9}
    asleep = old.written()
    new = Writer(created_from(DeltaSink, settings), {A: 7})
    new.step()
    with pytest.raises(TakenOverError):
        old.connector.commit(asleep)
    table = DeltaTable(f"s3://{BUCKET}/delta/a", storage_options=delta_options(server))
    assert sorted(table.to_pyarrow_table().column("n").to_pylist()) == list(range(7))


def test_an_iceberg_table(server: S3Server, tmp_path: Path) -> None:
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"s3://{BUCKET}/warehouse",
        "s3.endpoint": server.url,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "s3.region": "us-east-1",
    }
    settings = lake(server, "iceberg") | {f"iceberg.catalog.{name}": value for name, value in catalog.items()}
    driver = Writer(created_from(IcebergSink, settings), {A: 5})
    driver.step()
    again = Writer(created_from(IcebergSink, settings), {A: 7})
    again.step()
    table = created_from(IcebergSink, settings)._open("default.a")
    assert sorted(table.scan().to_arrow().column("n").to_pylist()) == list(range(7))
