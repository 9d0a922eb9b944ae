"""Configurations of the file connectors as users of Kafka Connect have them, through the worker's validation."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.connect.validation import validate

CONFLUENT_STORAGE = "io.confluent.connect.storage.partitioner."

S3 = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "a,b",
    "tasks.max": "2",
    "s3.bucket.name": "lake",
    "s3.region": "eu-west-1",
    "s3.part.size": "5242880",
    "flush.size": "1000",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "schema.compatibility": "NONE",
    "partitioner.class": f"{CONFLUENT_STORAGE}TimeBasedPartitioner",
    "path.format": "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH",
    "partition.duration.ms": "3600000",
    "locale": "en-US",
    "timezone": "UTC",
    "timestamp.extractor": "Record",
    "rotate.interval.ms": "60000",
}
HDFS = {
    "connector.class": "HdfsSinkConnector",
    "topics": "a",
    "hdfs.url": "file:///tmp/x",
    "flush.size": "3",
    "format.class": "io.confluent.connect.hdfs.avro.AvroFormat",
    "partitioner.class": f"{CONFLUENT_STORAGE}FieldPartitioner",
    "partition.field.name": "department",
}
SOURCE = {"connector.class": "FileStreamSource", "file": "/tmp/in.txt", "topic": "t"}
DATAGEN = {
    "connector.class": "io.confluent.kafka.connect.datagen.DatagenConnector",
    "kafka.topic": "pageviews",
    "quickstart": "pageviews",
    "max.interval": "100",
    "iterations": "10000000",
}
ICEBERG = {
    "connector.class": "IcebergSink",
    "topics": "a",
    "path": "/tmp/x",
    "iceberg.catalog.type": "sql",
    "iceberg.catalog.uri": "sqlite:////tmp/x/catalog.db",
}


def problems(config: dict[str, str]) -> dict[str, list[str]]:
    body: Any = validate({"name": "c", **config}).body
    return {one["value"]["name"]: one["value"]["errors"] for one in body["configs"] if one["value"]["errors"]}


@pytest.mark.parametrize("config", [S3, HDFS, SOURCE, DATAGEN, ICEBERG], ids=lambda one: one["connector.class"])
def test_configurations_as_they_are_elsewhere_are_accepted(config: dict[str, str]) -> None:
    assert problems(config) == {}


@pytest.mark.parametrize(
    ("config", "change"),
    [
        (S3, {"s3.object.tagging": "true"}),
        (S3, {"schema.compatibility": "FULL"}),
        (S3, {"flush.size": "many"}),
        (S3, {"format.class": "io.confluent.connect.s3.format.orc.OrcFormat"}),
        (HDFS, {"hive.integration": "true"}),
        (HDFS, {"hdfs.url": "hdfs://namenode:8020"}),
        (HDFS, {"logs.dir": "logs"}),
        (DATAGEN, {"schema.string": "{}"}),
        (DATAGEN, {"quickstart": "pizza_orders"}),
        (SOURCE, {"fiel": "/tmp/x"}),
        (ICEBERG, {"table.name.format": "nodots"}),
    ],
)
def test_a_setting_that_cannot_be_honoured_is_named(config: dict[str, str], change: dict[str, str]) -> None:
    assert set(problems(config | change)) == set(change)


def test_a_missing_setting_is_named() -> None:
    without = {name: value for name, value in S3.items() if name not in ("flush.size", "s3.bucket.name")}
    assert set(problems(without)) == {"flush.size", "s3.bucket.name"}


def test_secrets_are_hidden() -> None:
    body = validate({"name": "c", **S3, "aws.access.key.id": "AKIA-id", "aws.secret.access.key": "the-secret"}).body
    assert "the-secret" not in repr(body)
