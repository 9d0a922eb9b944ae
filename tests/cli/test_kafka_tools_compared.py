"""Our tools with Kafka's names, compared with Apache Kafka's: output and exit codes."""

from __future__ import annotations

import json
import re
import shlex
import uuid
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.cli.conftest import Tool
from tests.cli.prefixed_objects import PrefixedObjects
from tests.cli.real_tools import RealTools, Result

pytestmark = pytest.mark.needs_java

# Each line is run for both sets of names, in this order. Later lines see the changes of earlier ones.
COMMANDS = """
kafka-topics BS --create --topic @new --partitions 2 --replication-factor 1 --config retention.ms=1000000
kafka-topics BS --create --topic @new
kafka-topics BS --create --topic @new --if-not-exists
kafka-topics BS --create --topic @with.dot
kafka-topics BS --create --topic @bad/name
kafka-topics BS --create --topic @large --replication-factor 3
kafka-topics BS --create --topic @odd --config nosuch=1
kafka-topics BS --create --topic @odd --config retention.ms
kafka-topics BS --create --topic @none --partitions 0
kafka-topics BS --create --topic @placed --replica-assignment 1,1
kafka-topics BS --list --topic @.*
kafka-topics BS --describe --topic @new
kafka-topics BS --describe --topic @nosuch
kafka-topics BS --describe --topic @nosuch --if-exists
kafka-topics BS --describe --topic @.* --topics-with-overrides
kafka-topics BS --describe --topic @orders --under-replicated-partitions
kafka-topics BS --describe --topic @bills --at-min-isr-partitions
kafka-topics BS --alter --topic @new --partitions 4
kafka-topics BS --alter --topic @new --partitions 2
kafka-topics BS --alter --topic @nosuch --partitions 2
kafka-topics BS --describe --topic @new
kafka-topics BS --delete --topic @new
kafka-topics BS --delete --topic @new
kafka-topics BS --delete --topic @new --if-exists
kafka-topics BS
kafka-configs BS --describe --entity-type topics --entity-name @orders
kafka-configs BS --describe --topic @bills --all
kafka-configs BS --describe --topic @nosuch
kafka-configs BS --describe --entity-type brokers
kafka-configs BS --alter --topic @bills --add-config max.message.bytes=5000,cleanup.policy=[compact,delete]
kafka-configs BS --alter --topic @bills --delete-config cleanup.policy
kafka-configs BS --describe --topic @bills
kafka-configs BS --alter --topic @bills --add-config nosuch=1
kafka-configs BS --alter --topic @bills
kafka-configs BS --describe
kafka-configs BS --alter --group @live --add-config consumer.session.timeout.ms=50000
kafka-configs BS --alter --entity-type groups --entity-name @nobody --add-config nosuch=1
kafka-configs BS --describe --entity-type groups --entity-name @live
kafka-configs BS --describe --group @idle --all
kafka-configs BS --describe --group @nosuch
kafka-get-offsets BS --topic @.* --exclude-internal-topics
kafka-get-offsets BS --topic @orders --time earliest --partitions 0,2
kafka-get-offsets BS --topic-partitions @orders:1-,@bills:-1
kafka-get-offsets BS --topic @nosuch
kafka-get-offsets BS --time soon
kafka-consumer-groups BS --describe --group @idle
kafka-consumer-groups BS --describe --group @live
kafka-consumer-groups BS --describe --group @live --verbose
kafka-consumer-groups BS --describe --group @live --members --verbose
kafka-consumer-groups BS --describe --group @live --state --verbose
kafka-consumer-groups BS --describe --group @idle --group @live --members
kafka-consumer-groups BS --describe --group @idle --state
kafka-consumer-groups BS --describe --group @nosuch
kafka-consumer-groups BS --reset-offsets --group @idle --topic @orders --to-earliest --dry-run
kafka-consumer-groups BS --reset-offsets --group @idle --all-topics --shift-by 3 --execute
kafka-consumer-groups BS --reset-offsets --group @idle --topic @orders:0 --to-datetime 2020-01-01T00:00:00.000 --dry-run
kafka-consumer-groups BS --reset-offsets --group @idle --all-topics --to-latest --dry-run --export
kafka-consumer-groups BS --reset-offsets --group @idle --from-file DIR/reset.csv --execute
kafka-consumer-groups BS --reset-offsets --group @live --topic @bills --to-earliest --execute
kafka-consumer-groups BS --reset-offsets --group @idle --topic @orders:9 --to-earliest --dry-run
kafka-consumer-groups BS --describe --group @idle
kafka-consumer-groups BS --delete-offsets --group @idle --topic @orders:0
kafka-consumer-groups BS --delete-offsets --group @nosuch --topic @orders:0
kafka-consumer-groups BS --delete --group @live
kafka-consumer-groups BS --delete --group @idle
kafka-delete-records BS --offset-json-file DIR/delete.json
kafka-delete-records BS --offset-json-file DIR/nosuch.json
kafka-log-dirs BS --describe --topic-list @bills
kafka-cluster cluster-id BS
kafka-cluster list-endpoints BS
kafka-cluster unregister BS --id 4711
kafka-broker-api-versions BS
kafka-transactions BS describe --transactional-id @nosuch
kafka-transactions BS describe-producers --topic @orders --partition 0
kafka-transactions BS find-hanging --topic @orders
kafka-reassign-partitions BS --list
kafka-reassign-partitions BS --generate --topics-to-move-json-file DIR/topics.json --broker-list 1
kafka-reassign-partitions BS --generate --topics-to-move-json-file DIR/topics.json
kafka-reassign-partitions BS --verify --reassignment-json-file DIR/plan.json
kafka-reassign-partitions BS --execute --reassignment-json-file DIR/plan.json
kafka-reassign-partitions BS --execute --reassignment-json-file DIR/plan.json --throttle 1000000
kafka-reassign-partitions BS --verify --reassignment-json-file DIR/plan.json --preserve-throttles
kafka-configs BS --describe --topic @orders
kafka-reassign-partitions BS --verify --reassignment-json-file DIR/plan.json
kafka-configs BS --describe --topic @orders
kafka-reassign-partitions BS --cancel --reassignment-json-file DIR/plan.json
kafka-reassign-partitions BS --execute --reassignment-json-file DIR/nobody.json
kafka-reassign-partitions BS --execute --reassignment-json-file DIR/unknown.json
kafka-reassign-partitions BS --execute --reassignment-json-file DIR/missing.json
kafka-reassign-partitions BS --execute
kafka-reassign-partitions BS --list --verify
kafka-reassign-partitions BS --verify --reassignment-json-file DIR/plan.json --throttle 5
kafka-reassign-partitions BS
kafka-reassign-partitions --list
kafka-leader-election BS --election-type PREFERRED --topic @orders --partition 0
kafka-leader-election BS --election-type unclean --topic @orders --partition 0
kafka-leader-election BS --election-type preferred --path-to-json-file DIR/plan.json
kafka-leader-election BS --election-type preferred --path-to-json-file DIR/missing.json
kafka-leader-election BS --election-type sometimes --all-topic-partitions
kafka-leader-election BS --election-type preferred --topic @orders
kafka-leader-election BS --election-type preferred
kafka-leader-election --all-topic-partitions
"""

FILES = {
    "topics.json": '{"topics": [{"topic": "@orders"}, {"topic": "@bills"}], "version": 1}',
    "plan.json": """{"version": 1, "partitions": [
        {"topic": "@orders", "partition": 0, "replicas": [1]},
        {"topic": "@orders", "partition": 2, "replicas": [1]}
    ]}""",
    "nobody.json": '{"version": 1, "partitions": [{"topic": "@orders", "partition": 0, "replicas": [4711]}]}',
    "unknown.json": '{"version": 1, "partitions": [{"topic": "@nosuch", "partition": 0, "replicas": [1]}]}',
}

# Lines that only Java prints: stack traces, logs, and the table of options after a usage error.
NOISE = re.compile(
    r"\s+at |\s+\.\.\. |Caused by|\[\S+( \| \S+)?\] (ERROR|WARN)|java\.|org\.apache|joptsimple|usage:|\s*$"
)
OUR_WARNING = re.compile(r"New offset \(")


class Comparable(NamedTuple):
    """The parts of a result that must be equal."""

    code: int
    out: list[str]
    complaint: list[str]


def comparable(objects: PrefixedObjects, result: Result) -> Comparable:
    """Lines in order, except for those that Kafka prints in the order of a hash table: these are sorted."""
    lines = [normal(line) for line in objects.plain(result.out).splitlines()]
    # some tools print errors with a stack trace on standard output
    if any(line.startswith("Error: ") for line in lines):
        lines = [line for line in lines if not NOISE.match(line)]
    complaint = [line for line in objects.plain(result.err).splitlines() if not NOISE.match(line)]
    complaint = [line for line in complaint if not OUR_WARNING.match(line)]
    return Comparable(result.code, sorted(lines), complaint[:1])


def normal(line: str) -> str:
    if line.startswith('{"brokers"'):
        content = json.loads(line)
        for log_dir in content["brokers"][0]["logDirs"]:
            log_dir["partitions"].sort(key=lambda one: one["partition"])
        return json.dumps(content)
    if line.startswith('{"version"'):
        # our tools leave these checks to the brokers
        return re.sub(r'"log_dirs":\[[^]]*\]', '"log_dirs":DIRECTORIES', line)
    if " elected for partitions " in line:
        head, _, partitions = line.rpartition(" partitions ")
        return f"{head} partitions {', '.join(sorted(partitions.split(', ')))}"
    if "\tConfigs: " in line:
        head, configs = line.split("\tConfigs: ")
        return f"{head}\tConfigs: {','.join(sorted(configs.split(',')))}"
    return line


@pytest.fixture(scope="module")
def both_sides(
    bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[PrefixedObjects, PrefixedObjects]]:
    run = uuid.uuid4().hex[:6]
    made = []
    for letter in "km":
        objects = PrefixedObjects(bootstrap, f"{letter}{run}-", tmp_path_factory.mktemp(f"objects-{letter}"))
        (objects.directory / "reset.csv").write_text(objects.filled("@orders,0,3\n@orders,1,400\n"))
        (objects.directory / "delete.json").write_text(
            objects.filled('{"partitions": [{"topic": "@bills", "partition": 1, "offset": 2}], "version": 1}')
        )
        for name, content in FILES.items():
            (objects.directory / name).write_text(objects.filled(content))
        made.append(objects.create())
    yield made[0], made[1]
    for objects in made:
        objects.close()


def test_every_command_prints_what_kafkas_own_tool_prints(
    kafkas_tools: RealTools, our_tool: Tool, both_sides: tuple[PrefixedObjects, PrefixedObjects]
) -> None:
    theirs, ours = both_sides
    differences = []
    for command in COMMANDS.strip().splitlines():
        theirs.heartbeat()
        ours.heartbeat()
        expected = comparable(theirs, kafkas_tools.run(*shlex.split(theirs.filled(command))))
        found = comparable(ours, our_tool(*shlex.split(ours.filled(command))))
        if found != expected:
            differences.append(f"{command}\n  Kafka:  {expected}\n  Moldau: {found}")
    assert not differences, "\n".join(differences)


def test_kafka_tools_without_an_equivalent_here_print_correct_facts(
    kafkas_tools: RealTools, bootstrap: str, moldau_only: None
) -> None:
    def run(tool: str, *arguments: str) -> str:
        result = kafkas_tools.run(tool, "--bootstrap-server", bootstrap, *arguments)
        assert result.code == 0, result
        return result.out

    status = run("kafka-metadata-quorum", "describe", "--status")
    assert re.search(r"LeaderId: +1\nLeaderEpoch: +\d+\nHighWatermark: +-1\n", status)
    assert re.search(r'CurrentVoters: +\[\{"id": 1,', status)
    assert "Leader" in run("kafka-metadata-quorum", "describe", "--replication")
    assert re.search(r"transaction\.version .*FinalizedVersionLevel: 2", run("kafka-features", "describe"))
    assert "was upgraded to 1" in run("kafka-features", "upgrade", "--feature", "group.version=1")
    assert run("kafka-client-metrics", "--list").strip() == ""
    refused = kafkas_tools.run(
        "kafka-features", "--bootstrap-server", bootstrap, "downgrade", "--feature", "group.version=0"
    )
    assert refused.code == 1
    assert "cannot be lowered" in refused.out + refused.err
