"""Alerts of the study of sensors: their bytes, their partition, and failed deliveries."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from moldau import Consumer
from moldau.client.producer.partitioners import PartitionChoice
from moldau.examples import study as studies
from moldau.examples.place import Place
from moldau.examples.run import create_topics
from moldau.examples.sensor_health.alerts import (
    ALERTS,
    CRITICAL_PARTITION,
    AlertDeserializer,
    AlertSerializer,
    CriticalPartitioner,
    alert_of,
)
from moldau.examples.sensor_health.generator import records, sender
from moldau.examples.sensor_health.rules import CRITICAL, WARNING
from moldau.examples.study import StudyError
from moldau.testing import Broker

BEGIN_MS = 1_767_225_600_000
READINGS = 300


def test_an_alert_is_read_as_it_was_written() -> None:
    alert = {"sensor": "sensor-07 Žižkov", "level": WARNING, "celsius": 66.6, "at_ms": BEGIN_MS}
    data = AlertSerializer().serialize(ALERTS, alert)
    assert AlertDeserializer().deserialize(ALERTS, data) == alert


def test_a_reading_that_is_not_too_high_is_no_alert() -> None:
    assert alert_of("sensor-01", {"celsius": 60.0, "at_ms": 0}) is None
    assert (alert_of("sensor-01", {"celsius": 60.1, "at_ms": 0}) or {})["level"] == WARNING
    assert (alert_of("sensor-01", {"celsius": 70.0, "at_ms": 0}) or {})["level"] == WARNING
    assert (alert_of("sensor-01", {"celsius": 70.1, "at_ms": 0}) or {})["level"] == CRITICAL


@pytest.mark.parametrize("count", [2, 3, 7])
def test_no_warning_goes_to_the_critical_partition(count: int) -> None:
    choice = PartitionChoice(count, range(count))
    for number in range(100):
        key = f"sensor-{number}".encode()
        for level in (WARNING, CRITICAL):
            chosen = CriticalPartitioner().partition(ALERTS, key, key, {"level": level}, b"", choice)
            assert (chosen == CRITICAL_PARTITION) == (level == CRITICAL)
            assert 0 <= chosen < count


def test_the_critical_partition_has_all_critical_alerts_and_no_others(place: Place, seed: int) -> None:
    place.directory.mkdir()
    create_topics(studies.find("sensor_health"), place, fresh=False)
    sent = list(islice(records(seed, BEGIN_MS, 2), READINGS))
    with sender(place) as send:
        for reading in sent:
            send(reading)
    alerts = [alert for reading in sent if (alert := alert_of(reading.key, reading.value or {}))]
    pager = []
    with Consumer(dict(place.client), value_deserializer=AlertDeserializer()) as consumer:
        consumer.assign([(ALERTS, CRITICAL_PARTITION)])
        consumer.seek_to_beginning((ALERTS, CRITICAL_PARTITION))
        end = consumer.end_offsets((ALERTS, CRITICAL_PARTITION))[(ALERTS, CRITICAL_PARTITION)]
        while len(pager) < end:
            pager += [record.value for record in consumer.poll(timeout=1)]
    assert pager == [alert for alert in alerts if alert["level"] == CRITICAL]


def test_an_alert_that_is_not_delivered_is_an_error_of_the_run(tmp_path: Path) -> None:
    with Broker() as broker:
        place = Place({"bootstrap.servers": broker.bootstrap_servers}, tmp_path)
        create_topics(studies.find("sensor_health"), place, fresh=False)
        hot = next(reading for reading in records(1, BEGIN_MS, 2) if alert_of(reading.key, reading.value or {}))
        with (
            broker.faults.fail_next("Produce", "TOPIC_AUTHORIZATION_FAILED", topic=ALERTS),
            pytest.raises(StudyError, match="1 alerts were not delivered"),
            sender(place) as send,
        ):
            send(hot)
