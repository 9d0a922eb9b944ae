"""Commands at a broker with TLS and logins: one file of client settings is enough for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Tool, command_for
from tests.cli.processes import done, run
from tests.support.secured import ADMIN, ADMIN_PASSWORD, SecuredBroker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    settings = {"connection.failed.authentication.delay.ms": "0"}
    with SecuredBroker(tmp_path_factory.mktemp("secured"), settings) as running:
        yield running


def properties(broker: SecuredBroker, path: Path, password: str = ADMIN_PASSWORD) -> str:
    """A file as Kafka's own tools take it, with the address."""
    path.write_text(
        f"bootstrap.servers={broker.address('SASL_SSL')}\n"
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        f'  username="{ADMIN}" \\\n  password="{password}";\n'
        f"ssl.truststore.location={broker.truststore}\nssl.truststore.type=PEM\n"
    )
    return str(path)


def test_one_file_works_for_every_command(broker: SecuredBroker, tmp_path: Path) -> None:
    config = ("--command-config", properties(broker, tmp_path / "client.properties"))
    command = command_for("")
    assert command("topics", "create", "greetings", *config).exit_code == 0
    assert "greetings" in command("topics", "list", *config).stdout
    done("127.0.0.1:9092", "produce", "greetings", *config, given=b"hello\n")
    read = ("consume", "greetings", "--from-beginning", "--max-messages", "1")
    assert b"hello" in done("127.0.0.1:9092", *read, *config)


@pytest.mark.parametrize(
    "measured", [("produce", "--num-records", "10"), ("consume", "--messages", "5"), ("latency", "--num-records", "5")]
)
def test_measurements_log_in_too(broker: SecuredBroker, tmp_path: Path, measured: tuple[str, ...]) -> None:
    config = ("--command-config", properties(broker, tmp_path / "client.properties"))
    topic = f"measured-{measured[0]}"
    command = command_for("")
    assert command("topics", "create", topic, *config).exit_code == 0
    done("127.0.0.1:9092", "produce", topic, *config, given=b"hello\n" * 10)
    result = command("perf", *measured, "--topic", topic, *config)
    assert result.exit_code == 0, result.stderr


def test_an_environment_variable_names_the_file(
    broker: SecuredBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOLDAU_COMMAND_CONFIG", properties(broker, tmp_path / "client.properties"))
    assert command_for("")("topics", "list").exit_code == 0


def test_a_wrong_password_ends_each_command_with_one_line(broker: SecuredBroker, tmp_path: Path) -> None:
    config = ("--command-config", properties(broker, tmp_path / "client.properties", "wrong-password"))
    for command in (("topics", "list"), ("produce", "greetings"), ("consume", "greetings", "--from-beginning")):
        ended = run("127.0.0.1:9092", *command, *config, given=b"hello\n")
        assert ended.returncode == 1
        assert b"refused the login with SCRAM-SHA-512" in ended.stderr
        assert b"Traceback" not in ended.stderr and b"wrong-password" not in ended.stdout + ended.stderr


def test_nothing_works_without_the_file(broker: SecuredBroker) -> None:
    ended = command_for(broker.address("SASL_SSL"))("topics", "list")
    assert ended.exit_code == 1 and "set security.protocol to SSL or SASL_SSL" in ended.stderr


def test_kafkas_tools_take_the_file(broker: SecuredBroker, tmp_path: Path, our_tool: Tool) -> None:
    config = properties(broker, tmp_path / "client.properties")
    address = ("--bootstrap-server", broker.address("SASL_SSL"))
    created = our_tool("kafka-topics", *address, "--command-config", config, "--create", "--topic", "tools")
    assert created.code == 0, created.err
    assert "tools" in our_tool("kafka-topics", *address, "--command-config", config, "--list").out
