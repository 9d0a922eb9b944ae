"""`moldau topics` and `moldau configs`: effects, output and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Command, Tool
from tests.compat.apache_kafka.processes import free_port
from tests.compat.wire import produced
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

Name = Callable[[], str]


def test_a_topic_is_created_described_altered_and_deleted(
    moldau: Command, raw: RawConnection, unused_name: Name
) -> None:
    name = unused_name()
    made = moldau("topics", "create", name, "--partitions", "2", "--config", "retention.ms=100000")
    assert (made.exit_code, made.stdout) == (0, f"{name} created: 2 partitions, replication factor 1\n")
    assert name in moldau("topics", "list").stdout.splitlines()

    produced(raw, name, b"one", b"two", partition=1)
    described = json.loads(moldau("topics", "describe", name, "--output", "json").stdout)
    assert described[0]["configs"] == {"retention.ms": "100000"}
    assert [one["end_offset"] for one in described[0]["partitions"]] == [0, 2]

    assert moldau("topics", "alter", name, "--partitions", "3", "--delete-config", "retention.ms").exit_code == 0
    shown = moldau("topics", "describe", "--topic", name).stdout.splitlines()
    assert shown[0].startswith(f"{name}  id ")
    assert "retention.ms" not in shown[0]
    assert shown[1].split() == ["PARTITION", "LEADER", "REPLICAS", "ISR", "FIRST", "OFFSET", "END", "OFFSET"]
    assert len(shown) == 5

    assert moldau("topics", "delete", name).stdout == f"{name} deleted\n"
    assert name not in moldau("topics", "list").stdout.splitlines()


def test_lists_are_printed_as_names_tables_or_json(moldau: Command, topic: str) -> None:
    assert topic in moldau("topics", "list").stdout.splitlines()
    table = moldau("topics", "list", "--long").stdout.splitlines()
    assert table[0].split() == ["TOPIC", "ID", "PARTITIONS", "INTERNAL"]
    (row,) = [line.split() for line in table if line.startswith(f"{topic} ")]
    assert row[2:] == ["1", "no"]
    (found,) = [one for one in json.loads(moldau("topics", "list", "-o", "json").stdout) if one["topic"] == topic]
    assert found["partitions"] == 1


def test_existing_and_missing_topics_are_errors_unless_allowed(moldau: Command, topic: str, unused_name: Name) -> None:
    again = moldau("topics", "create", topic)
    assert again.exit_code == 1
    assert again.stdout == ""
    assert again.stderr.startswith(f"moldau: creating topic '{topic}': ")
    assert again.stderr.count("\n") == 1
    assert moldau("topics", "create", topic, "--if-not-exists").stdout == f"{topic} already exists\n"

    other = unused_name()
    some = moldau("topics", "delete", topic, other)
    assert (some.exit_code, some.stdout) == (1, f"{topic} deleted\n")
    assert other in some.stderr
    assert moldau("topics", "delete", other, "--if-exists").exit_code == 0
    assert moldau("topics", "describe", other).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("topics", "create"), "give the name of a topic"),
        (("topics", "create", "a", "--config", "retention.ms"), "NAME=VALUE"),
        (("topics", "alter", "a"), "nothing to alter"),
        (("topics", "list", "--nonsense"), "nonsense"),
        (("configs", "describe"), "give --topic, --broker"),
        (("configs", "alter", "--topic", "a"), "nothing to alter"),
        (("groups", "offsets"), "give the name of a group"),
        (("groups", "reset", "g", "--to-latest"), "give the topics"),
        (("groups", "reset", "g", "--topic", "a"), "--to-earliest"),
        (("groups", "reset", "g", "--topic", "a", "--to-latest", "--to-earliest"), "give one of"),
        (("groups", "reset", "g", "--topic", "a", "--to-datetime", "yesterday"), "YYYY-MM-DD"),
        (("groups", "reset", "g", "--topic", "a", "--by-duration", "1 hour"), "PnDTnHnMnS"),
        (("groups", "reset", "g", "--topic", "a:x", "--to-latest"), "TOPIC:0,1,2"),
        (("groups", "reset", "g", "--topic", "a", "--to-latest", "--dry-run", "--execute"), "use only one of"),
        (("transactions", "abort"), "give a transactional id"),
        (("transactions", "abort", "--topic", "a"), "must be given together"),
        (("transactions", "complete", "t", "--producer-id", "1", "--producer-epoch", "0"), "--commit or --abort"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_options_end_with_code_2_and_a_reason(moldau: Command, arguments: tuple[str, ...], reason: str) -> None:
    result = moldau(*arguments)
    assert result.exit_code == 2
    assert reason in result.stderr
    assert result.stdout == ""


def test_settings_are_described_and_altered(moldau: Command, topic: str) -> None:
    assert "nothing is set" in moldau("configs", "describe", "--topic", topic).stdout
    altered = moldau(
        "configs", "alter", "--topic", topic, "--set", "retention.ms=5000", "--append", "cleanup.policy=compact"
    )
    assert (altered.exit_code, altered.stdout) == (0, f"settings of topic '{topic}' altered\n")
    (found,) = json.loads(moldau("configs", "describe", "--topic", topic, "-o", "json").stdout)
    assert {one["name"]: one["value"] for one in found["configs"]} == {
        "cleanup.policy": "delete,compact",
        "retention.ms": "5000",
    }
    moldau("configs", "alter", "--topic", topic, "--delete", "retention.ms", "--subtract", "cleanup.policy=delete")
    everything = moldau("configs", "describe", "--topic", topic, "--all").stdout.splitlines()
    assert "NAME" in everything[1]
    assert any(line.split()[:2] == ["cleanup.policy", "compact"] for line in everything)
    assert any(line.split()[:3] == ["segment.bytes", "1073741824", "DEFAULT_CONFIG"] for line in everything)

    refused = moldau("configs", "alter", "--topic", topic, "--set", "no.such.setting=1")
    assert refused.exit_code == 1
    assert "no.such.setting" in refused.stderr
    assert moldau("configs", "alter", "--topic", topic, "--set", "retention.ms=1", "--validate-only").exit_code == 0


def test_settings_of_brokers_are_described(moldau: Command) -> None:
    (node,) = [one["id"] for one in json.loads(moldau("cluster", "describe", "-o", "json").stdout)["brokers"]]
    assert "node.id" in moldau("configs", "describe", "--broker", str(node), "--all").stdout
    assert moldau("configs", "describe", "--all-brokers").exit_code == 0


def test_internal_topics_are_listed_on_request(moldau: Command, our_tool: Tool, bootstrap: str) -> None:
    assert moldau("topics", "create", "__of_a_tool").exit_code == 0
    try:
        assert "__of_a_tool" not in moldau("topics", "list").stdout.splitlines()
        assert "__of_a_tool" not in moldau("topics", "describe").stdout
        assert "__of_a_tool" in moldau("topics", "list", "--internal").stdout.splitlines()
        assert "__of_a_tool" in moldau("topics", "describe", "--internal").stdout
        kafka_topics = our_tool("kafka-topics", "--bootstrap-server", bootstrap, "--list", "--exclude-internal")
        assert "__of_a_tool" in kafka_topics.out.splitlines(), "Kafka lists only its own internal topics"
    finally:
        moldau("topics", "delete", "__of_a_tool")


def test_an_unreachable_broker_is_reported_in_one_line(moldau: Command, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    # Settings of other clients are ignored, so that one file serves all tools.
    config.write_text("default.api.timeout.ms=200\nrequest.timeout.ms=200\nlinger.ms=5\n")
    port = free_port()
    result = moldau("topics", "list", "-b", f"127.0.0.1:{port}", "--command-config", str(config))
    assert result.exit_code == 1
    assert f"127.0.0.1:{port}" in result.stderr
    assert result.stderr.count("\n") == 1
    config.write_text("no.such.setting=1\n")
    wrong = moldau("topics", "list", "--command-config", str(config))
    assert (wrong.exit_code, wrong.stderr.count("\n")) == (1, 1)
    assert "no.such.setting" in wrong.stderr
    missing = moldau("topics", "list", "--command-config", str(tmp_path / "missing"))
    assert (missing.exit_code, missing.stderr.count("\n")) == (1, 1)


def test_settings_of_a_group_are_altered_and_described(moldau: Command, topic: str) -> None:
    group = ("--group", f"{topic}-readers")
    assert "nothing is set" in moldau("configs", "describe", *group).stdout
    assert moldau("configs", "alter", *group, "--set", "consumer.session.timeout.ms=50000").exit_code == 0
    wait_until(lambda: "DYNAMIC_GROUP_CONFIG" in moldau("configs", "describe", *group).stdout)
    refused = moldau("configs", "alter", *group, "--set", "consumer.session.timeout.ms=1")
    assert refused.exit_code == 1
    assert "group.consumer.min.session.timeout.ms" in refused.stderr
    assert moldau("configs", "alter", *group, "--delete", "consumer.session.timeout.ms").exit_code == 0
    wait_until(lambda: "nothing is set" in moldau("configs", "describe", *group).stdout)
