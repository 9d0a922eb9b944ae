"""Broker settings of producer ids and transactions, with Kafka 4's names.

They are part of the table in `broker.py`.
"""

from __future__ import annotations

from moldau.settings.setting import Scope, Setting, SettingType

BOOLEAN, INT, LONG, SHORT = SettingType.BOOLEAN, SettingType.INT, SettingType.LONG, SettingType.SHORT

DAY_MS = 86_400_000
READ_IN_CHUNKS = "the log of transactions is read in chunks of a fixed size"

TRANSACTIONS = (
    Setting(
        "transaction.max.timeout.ms",
        INT,
        900_000,
        "The longest transaction timeout in milliseconds that a producer may request. A request for more is refused.",
        low=1,
    ),
    Setting(
        "transactional.id.expiration.ms",
        INT,
        7 * DAY_MS,
        "The time in milliseconds that an unused transactional id is kept.",
        low=1,
    ),
    Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        "The time in milliseconds between two searches for transactions that have timed out and must be aborted.",
        low=1,
    ),
    Setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3_600_000,
        "The time in milliseconds between two searches for expired transactional ids.",
        low=1,
    ),
    Setting(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        "Whether the broker refuses transactional records for a partition that is not part of the producer's "
        "transaction.",
        scope=Scope.BROKER_DYNAMIC,
    ),
    Setting(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        False,
        "Whether producers may prepare transactions that do not time out, and that another process can complete "
        "(two-phase commit).",
    ),
    Setting(
        "moldau.transaction.two.phase.max.age.ms",
        LONG,
        7 * DAY_MS,
        "The time in milliseconds after which an open two-phase transaction is aborted, because it blocks consumers "
        "with `read_committed`; -1 means never, as in Kafka.",
        scope=Scope.BROKER_DYNAMIC,
        low=1,
        extra_value=-1,
    ),
    Setting(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        20,
        "The pause in milliseconds before the broker again asks to add a partition to a transaction, while the "
        "previous transaction is still completing.",
        low=1,
    ),
    Setting(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        100,
        "The longest time in milliseconds that a produce request waits for the producer's previous transaction to "
        "complete.",
        low=0,
    ),
    Setting(
        "producer.id.expiration.ms",
        INT,
        DAY_MS,
        "The time in milliseconds that a partition keeps the sequence numbers of a producer that writes nothing.",
        scope=Scope.BROKER_DYNAMIC,
        low=1,
    ),
    Setting(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "The number of partitions of the topic of transactions. It is used when the topic is created.",
        low=1,
    ),
    Setting(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        "The number of replicas of the topic of transactions, or the number of brokers when it is created, if that "
        "is smaller.",
        low=1,
    ),
    Setting(
        "transaction.state.log.segment.bytes",
        INT,
        100 << 20,
        "The size of a segment of the topic of transactions, in bytes. Small segments are compacted and loaded faster.",
        low=1,
    ),
    Setting(
        "transaction.state.log.min.isr",
        INT,
        2,
        "The number of in-sync replicas that the topic of transactions needs, at most its number of replicas when "
        "it is created.",
        low=1,
    ),
    Setting(
        "transaction.state.log.load.buffer.size",
        INT,
        5 << 20,
        "The number of bytes that Kafka reads at a time when it loads the log of transactions.",
        low=1,
        no_effect=READ_IN_CHUNKS,
    ),
)
