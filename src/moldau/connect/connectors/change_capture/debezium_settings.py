"""Names of Debezium's settings, version 3.6, and the declarations made of them.

Debezium checks the values itself (`validate` of its connector, in a process with Java). Here the names are declared, so
that a misspelt one is found, and those that are required or secret.
"""

from __future__ import annotations

from typing import Final

from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, Importance

_COMMON: Final = """
    column.exclude.list column.include.list column.propagate.source.type connection.validation.timeout.ms converters
    custom.metric.tags custom.sanitize.pattern database.hostname database.initial.statements database.password
    database.port database.query.timeout.ms database.user datatype.propagate.source.type decimal.handling.mode
    errors.max.retries event.processing.failure.handling.mode executor.shutdown.timeout.ms extended.headers.enabled
    guardrail.collections.limit.action guardrail.collections.max heartbeat.action.query heartbeat.interval.ms
    heartbeat.topics.prefix include.schema.comments incremental.snapshot.chunk.size
    incremental.snapshot.watermarking.strategy internal.advanced.metrics.enable internal.legacy.snapshot.max.threads
    internal.log.position.check.enable internal.snapshot.scan.all.columns.force legacy.snapshot.max.threads
    max.batch.size max.queue.size max.queue.size.in.bytes memory.management.schemas.class
    memory.management.tables.class message.key.columns notification.enabled.channels notification.sink.topic.name
    openlineage.integration.config.file.path openlineage.integration.dataset.kafka.bootstrap.servers
    openlineage.integration.enabled openlineage.integration.job.description openlineage.integration.job.namespace
    openlineage.integration.job.owners openlineage.integration.job.tags poll.interval.ms post.processors
    provide.transaction.metadata query.fetch.size retriable.restart.connector.wait.ms schema.name.adjustment.mode
    signal.data.collection signal.enabled.channels signal.poll.interval.ms skipped.operations snapshot.delay.ms
    snapshot.fetch.size snapshot.include.collection.list snapshot.lock.timeout.ms snapshot.locking.mode
    snapshot.max.threads snapshot.max.threads.multiplier snapshot.mode snapshot.mode.configuration.based.snapshot.data
    snapshot.mode.configuration.based.snapshot.on.data.error
    snapshot.mode.configuration.based.snapshot.on.schema.error snapshot.mode.configuration.based.snapshot.schema
    snapshot.mode.configuration.based.start.stream snapshot.mode.custom.name snapshot.query.mode
    snapshot.query.mode.custom.name snapshot.select.statement.overrides snapshot.tables.order.by.row.count
    sourceinfo.struct.maker statistics.metrics.enabled streaming.delay.ms table.exclude.list table.ignore.builtin
    table.include.list time.precision.mode tombstones.on.delete topic.naming.strategy topic.prefix
    transaction.metadata.factory
"""

_POSTGRESQL: Final = """
    binary.handling.mode database.dbname database.sslcert database.sslfactory database.sslkey database.sslmode
    database.sslpassword database.sslrootcert database.tcpKeepAlive flush.lsn.source hstore.handling.mode
    include.unknown.datatypes interval.handling.mode lsn.flush.mode lsn.flush.timeout.action lsn.flush.timeout.ms
    message.prefix.exclude.list message.prefix.include.list plugin.name publication.autocreate.mode publication.name
    publish.via.partition.root replica.identity.autoset.values schema.exclude.list schema.include.list
    schema.refresh.mode slot.drop.on.stop slot.failover slot.max.retries slot.name slot.retry.delay.ms
    slot.stream.params snapshot.isolation.mode snapshot.locking.mode.custom.name status.update.interval.ms
    unavailable.value.placeholder xmin.fetch.interval.ms
"""

_MYSQL: Final = """
    bigint.unsigned.handling.mode binlog.buffer.size binlog.net.read.timeout binlog.net.write.timeout
    connect.keep.alive connect.keep.alive.interval.ms connect.timeout.ms database.exclude.list database.include.list
    database.jdbc.driver database.protocol database.server.id database.server.id.offset database.ssl.keystore
    database.ssl.keystore.password database.ssl.mode database.ssl.truststore database.ssl.truststore.password
    ddl.parser.type enable.time.adjuster event.deserialization.failure.handling.mode gtid.ignore.on.recovery
    gtid.source.excludes gtid.source.filter.dml.events gtid.source.includes include.query include.schema.changes
    inconsistent.schema.handling.mode incremental.snapshot.allow.schema.changes min.row.count.to.stream.results
    schema.history.internal schema.history.internal.skip.unparseable.ddl
    schema.history.internal.store.only.captured.databases.ddl schema.history.internal.store.only.captured.tables.ddl
    use.nongraceful.disconnect
"""

_REQUIRED: Final = ("database.hostname", "database.user", "topic.prefix")
_SECRET: Final = (
    "database.password",
    "database.sslpassword",
    "database.ssl.keystore.password",
    "database.ssl.truststore.password",
)

OPEN_PREFIXES: Final = (
    "column.mask.",
    "column.truncate.",
    "driver.",
    "schema.history.internal.",
    "signal.",
    "snapshot.select.statement.overrides.",
    "snapshot.mode.configuration.based.",
    "openlineage.integration.",
)
"""Settings with free names: for the driver of the database, for clients of the schema history, for single columns."""

JAVA_OPTIONS: Final = "capture.java.options"

_DOC: Final = "A setting of Debezium: https://debezium.io/documentation/reference/3.6/connectors/"


def _key(name: str, required: tuple[str, ...]) -> ConfigKey:
    kind = ConfigType.PASSWORD if name in _SECRET else ConfigType.STRING
    if name in required:
        return ConfigKey(name, kind, _DOC, importance=Importance.HIGH, group="Debezium")
    return ConfigKey(name, kind, _DOC, None, Importance.LOW, group="Debezium")


def _definition(names: str, required: tuple[str, ...]) -> ConfigDef:
    own = ConfigKey(
        JAVA_OPTIONS,
        ConfigType.STRING,
        "Options of the Java machine of the capture process, separated by spaces.",
        "-Xmx512m -XX:+UseSerialGC",
        Importance.LOW,
        group="Moldau",
    )
    return ConfigDef([*(_key(name, required) for name in names.split()), own])


POSTGRESQL: Final = _definition(_COMMON + _POSTGRESQL, (*_REQUIRED, "database.dbname"))
MYSQL: Final = _definition(_COMMON + _MYSQL, (*_REQUIRED, "database.server.id"))
