"""Source and sink at a broker with TLS and logins: the options of Spark's own connector, and where secrets appear."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moldau import Admin, NewTopic
from moldau.spark.options import parse as source_options
from moldau.spark.sink_options import parse as sink_options
from tests.support.secured import ADMIN, ADMIN_PASSWORD, SecuredBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("secured")) as running:
        yield running


def options(broker: SecuredBroker, password: str = ADMIN_PASSWORD) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": broker.address("SASL_SSL"),
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{MODULE} required username="{ADMIN}" password="{password}";',
        "kafka.ssl.truststore.location": str(broker.truststore),
        "kafka.ssl.truststore.type": "PEM",
    }


def read(spark: SparkSession, given: dict[str, str], topic: str) -> DataFrame:
    source = spark.read.format("moldau").options(**given).option("subscribe", topic)
    return source.load().selectExpr("CAST(value AS STRING)")


def test_a_stream_reads_and_writes_with_a_login(spark: SparkSession, broker: SecuredBroker, tmp_path: Path) -> None:
    """Batch write, exactly-once stream, batch read: driver and tasks log in, and the secret is not in the plan."""
    password = tmp_path / "password"
    password.write_text(ADMIN_PASSWORD)
    given = options(broker, f"${{file:{password}}}")
    client = {name.removeprefix("kafka."): value for name, value in given.items()}
    with Admin(client) as admin:
        admin.create_topics([NewTopic("in", partitions=2), NewTopic("out", partitions=2)])
    rows = spark.range(20).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("moldau").mode("append").options(**given).option("topic", "in").save()
    stream = (
        spark.readStream.format("moldau")
        .options(**given)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .load()
        .select("value")
    )
    query = (
        stream.writeStream.format("moldau")
        .options(**given)
        .option("topic", "out")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    found = read(spark, {**options(broker), "kafka.isolation.level": "read_committed"}, "out")
    assert sorted(int(row.value) for row in found.collect()) == list(range(20))
    plan = found._jdf.queryExecution().toString()
    assert ADMIN_PASSWORD not in plan


@pytest.mark.usefixtures("connector")
def test_spark_own_connector_logs_in_with_the_same_options(spark: SparkSession, broker: SecuredBroker) -> None:
    given = options(broker)
    rows = spark.range(20).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("kafka").options(**given).option("topic", "by-its-own").save()
    theirs = spark.read.format("kafka").options(**given).option("subscribe", "by-its-own").load()
    ours = read(spark, given, "by-its-own")
    for found in (theirs.selectExpr("CAST(value AS STRING)"), ours):
        assert sorted(int(row.value) for row in found.collect()) == list(range(20))


def test_a_refused_login_ends_a_read_with_its_reason(spark: SparkSession, broker: SecuredBroker) -> None:
    with pytest.raises(Exception, match="refused the login with SCRAM-SHA-512") as error:
        read(spark, options(broker, "wrong-password"), "in").collect()
    assert "wrong-password" not in str(error.value)


def test_parsed_options_do_not_show_secrets() -> None:
    given = {"kafka.bootstrap.servers": "localhost:9093", "kafka.sasl.password": "SECRET", "subscribe": "t"}
    assert "SECRET" not in repr(source_options(given, streaming=True))
    given.pop("subscribe")
    assert "SECRET" not in repr(sink_options(given))
