"""The settings of a producer, as Kafka 4 names them."""

from __future__ import annotations

from typing import Any

from moldau.client.settings.client import ClientTable
from moldau.client.settings.common import addresses, conflict, kept_for_kafka, not_empty, waiting
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
"""A broker remembers this many batches of a producer: with more in flight it could not tell a repeated one."""

NOT_ADAPTIVE = "records without a key go to all partitions with a leader alike"

RECORDS = (
    Setting("key.serializer", CLASS, None, "Turns keys into bytes; without one, keys are bytes or None."),
    Setting("value.serializer", CLASS, None, "Turns values into bytes; without one, values are bytes or None."),
    Setting("interceptor.classes", LIST, (), "What sees every record before it is sent, and every acknowledgement."),
    Setting("partitioner.class", CLASS, None, "Chooses partitions; without one, by the key's hash, else sticky."),
    Setting(
        "partitioner.adaptive.partitioning.enable",
        BOOLEAN,
        True,
        "Whether records without a key go less often to brokers that are slow.",
        no_effect=NOT_ADAPTIVE,
    ),
    Setting(
        "partitioner.availability.timeout.ms",
        LONG,
        0,
        "Records without a key avoid a partition whose broker took nothing for so long; 0: they do not.",
        low=0,
        no_effect=NOT_ADAPTIVE,
    ),
    Setting("partitioner.ignore.keys", BOOLEAN, False, "Whether keys have no say in the choice of a partition."),
)

BATCHES = (
    Setting("batch.size", INT, 16_384, "A batch leaves at the latest when it has so many bytes.", low=0),
    Setting("linger.ms", LONG, 5, "How long a batch waits for more records before it leaves.", low=0),
    Setting(
        "compression.type",
        STRING,
        "none",
        "How batches are compressed.",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
    ),
    Setting("compression.gzip.level", INT, -1, "How hard gzip tries.", low=1, high=9, extra_value=-1),
    Setting("compression.lz4.level", INT, 9, "How hard lz4 tries.", low=1, high=17),
    Setting("compression.zstd.level", INT, 3, "How hard zstd tries.", low=-131_072, high=22),
    Setting("max.request.size", INT, 1_048_576, "The largest request, and so the largest record.", low=0),
    Setting("buffer.memory", LONG, 33_554_432, "Bytes of records that may wait to be sent.", low=0),
    Setting(
        "max.block.ms",
        LONG,
        60_000,
        "How long `send` waits for memory or for a topic's metadata, and how long transaction calls wait.",
        low=0,
    ),
    Setting("metadata.max.idle.ms", LONG, 300_000, "A topic that was not sent to for so long is forgotten.", low=5_000),
)

DELIVERY = (
    Setting(
        "acks",
        STRING,
        "all",
        "Whose acknowledgement is waited for: that of all replicas in sync, of the leader (1), of none (0).",
        choices=("all", "-1", "0", "1"),
    ),
    Setting("enable.idempotence", BOOLEAN, True, "Whether brokers recognise a batch that was sent again."),
    Setting(
        "max.in.flight.requests.per.connection",
        INT,
        5,
        "Requests to one broker that may be without an answer.",
        low=1,
    ),
    Setting(
        "retries",
        INT,
        INT_MAX,
        "How often a batch is sent again; delivery.timeout.ms is the better bound.",
        low=0,
        high=INT_MAX,
    ),
    Setting(
        "delivery.timeout.ms", INT, 120_000, "From `send` to success or failure, retries and all, at the most.", low=0
    ),
    Setting(
        "transactional.id",
        STRING,
        None,
        "The name under which transactions of this producer continue.",
        check=not_empty,
    ),
    Setting(
        "transaction.timeout.ms", INT, 60_000, "After how long the coordinator aborts a transaction that is not ended."
    ),
    Setting(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        False,
        "Whether transactions can be prepared, and ended later by whoever knows them; then they do not time out.",
    ),
)


def rules(values: dict[str, Any], given: frozenset[str]) -> None:
    """What Kafka's producer says about settings that do not go together."""
    _delivery_covers_a_request(values, given)
    if values["acks"] == "-1":
        values["acks"] = "all"
    _idempotence_needs(values, given)
    if values["transactional.id"] is not None and not values["enable.idempotence"]:
        raise conflict("transactional.id", "transactions need enable.idempotence")
    if values["transaction.two.phase.commit.enable"]:
        if values["transactional.id"] is None:
            raise conflict("transaction.two.phase.commit.enable", "needs a transactional.id")
        if "transaction.timeout.ms" in given:
            raise conflict(
                "transaction.timeout.ms", "a transaction in two phases has none (transaction.two.phase.commit.enable)"
            )


def _delivery_covers_a_request(values: dict[str, Any], given: frozenset[str]) -> None:
    needed = min(values["linger.ms"] + values["request.timeout.ms"], INT_MAX)
    if values["delivery.timeout.ms"] >= needed:
        return
    if "delivery.timeout.ms" in given:
        raise conflict(
            "delivery.timeout.ms",
            f"{values['delivery.timeout.ms']} is less than linger.ms + request.timeout.ms ({needed}): "
            "not one attempt would fit",
        )
    values["delivery.timeout.ms"] = needed


def _idempotence_needs(values: dict[str, Any], given: frozenset[str]) -> None:
    """Idempotence that was not asked for gives way to settings that were; as in Kafka, only more in flight does not."""
    if not values["enable.idempotence"]:
        return
    asked_for = "enable.idempotence" in given or "transactional.id" in given
    if values["max.in.flight.requests.per.connection"] > MAX_IN_FLIGHT_IN_ORDER:
        raise conflict(
            "max.in.flight.requests.per.connection",
            f"at most {MAX_IN_FLIGHT_IN_ORDER} with enable.idempotence, which is the default: more cannot be kept in "
            "order; set enable.idempotence=false if that is meant",
        )
    for name, fits in (("retries", values["retries"] > 0), ("acks", values["acks"] == "all")):
        if fits:
            continue
        if asked_for:
            raise conflict(name, f"{values[name]} does not go with enable.idempotence")
        values["enable.idempotence"] = False


PRODUCER = ClientTable(
    "producer",
    {
        "Where the cluster is": addresses(receive_buffer_bytes=32_768),
        "Records": RECORDS,
        "Batches and memory": BATCHES,
        "Delivery": DELIVERY,
        "Waiting": waiting(idle_ms=540_000),
        "Accepted for Kafka's sake": kept_for_kafka(metrics_push=True),
    },
    rules,
)
