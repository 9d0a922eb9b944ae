"""Connect with PostgreSQL: a table to a topic, and change capture beside Debezium on Apache Kafka Connect.

Both workers write to the same broker and read from the same server, one after the other, with the same settings for
Debezium and JSON without schemas. Snapshot: the rows that are there when the connector starts; streaming: rows of one
transaction while it runs, measured until the topic has them all. Latency: single rows in transactions of their own,
from the end of the commit until a consumer has the record.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench.connect_files import JVM_FLAGS
from bench.harness import Broker, Context, Row, free_port, median, percentile, spread
from moldau import Consumer
from moldau.client.data_types import TopicPartition
from tests.compat.apache_kafka.jars import JarsUnavailableError
from tests.compat.kafka_connect.debezium import debezium_jars
from tests.compat.kafka_connect.worker import KafkaConnect
from tests.support.connect_worker import ConnectWorker
from tests.support.databases import PASSWORD, USER, PostgreSQLServer

LEAST_TABLE_ROWS = 100_000
LEAST_OF_DEBEZIUM = 1.0
MOST_LATENCY_S = 1.0
TIMEOUT_S = 300.0
POLL_S = 0.02
LATENCY_PAUSE_S = 0.02
CAPTURE = "io.debezium.connector.postgresql.PostgresConnector"
JSON = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
COLUMNS = "id BIGINT PRIMARY KEY, name TEXT, amount DOUBLE PRECISION, at TIMESTAMP DEFAULT now()"
_numbers = itertools.count()

Put = Callable[[str, Mapping[str, str]], None]
Delete = Callable[[str], None]


def run(context: Context) -> Iterator[Row]:
    missing = PostgreSQLServer.missing()
    if missing:
        context.say(missing)
        return
    server = PostgreSQLServer()
    try:
        server.create()
        server.start()
        with context.broker("transaction.two.phase.commit.enable=true") as broker, context.scratch("databases") as home:
            yield from _run(context, server, broker, home)
    finally:
        server.remove()


def _run(context: Context, server: PostgreSQLServer, broker: Broker, home: Path) -> Iterator[Row]:
    found: dict[str, dict[str, list[float]]] = {"ours": {}, "Debezium on Kafka Connect": {}}
    with ConnectWorker(broker.address, free_port(), JSON) as worker:
        table = [_table(context, server, broker, worker.put) for _ in range(context.repeats + 1)][1:]

        def delete(name: str) -> None:
            worker.call("DELETE", f"/connectors/{name}")

        for _ in range(context.repeats):
            _capture(context, server, broker, worker.put, delete, found["ours"])
    rates = f"{spread(table)} rows/s"
    yield Row(
        "Connect: PostgreSQL table to topic", median(table), "rows/s", LEAST_TABLE_ROWS, at_least=True, note=rates
    )
    try:
        jars = debezium_jars(JVM_FLAGS)
    except JarsUnavailableError:
        context.say("Kafka Connect's jars cannot be had")
    else:
        _measure_kafka(context, server, broker, home, jars, found["Debezium on Kafka Connect"])
    yield from _compared(found["ours"], found["Debezium on Kafka Connect"])


def _measure_kafka(
    context: Context, server: PostgreSQLServer, broker: Broker, home: Path, jars: object, found: dict[str, list[float]]
) -> None:
    directory = home / "kafka-connect"
    directory.mkdir()
    topics = {f"{kind}.storage.topic": f"kafka-{kind}" for kind in ("config", "offset", "status")}
    with KafkaConnect(jars, directory, broker.address, {"group.id": "kafka-connect", **topics, **JSON}) as worker:  # type: ignore[arg-type]

        def put(name: str, config: Mapping[str, str]) -> None:
            status, body = worker.request("PUT", f"/connectors/{name}/config", dict(config))
            assert status in (200, 201), body

        def delete(name: str) -> None:
            worker.request("DELETE", f"/connectors/{name}")

        for _ in range(context.repeats):
            _capture(context, server, broker, put, delete, found)


def _compared(ours: dict[str, list[float]], theirs: dict[str, list[float]]) -> Iterator[Row]:
    for phase in ("snapshot", "streaming"):
        if theirs:
            note = (
                f"{median(ours[phase]):,.0f} ({spread(ours[phase])}) against "
                f"{median(theirs[phase]):,.0f} rows/s ({spread(theirs[phase])})"
            )
            ratio = median(ours[phase]) / median(theirs[phase])
            what = f"Connect: change capture, {phase}, Debezium on Kafka Connect"
            yield Row(what, ratio, "x", LEAST_OF_DEBEZIUM, at_least=True, note=note)
    other = f"; Debezium on Kafka Connect: {percentile(theirs['latency'], 0.99):.2f} s" if theirs else ""
    note = f"p50 {percentile(ours['latency'], 0.5):.2f} s, {len(ours['latency'])} rows{other}"
    p99 = percentile(ours["latency"], 0.99)
    yield Row("Connect: change capture, commit to topic, p99", p99, "s", MOST_LATENCY_S, note=note)


def _table(context: Context, server: PostgreSQLServer, broker: Broker, put: Put) -> float:
    """Rows per second from a whole table to a new topic."""
    rows = context.sized(1_000_000, 300_000)
    name = f"rows_{next(_numbers)}"
    server.execute(
        "postgres",
        f"CREATE TABLE {name} ({COLUMNS})",
        f"INSERT INTO {name} SELECT i, 'name ' || i, i / 10.0 FROM generate_series(1, {rows}) i",
    )
    config = {
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "connection.url": f"jdbc:postgresql://127.0.0.1:{server.port}/postgres",
        "connection.user": USER,
        "connection.password": PASSWORD,
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": name,
        "topic.prefix": "",
        "poll.interval.ms": "100",
        "tasks.max": "1",
    }
    broker.create_topic(name, 1)
    began = time.perf_counter()
    put(f"table-{name}", config)
    _wait(lambda: _end(broker, name) >= rows)
    taken = time.perf_counter() - began
    context.say(f"table: {rows / taken:,.0f} rows/s")
    server.execute("postgres", f"DROP TABLE {name}")
    return rows / taken


def _capture(
    context: Context,
    server: PostgreSQLServer,
    broker: Broker,
    put: Put,
    delete: Delete,
    found: dict[str, list[float]],
) -> None:
    rows = context.sized(200_000, 50_000)
    number = next(_numbers)
    table, topic, name = f"changes_{number}", f"capture-{number}.public.changes_{number}", f"capture-{number}"
    insert = f"INSERT INTO {table} SELECT i, 'name ' || i, i / 10.0 FROM generate_series"
    server.execute("postgres", f"CREATE TABLE {table} ({COLUMNS})", f"{insert}(1, {rows}) i")
    broker.create_topic(topic, 1)
    config = {
        "connector.class": CAPTURE,
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": USER,
        "database.password": PASSWORD,
        "database.dbname": "postgres",
        "topic.prefix": f"capture-{number}",
        "table.include.list": f"public.{table}",
        "slot.name": f"slot_{number}",
        "publication.name": f"publication_{number}",
        "publication.autocreate.mode": "filtered",
        "slot.drop.on.stop": "true",
        "tasks.max": "1",
    }
    put(name, config)
    _wait(lambda: _end(broker, topic) > 1)
    # The start of a Java machine is not what is compared: the clock runs from the first records on.
    first, began = _end(broker, topic), time.perf_counter()
    _wait(lambda: _end(broker, topic) >= rows)
    found.setdefault("snapshot", []).append((rows - first) / (time.perf_counter() - began))
    began = time.perf_counter()
    server.execute("postgres", f"{insert}({rows + 1}, {2 * rows}) i")
    _wait(lambda: _end(broker, topic) >= 2 * rows)
    found.setdefault("streaming", []).append(rows / (time.perf_counter() - began))
    found.setdefault("latency", []).extend(_latencies(server, broker, table, topic, context.sized(300, 50), 2 * rows))
    rates = f"snapshot {found['snapshot'][-1]:,.0f}, streaming {found['streaming'][-1]:,.0f} rows/s"
    context.say(f"capture: {rates}, p99 {percentile(found['latency'], 0.99):.2f} s")
    delete(name)
    _wait(lambda: not server.rows("postgres", f"SELECT 1 FROM pg_replication_slots WHERE slot_name = 'slot_{number}'"))
    server.execute("postgres", f"DROP TABLE {table}")


def _latencies(
    server: PostgreSQLServer, broker: Broker, table: str, topic: str, count: int, before: int
) -> list[float]:
    partition = TopicPartition(topic, 0)
    settings = {"bootstrap.servers": broker.address, "isolation.level": "read_committed"}
    found = []
    with Consumer(settings) as consumer, server.connect() as connection, connection.cursor() as cursor:
        consumer.assign([partition])
        consumer.seek_to_end(partition)
        consumer.position(partition)
        for number in range(count):
            cursor.execute(f"INSERT INTO {table} VALUES ({before + 1 + number}, 'late', 0)")
            began = time.perf_counter()
            while not consumer.poll(timeout=1.0):
                assert time.perf_counter() - began < TIMEOUT_S, "the record does not arrive"
            found.append(time.perf_counter() - began)
            time.sleep(LATENCY_PAUSE_S)
    return found


def _end(broker: Broker, topic: str) -> int:
    """The offsets that a reader of committed records can reach. A few of them are markers of transactions."""
    partition = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=broker.address, isolation_level="read_committed") as consumer:
        return consumer.end_offsets(partition)[partition]


def _wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not done():
        assert time.monotonic() < deadline, "the connector has not finished"
        time.sleep(POLL_S)
