"""Readings of sensors in a factory: temperatures that drift, and sensors that fall silent for a while."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from moldau import NewTopic
from moldau.examples.place import Place, topic_sender
from moldau.examples.sensor_health.alerts import ALERTS, AlertDeserializer, Gateway
from moldau.examples.study import StudyError, StudyRecord

READINGS = "sensors.readings"
TOPICS = [NewTopic(READINGS, partitions=2), NewTopic(ALERTS, partitions=3)]
DESERIALIZERS = {ALERTS: AlertDeserializer()}

SENSORS = tuple(f"sensor-{number:02}" for number in range(20))
SILENCE_CHANCE = 0.02
LONGEST_SILENCE_MS = 90_000


def records(seed: int, begin_ms: int, rate: float) -> Iterator[StudyRecord]:
    """Readings in the order of time. The sensors report in turn."""
    chance = random.Random(seed)
    celsius = {sensor: chance.uniform(40, 60) for sensor in SENSORS}
    silent_until_ms = dict.fromkeys(SENSORS, 0)
    for turn in count():
        sensor = SENSORS[turn % len(SENSORS)]
        at_ms = begin_ms + int(turn * 1000 / rate)
        if at_ms < silent_until_ms[sensor]:
            continue
        if chance.random() < SILENCE_CHANCE:
            silent_until_ms[sensor] = at_ms + chance.randrange(LONGEST_SILENCE_MS)
        # A drift that turns back to 50 degrees: most readings are harmless, a few are critical.
        celsius[sensor] += chance.gauss(0, 4) + (50 - celsius[sensor]) * 0.1
        yield StudyRecord(READINGS, sensor, {"celsius": round(celsius[sensor], 1), "at_ms": at_ms}, at_ms)


@contextmanager
def sender(place: Place) -> Iterator[Callable[[StudyRecord], None]]:
    """The gateway of the factory sends each reading, and an alert if the reading is too high."""
    gateway = Gateway(place.client)
    with topic_sender(place) as send_reading:

        def send(record: StudyRecord) -> None:
            send_reading(record)
            gateway.look_at(record.key, record.value or {})

        yield send
    gateway.close()
    if gateway.failed:
        raise StudyError(f"{len(gateway.failed)} alerts were not delivered: {gateway.failed[0]}")
