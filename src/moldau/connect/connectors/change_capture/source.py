"""Change capture sources: PostgreSQL and MySQL or MariaDB, with the class names and settings of Debezium.

A snapshot of the tables comes first, then their changes, in Debezium's event format. Each batch of changes and its
offset are stored in one transaction; after that, the database may forget them. A connector that was killed continues
after the stored offset: changes are neither lost nor doubled. A snapshot that was interrupted begins again.

Debezium's transforms run in Java and are not available; Kafka's are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import pyarrow as pa

from moldau.client.errors import MoldauError
from moldau.connect.config_def import HIDDEN, ConfigDef, ConfigType
from moldau.connect.connector import Polled, PolledSourceConnector, RetriableError, SourceOffsets
from moldau.connect.connectors.change_capture import debezium_settings
from moldau.connect.connectors.change_capture.capture_process import CaptureProcess
from moldau.connect.connectors.change_capture.frames import CapturedChanges
from moldau.connect.converters.json_converter import JsonConverter
from moldau.connect.record_batch import ConnectBatch, ValueColumn, source_batch

MAX_ROWS: Final = 10_000
"""About as many changes are stored in one transaction, if so many are waiting."""
POLL_INTERVAL_S: Final = 0.1
NEXT_CHANGES_S: Final = 0.05
"""How long a poll waits for more after changes have come: others often follow, as in a snapshot."""

_DEFAULTS: Final = {"errors.max.retries": "0", "poll.interval.ms": "100"}
"""Ours: the connector's engine repeats, with growing pauses; and changes are passed on sooner than after 500 ms."""

_MARIADB_DEFAULTS: Final = {
    "schema.history.internal.store.only.captured.tables.ddl": "true",
    "schema.history.internal.store.only.captured.databases.ddl": "true",
}
"""Ours: the parser of Debezium's MySQL connector does not know all types of MariaDB (uuid). Tables that are not
captured must not stop the capture of those that are."""

_FINAL: Final = (
    "password authentication failed",
    "Access denied for user",
    "no pg_hba.conf entry",
    "logical decoding requires wal_level",
    "must be superuser",
    "permission denied",
    "The connector is trying to read binlog starting at",
    "configuration is invalid",
)
"""Texts of errors that need somebody's work."""


class ChangeCaptureError(MoldauError):
    """The capture ended for a reason that does not go away by itself."""


class ChangeSource(PolledSourceConnector):
    """What both databases share."""

    debezium_class: ClassVar[str]
    mariadb: ClassVar[bool] = False
    open_prefixes: ClassVar[tuple[str, ...]] = debezium_settings.OPEN_PREFIXES
    poll_interval_s: float = POLL_INTERVAL_S

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._capture: CaptureProcess | None = None
        self._reached: dict[str, Any] | None = None
        """The offset after the last changes that were yielded; None: none were, since the process was started."""
        self._sequence = 0
        self._passes_on: bool | None = None
        """Whether changes are passed on as Debezium writes them: with schemas (True), without (False). None: parsed."""
        self._key_converter = JsonConverter({"schemas.enable": True}, is_key=True)
        self._value_converter = JsonConverter({"schemas.enable": True}, is_key=False)

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        """Debezium's own validation, which also logs in to the database."""
        process = CaptureProcess(
            str(config.get("name", "")),
            cls.properties(config),
            [],
            _java_options(config),
            only_validate=True,
            mariadb=cls.mariadb,
        )
        try:
            found = process.problems()
        finally:
            process.close(orderly=False)
        return {name: [cls._cleaned(text, config) for text in texts] for name, texts in found.items()}

    @classmethod
    def properties(cls, config: Mapping[str, Any]) -> dict[str, str]:
        """The settings for Debezium: its own, as they were given."""
        found = dict(_DEFAULTS)
        if cls.mariadb:
            found |= _MARIADB_DEFAULTS
        for name, value in config.items():
            known = name in cls.config_def.keys or name.startswith(cls.open_prefixes)
            if known and value is not None and name != debezium_settings.JAVA_OPTIONS:
                found[name] = str(value)
        return {**found, "connector.class": cls.debezium_class}

    @classmethod
    def _cleaned(cls, text: str, config: Mapping[str, Any]) -> str:
        """A message without passwords, should Java ever repeat one."""
        for name, key in cls.config_def.keys.items():
            if key.type is ConfigType.PASSWORD and config.get(name):
                text = text.replace(str(config[name]), HIDDEN)
        return " ".join(text.split())

    def accept_json(self, *, schemas: bool) -> None:
        self._passes_on = schemas

    def poll(self, offsets: SourceOffsets) -> Iterator[Polled]:
        capture = self._running(offsets)
        wait_s = 0.0
        while True:
            found = capture.received(MAX_ROWS, wait_s)
            if isinstance(found, str):
                self._end(orderly=False)
                raise self._error(found)
            if not found:
                return
            self._reached, self._sequence = found[-1].offset, found[-1].sequence
            first, *others = self._batches(found)
            yield Polled(first, [(found[-1].partition, found[-1].offset)], others)
            capture.stored(self._sequence)
            wait_s = NEXT_CHANGES_S

    def _running(self, offsets: SourceOffsets) -> CaptureProcess:
        """The process that continues after these offsets: the running one, if all that it gave was stored."""
        if self._capture is not None and self._reached is not None:
            if any(dict(offset) == self._reached for _, offset in offsets):
                self._capture.stored(self._sequence)  # stored, even if the generator was closed at its `yield`
            else:
                self._end(orderly=False)
        if self._capture is None:
            self._capture = CaptureProcess(
                self.name,
                self.properties(self.config),
                list(offsets),
                _java_options(self.config),
                mariadb=self.mariadb,
                schemas=self._passes_on is not False,
            )
            self._reached = None
        return self._capture

    def _error(self, text: str) -> MoldauError:
        shown = self._cleaned(text, self.config)
        where = f"{self.config.get('database.hostname')}:{self.config.get('database.port') or 'default port'}"
        if any(one in text for one in _FINAL):
            return ChangeCaptureError(
                f"Change capture from {where} was refused: {shown}. Correct the settings, the user's rights or the "
                "database, and restart the connector"
            )
        return RetriableError(f"Change capture from {where} has ended: {shown}")

    def _batches(self, found: Sequence[CapturedChanges]) -> list[ConnectBatch]:
        """Changes as batches of one topic and one schema each; the order within a topic is kept."""
        keys: dict[str, list[bytes | None]] = {}
        values: dict[str, list[bytes | None]] = {}
        for frame in found:
            for one in frame.topics:
                keys.setdefault(one.topic, []).extend(one.keys)
                values.setdefault(one.topic, []).extend(one.values)
        batches: list[ConnectBatch] = []
        for topic, texts in values.items():
            raw_keys, raw_values = pa.array(keys[topic], pa.binary()), pa.array(texts, pa.binary())
            if self._passes_on is not None:
                key = ValueColumn(raw_keys, encoded=True)
                batches.append(source_batch(topic, ValueColumn(raw_values, encoded=True), key=key))
                continue
            key_columns = list(self._key_converter.to_batches(raw_keys, topic))
            value_columns = list(self._value_converter.to_batches(raw_values, topic))
            for key, value in aligned(key_columns, value_columns):
                batches.append(source_batch(topic, value, key=key))
        return batches

    def _end(self, *, orderly: bool) -> None:
        capture, self._capture, self._reached = self._capture, None, None
        if capture is not None:
            capture.close(orderly=orderly)

    def close(self) -> None:
        self._end(orderly=True)


def aligned(keys: Sequence[ValueColumn], values: Sequence[ValueColumn]) -> Iterator[tuple[ValueColumn, ValueColumn]]:
    """Keys and values of the same rows, divided where the schema of either changes."""
    left, right = list(keys), list(values)
    while left and right:
        rows = min(len(left[0]), len(right[0]))
        yield left[0].slice(0, rows), right[0].slice(0, rows)
        for columns in (left, right):
            rest = columns[0].slice(rows, len(columns[0]) - rows)
            columns[:1] = [rest] if len(rest) else []


def _java_options(config: Mapping[str, Any]) -> list[str]:
    return str(config.get(debezium_settings.JAVA_OPTIONS) or "").split()


class PostgreSQLChanges(ChangeSource):
    """The class of the name `io.debezium.connector.postgresql.PostgresConnector`."""

    config_def: ClassVar[ConfigDef] = debezium_settings.POSTGRESQL
    debezium_class: ClassVar[str] = "io.debezium.connector.postgresql.PostgresConnector"

    @classmethod
    def properties(cls, config: Mapping[str, Any]) -> dict[str, str]:
        # Debezium's default is a plugin that PostgreSQL does not bring along.
        return {"plugin.name": "pgoutput", **super().properties(config)}


class MySQLChanges(ChangeSource):
    """The class of the name `io.debezium.connector.mysql.MySqlConnector`. Untested with MySQL itself.

    The history of the tables' schemas is in a topic, as `schema.history.internal.kafka.topic` says: it survives the
    takeover by another worker.
    """

    config_def: ClassVar[ConfigDef] = debezium_settings.MYSQL
    debezium_class: ClassVar[str] = "io.debezium.connector.mysql.MySqlConnector"

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        prefix = "schema.history.internal"
        if config.get(prefix) in (None, "io.debezium.storage.kafka.history.KafkaSchemaHistory"):
            needed = (f"{prefix}.kafka.bootstrap.servers", f"{prefix}.kafka.topic")
            missing = {name: [f"{name} is required: the history of schemas is kept there"] for name in needed}
            missing = {name: texts for name, texts in missing.items() if not config.get(name)}
            if missing:
                return missing
        return super().check(config)


class MariaDBChanges(MySQLChanges):
    """The class of the name `io.debezium.connector.mariadb.MariaDbConnector`: the MySQL connector, made to fit."""

    mariadb: ClassVar[bool] = True
