"""The options of the sink, parsed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from moldau.client.errors import ConfigurationError
from moldau.spark.decisions import DECISIONS_TOPIC
from moldau.spark.given import GivenOptions

SINK_OPTIONS = ("decisionsTopic", "delivery", "failOnDataLoss", "topic", "transactionTimeoutMs")

DELIVERIES = ("exactly_once", "at_least_once")

REFUSED = {
    "acks": "a row is written when all in-sync replicas have it",
    "enable.idempotence": "the sink relies on it",
    "interceptor.classes": "rows go as they are; change them with DataFrame operations",
    "key.serializer": "keys are bytes; make them with DataFrame operations",
    "transaction.timeout.ms": "use the option transactionTimeoutMs",
    "transaction.two.phase.commit.enable": "it is used where the broker allows it",
    "transactional.id": "each task has its own, by the rule of docs/exactly-once.md",
    "value.serializer": "values are bytes; make them with DataFrame operations",
}


@dataclass(frozen=True)
class SinkOptions:
    """What the options of one write say; it travels to the executors."""

    settings: Mapping[str, str]
    """The client's settings: the options that begin with `kafka.`, without that."""
    topic: str | None
    exactly_once: bool
    fail_on_data_loss: bool
    decisions_topic: str
    transaction_timeout_ms: int | None
    """How long a prepared transaction may wait for the driver; None for as long as the broker allows."""
    two_phase: bool = False
    """Whether the broker keeps prepared transactions without a time-out: found out before the first task runs."""


def parse(options: Mapping[str, str]) -> SinkOptions:
    """`options` as Spark hands them over: names in any case."""
    given = GivenOptions(options)
    given.refuse_misspelt(SINK_OPTIONS)
    settings = given.client_settings(REFUSED)
    delivery = (given.text("delivery") or DELIVERIES[0]).lower()
    if delivery not in DELIVERIES:
        raise ConfigurationError(f"option delivery: {delivery!r} is not one of {', '.join(DELIVERIES)}")
    topic = given.text("topic")
    if topic == "":
        raise ConfigurationError("option topic: is empty; name a topic, or leave it out and have a column topic")
    return SinkOptions(
        settings=settings,
        topic=topic,
        exactly_once=delivery == DELIVERIES[0],
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
        decisions_topic=given.text("decisionsTopic") or DECISIONS_TOPIC,
        transaction_timeout_ms=given.number("transactionTimeoutMs"),
    )
