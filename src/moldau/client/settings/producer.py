"""Producer settings, with the names of Kafka 4."""

from __future__ import annotations

from typing import Any

from moldau.client.settings import security
from moldau.client.settings.client import ClientTable
from moldau.client.settings.common import addresses, conflict, kept_for_kafka, not_empty, waiting
from moldau.client.settings.schemas import PRODUCER_SCHEMAS
from moldau.settings.setting import INT_MAX, Setting, SettingType

BOOLEAN, STRING, INT, LONG, LIST, CLASS = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.INT,
    SettingType.LONG,
    SettingType.LIST,
    SettingType.CLASS,
)

MAX_IN_FLIGHT_IN_ORDER = 5
"""A broker recognises only the last five batches of a producer when they are sent again."""

NOT_ADAPTIVE = "records without a key are spread evenly over all partitions with a leader"

RECORDS = (
    Setting("key.serializer", CLASS, None, "Converts keys to bytes; without it keys must be bytes or None."),
    Setting("value.serializer", CLASS, None, "Converts values to bytes; without it values must be bytes or None."),
    Setting("interceptor.classes", LIST, (), "Interceptors, which get each record before it is sent, and each result."),
    Setting("partitioner.class", CLASS, None, "Chooses partitions; the default uses the hash of the key."),
    Setting(
        "partitioner.adaptive.partitioning.enable",
        BOOLEAN,
        True,
        "Whether fewer records without a key go to slow brokers.",
        no_effect=NOT_ADAPTIVE,
    ),
    Setting(
        "partitioner.availability.timeout.ms",
        LONG,
        0,
        "Records without a key avoid a partition whose broker accepted nothing for this time; 0 disables that.",
        low=0,
        no_effect=NOT_ADAPTIVE,
    ),
    Setting("partitioner.ignore.keys", BOOLEAN, False, "Whether the choice of a partition ignores keys."),
)

BATCHES = (
    Setting("batch.size", INT, 16_384, "Size in bytes at which a batch is full and is sent.", low=0),
    Setting("linger.ms", LONG, 5, "How long a batch waits for more records before it is sent.", low=0),
    Setting(
        "compression.type",
        STRING,
        "none",
        "Compression of batches.",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
    ),
    Setting("compression.gzip.level", INT, -1, "Compression level of gzip.", low=1, high=9, extra_value=-1),
    Setting("compression.lz4.level", INT, 9, "Compression level of lz4.", low=1, high=17),
    Setting("compression.zstd.level", INT, 3, "Compression level of zstd.", low=-131_072, high=22),
    Setting("max.request.size", INT, 1_048_576, "Maximum size of a request, and therefore of a record.", low=0),
    Setting("buffer.memory", LONG, 33_554_432, "Maximum size in bytes of the records that wait to be sent.", low=0),
    Setting(
        "max.block.ms",
        LONG,
        60_000,
        "Maximum time that `send` waits for memory or metadata, and that transaction calls wait.",
        low=0,
    ),
    Setting(
        "metadata.max.idle.ms",
        LONG,
        300_000,
        "Metadata of a topic is dropped if nothing was sent to it for this time.",
        low=5_000,
    ),
)

DELIVERY = (
    Setting(
        "acks",
        STRING,
        "all",
        "Replicas that must have a record before it is acknowledged: all in-sync replicas, the leader (1), none (0).",
        choices=("all", "-1", "0", "1"),
    ),
    Setting("enable.idempotence", BOOLEAN, True, "Whether brokers write a batch only once if it is sent again."),
    Setting(
        "max.in.flight.requests.per.connection",
        INT,
        5,
        "Maximum number of requests to one broker without a response.",
        low=1,
    ),
    Setting(
        "retries",
        INT,
        INT_MAX,
        "Maximum number of retries of a batch; delivery.timeout.ms is the better limit.",
        low=0,
        high=INT_MAX,
    ),
    Setting(
        "delivery.timeout.ms", INT, 120_000, "Maximum time from `send` to success or failure, with all retries.", low=0
    ),
    Setting(
        "transactional.id",
        STRING,
        None,
        "Name of this producer for transactions; it must be the same after a restart.",
        check=not_empty,
    ),
    Setting("transaction.timeout.ms", INT, 60_000, "Time after which the coordinator aborts an open transaction."),
    Setting(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        False,
        "Whether transactions can be prepared and completed later, also by another process; they have no timeout.",
    ),
)


def rules(values: dict[str, Any], given: frozenset[str]) -> None:
    """Check combinations of settings, with the rules of Kafka's producer."""
    security.security_rules(values, given)
    _delivery_covers_a_request(values, given)
    if values["acks"] == "-1":
        values["acks"] = "all"
    _idempotence_needs(values, given)
    if values["transactional.id"] is not None and not values["enable.idempotence"]:
        raise conflict("transactional.id", "transactions need enable.idempotence=true")
    if values["transaction.two.phase.commit.enable"]:
        if values["transactional.id"] is None:
            raise conflict("transaction.two.phase.commit.enable", "needs a transactional.id")
        if "transaction.timeout.ms" in given:
            raise conflict(
                "transaction.timeout.ms",
                "transactions with transaction.two.phase.commit.enable have no timeout; leave it out",
            )


def _delivery_covers_a_request(values: dict[str, Any], given: frozenset[str]) -> None:
    needed = min(values["linger.ms"] + values["request.timeout.ms"], INT_MAX)
    if values["delivery.timeout.ms"] >= needed:
        return
    if "delivery.timeout.ms" in given:
        raise conflict(
            "delivery.timeout.ms",
            f"{values['delivery.timeout.ms']} is less than linger.ms + request.timeout.ms ({needed}): "
            "there would be no time for one attempt; raise it",
        )
    values["delivery.timeout.ms"] = needed


def _idempotence_needs(values: dict[str, Any], given: frozenset[str]) -> None:
    """Disable idempotence by default if other settings do not allow it. As in Kafka, too many requests in flight are
    an error nevertheless."""
    if not values["enable.idempotence"]:
        return
    is_explicit = "enable.idempotence" in given or "transactional.id" in given
    if values["max.in.flight.requests.per.connection"] > MAX_IN_FLIGHT_IN_ORDER:
        raise conflict(
            "max.in.flight.requests.per.connection",
            f"at most {MAX_IN_FLIGHT_IN_ORDER} with enable.idempotence, which is the default; lower it, or set "
            "enable.idempotence=false, which allows duplicates and another order after retries",
        )
    for name, fits in (("retries", values["retries"] > 0), ("acks", values["acks"] == "all")):
        if fits:
            continue
        if is_explicit:
            raise conflict(name, f"{values[name]} is not possible with enable.idempotence")
        values["enable.idempotence"] = False


PRODUCER = ClientTable(
    "producer",
    {
        "Addresses and sockets": addresses(receive_buffer_bytes=32_768),
        "TLS": security.TLS,
        "Login": security.SASL,
        "Records": RECORDS,
        "Schemas": PRODUCER_SCHEMAS,
        "Batches and memory": BATCHES,
        "Delivery": DELIVERY,
        "Timeouts and retries": waiting(idle_ms=540_000),
        "Accepted without effect": (*kept_for_kafka(metrics_push=True), *security.NOT_HERE),
    },
    rules,
)
