"""Commands `moldau acls`, `users` and `quotas`: tables, JSON, exit codes, and passwords that stay secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau import Admin
from moldau.cli import passwords
from moldau.client.admin import AclFilter, QuotaEntity, ScramMechanism, UserScramDeletion
from moldau.testing import Broker
from tests.cli.conftest import Command, command_for

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
PASSWORD = "correct horse battery staple"


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


@pytest.fixture
def admin(secured: Broker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=secured.bootstrap_servers) as client:
        yield client
        client.delete_acls(AclFilter())
        for user, mechanisms in client.describe_user_scram_credentials().items():
            for mechanism in mechanisms:
                client.alter_user_scram_credentials(UserScramDeletion(user, mechanism))
        for entity, values in client.describe_client_quotas().items():
            client.alter_client_quotas({entity: dict.fromkeys(values)})


@pytest.fixture
def moldau(secured: Broker, admin: Admin) -> Command:
    return command_for(secured.bootstrap_servers)


def found(moldau: Command, *arguments: str) -> Any:
    result = moldau(*arguments, "--output", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


# Rules ----------------------------------------------------------------------------------------------------------------


def test_rules_are_added_listed_and_removed(moldau: Command) -> None:
    added = moldau(
        *("acls", "add", "--principal", "User:alice", "--principal", "User:bob", "--operation", "read"),
        *("--topic", "orders-", "--prefixed", "--group", "readers", "--host", "10.0.0.0/8"),
    )
    assert added.exit_code == 0, added.output
    assert added.stdout.splitlines() == [
        "RESOURCE  NAME     PATTERN   PRINCIPAL   HOST        OPERATION  PERMISSION",
        "topic     orders-  prefixed  User:alice  10.0.0.0/8  read       allow",
        "topic     orders-  prefixed  User:bob    10.0.0.0/8  read       allow",
        "group     readers  prefixed  User:alice  10.0.0.0/8  read       allow",
        "group     readers  prefixed  User:bob    10.0.0.0/8  read       allow",
    ]
    moldau("acls", "add", "--principal", "User:bob", "--operation", "alter-configs", "--cluster", "--deny")
    assert len(found(moldau, "acls", "list")) == 5
    (rule,) = found(moldau, "acls", "list", "--deny")
    assert rule == {
        "resource": "cluster",
        "name": "kafka-cluster",
        "pattern": "literal",
        "principal": "User:bob",
        "host": "*",
        "operation": "alter-configs",
        "permission": "deny",
    }
    matching = found(
        moldau, "acls", "list", "--topic", "orders-7", "--pattern-type", "match", "--principal", "User:bob"
    )
    assert [rule["name"] for rule in matching] == ["orders-"]
    assert found(moldau, "acls", "list", "--topic", "orders-7") == []
    assert found(moldau, "acls", "remove", "--topic", "orders-") == [], "patterns are literal unless told otherwise"
    assert len(found(moldau, "acls", "remove", "--principal", "User:bob")) == 3
    assert len(found(moldau, "acls", "remove", "--all")) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("acls", "remove"),
        ("acls", "add", "--principal", "User:alice", "--operation", "read"),
        ("acls", "add", "--principal", "User:alice", "--topic", "t"),
        ("acls", "add", "--operation", "read", "--topic", "t"),
        ("acls", "add", "--principal", "User:alice", "--operation", "reed", "--topic", "t"),
        ("quotas", "set", "--user", "alice"),
        ("quotas", "set", "--producer-byte-rate", "5"),
        ("quotas", "set", "--user", "alice", "--user-default", "--producer-byte-rate", "5"),
        ("quotas", "remove"),
        ("quotas", "remove", "speed", "--user", "alice"),
        ("users", "add"),
        ("users", "add", "alice"),
        ("users", "add", "alice", "--password-file", "f", "--password-env", "E"),
        ("users", "add", "alice", "--password-env", "MOLDAU_NO_SUCH_VARIABLE"),
        ("users", "add", "alice", "--iterations", "100"),
    ],
)
def test_wrong_usage_changes_nothing_and_exits_with_2(
    moldau: Command, admin: Admin, arguments: tuple[str, ...]
) -> None:
    assert moldau(*arguments).exit_code == 2
    assert (admin.describe_acls(), admin.describe_client_quotas(), admin.describe_user_scram_credentials()) == (
        [],
        {},
        {},
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("acls", "add", "--principal", "alice", "--operation", "read", "--topic", "t"), "TYPE:NAME"),
        (("acls", "add", "--principal", "User:a", "--operation", "read", "--topic", "t", "--host", "x"), "'x'"),
        (("quotas", "set", "--user", "alice", "--producer-byte-rate", "-5"), "greater than 0"),
        (("quotas", "set", "--ip", "10.0.0.1", "--producer-byte-rate", "5"), "connection_creation_rate"),
        (("users", "remove", "nobody"), "nobody"),
        (("users", "list", "nobody"), "nobody"),
        (("users", "add", "alice", "--password-file", "/no/such/file"), "/no/such/file"),
    ],
)
def test_what_the_broker_or_the_machine_refuses_is_one_line_and_exits_with_1(
    moldau: Command, arguments: tuple[str, ...], reason: str
) -> None:
    result = moldau(*arguments)
    assert result.exit_code == 1
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1


# Users ----------------------------------------------------------------------------------------------------------------


def test_users_are_added_from_files_variables_and_prompts(
    moldau: Command, admin: Admin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    monkeypatch.setenv("ALICE_PASSWORD", PASSWORD)
    results = [
        moldau("users", "add", "one", "--password-file", str(file)),
        moldau("users", "add", "two", "--password-env", "ALICE_PASSWORD", "--mechanism", "SCRAM-SHA-256"),
        moldau("users", "add", "three", "--password-file", "-", "--iterations", "8192", input=f"{PASSWORD}\n"),
    ]
    monkeypatch.setattr(passwords, "has_terminal", lambda: True)
    results.append(moldau("users", "add", "four", input=f"{PASSWORD}\n{PASSWORD}\n"))
    results.append(moldau("users", "add", "one", "--password-file", str(file)))
    for result in results:
        assert result.exit_code == 0, result.output
        assert PASSWORD not in result.output
    assert "another password" in results[-1].stdout
    both = {ScramMechanism.SCRAM_SHA_256: 4096, ScramMechanism.SCRAM_SHA_512: 4096}
    assert admin.describe_user_scram_credentials() == {
        "four": both,
        "one": both,
        "three": dict.fromkeys(both, 8192),
        "two": {ScramMechanism.SCRAM_SHA_256: 4096},
    }
    assert moldau("users", "list").stdout.splitlines()[:2] == [
        "USER   MECHANISM      ITERATIONS",
        "four   SCRAM-SHA-256        4096",
    ]
    assert moldau("users", "remove", "one", "two", "four").exit_code == 0
    assert moldau("users", "remove", "three", "--mechanism", "SCRAM-SHA-256").exit_code == 0
    assert found(moldau, "users", "list") == [{"user": "three", "mechanism": "SCRAM-SHA-512", "iterations": 8192}]


# Quotas ---------------------------------------------------------------------------------------------------------------


def test_quotas_are_set_listed_and_removed(moldau: Command, admin: Admin) -> None:
    moldau("quotas", "set", "--user", "alice", "--producer-byte-rate", "1000", "--request-percentage", "12.5")
    moldau("quotas", "set", "--user-default", "--client-id", "reports", "--consumer-byte-rate", "7")
    moldau("quotas", "set", "--ip", "10.0.0.7", "--connection-creation-rate", "5")
    assert admin.describe_client_quotas() == {
        QuotaEntity(user="alice"): {"producer_byte_rate": 1000.0, "request_percentage": 12.5},
        QuotaEntity(user="<default>", client_id="reports"): {"consumer_byte_rate": 7.0},
        QuotaEntity(ip="10.0.0.7"): {"connection_creation_rate": 5.0},
    }
    assert moldau("quotas", "list", "--user", "alice").stdout.splitlines() == [
        "USER   CLIENT_ID  IP  QUOTA               VALUE",
        "alice  -          -   producer_byte_rate   1000",
        "alice  -          -   request_percentage   12.5",
    ]
    (quota,) = found(moldau, "quotas", "list", "--user-default")
    assert quota == {"user": "<default>", "client_id": "reports", "ip": None, "quota": "consumer_byte_rate", "value": 7}
    removed = found(moldau, "quotas", "remove", "producer_byte_rate", "--user", "alice")
    assert [one["quota"] for one in removed] == ["producer_byte_rate"]
    assert found(moldau, "quotas", "remove", "--user", "alice")[0]["quota"] == "request_percentage"
    assert found(moldau, "quotas", "remove", "--user", "alice") == []
    assert len(found(moldau, "quotas", "list")) == 2
