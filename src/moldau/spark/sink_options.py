"""Options of the sink, parsed and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from moldau.client.errors import ConfigurationError
from moldau.spark.commit_log import DECISIONS_TOPIC
from moldau.spark.raw_options import RawOptions

SINK_OPTIONS = ("decisionsTopic", "delivery", "failOnDataLoss", "runClaim", "topic", "transactionTimeoutMs")

DELIVERIES = ("exactly_once", "at_least_once")

REFUSED = {
    "acks": "the sink always waits for all in-sync replicas",
    "enable.idempotence": "the sink requires it",
    "interceptor.classes": "transform rows with DataFrame operations",
    "key.serializer": "keys are bytes; encode them with DataFrame operations",
    "transaction.timeout.ms": "use the option transactionTimeoutMs",
    "transaction.two.phase.commit.enable": "the sink uses it if the broker allows it",
    "transactional.id": "each task has its own, see docs/exactly-once.md",
    "value.serializer": "values are bytes; encode them with DataFrame operations",
}


@dataclass(frozen=True)
class SinkOptions:
    """The parsed options of one write. Spark copies them to the executors."""

    settings: Mapping[str, str] = field(repr=False)
    """The client's settings: the options with the prefix `kafka.`, without that prefix. They may have passwords."""
    topic: str | None
    exactly_once: bool
    fail_on_data_loss: bool
    decisions_topic: str
    transaction_timeout_ms: int | None
    """The longest time that a prepared transaction may wait for the driver; None for the broker's limit."""
    run_claim: str | None = None
    """The claim that this run of the query has stored (`two_phase.py`); None: it takes over with its first commit."""
    two_phase: bool = False
    """Whether the broker keeps prepared transactions without a timeout. Determined before the first task runs."""


def parse(options: Mapping[str, str]) -> SinkOptions:
    """Parse `options` as Spark passes them, with names in any case."""
    given = RawOptions(options)
    given.refuse_misspelt(SINK_OPTIONS)
    settings = given.client_settings(REFUSED)
    delivery = (given.text("delivery") or DELIVERIES[0]).lower()
    if delivery not in DELIVERIES:
        raise ConfigurationError(f"option delivery: {delivery!r} is not one of {', '.join(DELIVERIES)}")
    topic = given.text("topic")
    if topic == "":
        raise ConfigurationError("option topic: is empty; name a topic, or leave the option out and add a column topic")
    return SinkOptions(
        settings=settings,
        topic=topic,
        exactly_once=delivery == DELIVERIES[0],
        fail_on_data_loss=given.flag("failOnDataLoss", default=True),
        decisions_topic=given.text("decisionsTopic") or DECISIONS_TOPIC,
        transaction_timeout_ms=given.number("transactionTimeoutMs"),
        run_claim=given.text("runClaim"),
    )
