"""The settings of producers' ids and transactions, as Kafka 4 names them. A part of the broker's table."""

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
        "The longest time that a producer may ask for to end its transactions; asking for more is refused.",
        low=1,
    ),
    Setting(
        "transactional.id.expiration.ms",
        INT,
        7 * DAY_MS,
        "How long a transactional id that is not used is remembered.",
        low=1,
    ),
    Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        "How often transactions that have timed out are looked for, to be aborted.",
        low=1,
    ),
    Setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3_600_000,
        "How often transactional ids that have expired are looked for, to be forgotten.",
        low=1,
    ),
    Setting(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        "Whether records of a transaction are refused where their partition was not made part of it before.",
        scope=Scope.BROKER_DYNAMIC,
    ),
    Setting(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        False,
        "Whether producers may prepare transactions that do not time out and are ended by somebody else.",
    ),
    Setting(
        "moldau.transaction.two.phase.max.age.ms",
        LONG,
        7 * DAY_MS,
        "After how long a two-phase transaction that nobody has ended is aborted, since it holds back readers of "
        "committed records; -1 for never, as Kafka does.",
        scope=Scope.BROKER_DYNAMIC,
        low=1,
        extra_value=-1,
    ),
    Setting(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        20,
        "The pause before a partition is offered again to a transaction whose predecessor is still ending.",
        low=1,
    ),
    Setting(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        100,
        "How long a produce request waits for the producer's transaction before to end.",
        low=0,
    ),
    Setting(
        "producer.id.expiration.ms",
        INT,
        DAY_MS,
        "How long a partition remembers the sequence numbers of a producer that writes nothing.",
        scope=Scope.BROKER_DYNAMIC,
        low=1,
    ),
    Setting(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "Partitions of the topic of transactions, when it is made.",
        low=1,
    ),
    Setting(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        "Replicas of the topic of transactions, when it is made; never more than there are brokers.",
        low=1,
    ),
    Setting(
        "transaction.state.log.segment.bytes",
        INT,
        100 << 20,
        "The size of a segment of the topic of transactions: small, so that it is compacted and loaded fast.",
        low=1,
    ),
    Setting(
        "transaction.state.log.min.isr",
        INT,
        2,
        "In-sync replicas that the topic of transactions needs; no more than it has replicas when it is made.",
        low=1,
    ),
    Setting(
        "transaction.state.log.load.buffer.size",
        INT,
        5 << 20,
        "How much of the log of transactions Kafka reads at once when it loads it.",
        low=1,
        no_effect=READ_IN_CHUNKS,
    ),
)
