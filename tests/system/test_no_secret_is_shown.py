"""Secrets of a secured broker: whatever it logs, answers or writes for others to read, none of them is in it.

A busy broker with TLS, SCRAM, rules and delegation tokens logs at DEBUG level. Clients log in, fail to log in, are
denied, describe everything and change passwords. Then all output is searched for every secret that was used.
"""

from __future__ import annotations

import base64
import contextlib
import io
import logging
import re
import stat
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from confluent_kafka import Producer as ConfluentProducer

from moldau import Admin, ConfigResource, Consumer, NewTopic, Producer
from moldau.cli import security_files
from moldau.client.admin.delegation_tokens import IssuedToken
from moldau.client.admin.users import UserScramUpsertion
from moldau.errors import MoldauError
from moldau.security.jaas import parse_login_module
from moldau.settings.sources import read_properties
from tests.cli.processes import run as run_command
from tests.compat.apache_kafka.processes import free_port
from tests.support.process import BrokerProcess

WRONG_PASSWORD = "this-password-is-wrong-7f3a"
NEW_PASSWORD = "a-new-password-41c9"
PLAIN_PASSWORD = "a-plain-password-88e2"


class Secured:
    """A broker process, its security files, and everything that was printed about it."""

    def __init__(self, directory: Path) -> None:
        self.files = directory / "security"
        security_files.create(self.files, [security_files.local_hosts()], datetime.now(UTC))
        self.metrics_port = free_port()
        self.port = free_port()
        self.broker = BrokerProcess(
            directory / "data",
            {
                "listeners": f"SASL_SSL://127.0.0.1:{self.port}",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                "listener.name.sasl_ssl.plain.sasl.jaas.config": f"${{file:{directory / 'plain.jaas'}}}",
                "moldau.metrics.port": str(self.metrics_port),
            },
            arguments=["--config", str(self.files / "broker-0.properties"), "--log-level", "debug"],
        )
        module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        (directory / "plain.jaas").write_text(f'{module} user_paula="{PLAIN_PASSWORD}";')
        self.output: list[str] = []
        self.token: IssuedToken | None = None
        self.node = 0

    def client(self, user: str, **changes: str) -> dict[str, str]:
        settings = read_properties((self.files / f"{user}.properties").read_text())
        return {"bootstrap.servers": f"127.0.0.1:{self.port}", **settings, **changes}

    def password(self, user: str) -> str:
        return parse_login_module(self.client(user)["sasl.jaas.config"]).options["password"]

    def secrets(self) -> dict[str, str]:
        """Every secret of the run, by a name that may be shown."""
        found = {f"password of {user}": self.password(user) for user in ("admin", "user")}
        broker = read_properties((self.files / "broker-0.properties").read_text())
        login = next(value for name, value in broker.items() if name.endswith("sasl.jaas.config"))
        found["password of broker"] = parse_login_module(login).options["password"]
        found["key of tokens"] = (self.files / "delegation-token.key").read_text()
        for name in ("ca.key", "broker-0.pem"):
            text = (self.files / name).read_text()
            key = text[: text.index("-----END PRIVATE KEY")].splitlines()[1:]
            found |= {f"{name}, line {number}": line for number, line in enumerate(key)}
        users = (self.files / "users.properties").read_text()
        found |= {f"SCRAM key {n}": key for n, key in enumerate(re.findall(r"(?:stored|server)_key=([^,\]]+)", users))}
        assert self.token is not None
        found["secret of a token"] = self.token.password
        found |= {"wrong password": WRONG_PASSWORD, "new password": NEW_PASSWORD, "PLAIN password": PLAIN_PASSWORD}
        return found


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    secured = Secured(tmp_path_factory.mktemp("secrets"))
    logged = io.StringIO()
    handler = logging.StreamHandler(logged)
    clients = logging.getLogger("moldau")
    level = clients.level
    clients.addHandler(handler)
    clients.setLevel(logging.DEBUG)
    secured.broker.start()
    try:
        _be_busy(secured)
        secured.output += [secured.broker.log, logged.getvalue()]
        yield secured
    finally:
        clients.removeHandler(handler)
        clients.setLevel(level)
        secured.broker.stop()


def _be_busy(secured: Secured) -> None:
    output = secured.output
    with Admin(secured.client("admin")) as admin:
        admin.create_topics(NewTopic("orders", 1, 1))
        secured.token = admin.create_delegation_token()
        output.append(repr(secured.token))
        output.append(repr(admin.describe_delegation_tokens()))
        secured.node = admin.describe_cluster().brokers[0].id
        output.append(repr(admin.describe_configs(ConfigResource.broker(secured.node), documentation=True)))
        output.append(repr(admin.describe_user_scram_credentials()))
        admin.alter_user_scram_credentials(UserScramUpsertion("alice", NEW_PASSWORD))
    with Producer(secured.client("admin")) as producer:
        producer.send("orders", b"value").result()
    with Consumer("orders", secured.client("admin"), group_id="g", auto_offset_reset="earliest") as consumer:
        next(iter(consumer))
    with pytest.raises(MoldauError) as denied, Producer(secured.client("user"), max_block_ms=5_000) as producer:
        producer.send("orders", b"value").result()
    output.append(str(denied.getrepr(chain=True, showlocals=False)))
    login = (
        f'org.apache.kafka.common.security.scram.ScramLoginModule required username="user" password="{WRONG_PASSWORD}";'
    )
    with pytest.raises(MoldauError) as refused, Admin(secured.client("user", **{"sasl.jaas.config": login})) as admin:
        admin.list_topics()
    output.append(str(refused.getrepr(chain=True, showlocals=False)))
    with pytest.raises(MoldauError) as wrong:
        Admin(secured.client("user", **{"sasl.jaas.config": f"what {WRONG_PASSWORD}"})).close()
    output.append(str(wrong.getrepr(chain=True, showlocals=False)))
    errors: list[KafkaError] = []
    plain = {
        "bootstrap.servers": f"127.0.0.1:{secured.port}",
        "security.protocol": "sasl_ssl",
        "ssl.ca.location": str(secured.files / "ca.pem"),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "paula",
        "log_level": 0,
        "error_cb": errors.append,
    }
    ConfluentProducer({**plain, "sasl.password": PLAIN_PASSWORD}).list_topics(timeout=30)
    failing = ConfluentProducer({**plain, "sasl.password": WRONG_PASSWORD})
    while not errors:
        failing.poll(1)
    for command in (
        ["configs", "describe", "--broker", str(secured.node), "--all"],
        ["users", "list"],
        ["acls", "list"],
        ["cluster", "describe"],
    ):
        login_file = str(secured.files / "admin.properties")
        done = run_command(f"127.0.0.1:{secured.port}", *command, "--command-config", login_file)
        assert done.returncode == 0, done.stderr
        output += [done.stdout.decode(), done.stderr.decode()]
    with urllib.request.urlopen(f"http://127.0.0.1:{secured.metrics_port}/metrics") as page:
        output.append(page.read().decode())
    output.append(Path(f"/proc/{secured.broker.pid}/cmdline").read_text())


def _forms(secret: str) -> set[str]:
    """The secret as it is, and as base64 or hexadecimal digits, as a careless log line would have it."""
    raw = secret.encode()
    return {secret, base64.b64encode(raw).decode().rstrip("="), raw.hex()}


def test_no_output_has_a_secret(secured: Secured) -> None:
    everything = "\n".join(secured.output)
    assert "authentication failed" in everything
    assert "operation denied" in everything
    shown = {name for name, secret in secured.secrets().items() if any(form in everything for form in _forms(secret))}
    assert shown == set()


def test_no_file_that_others_can_read_has_a_secret(secured: Secured) -> None:
    found = set()
    for path in (*secured.files.rglob("*"), *secured.broker.data.rglob("*")):
        if not path.is_file() or not path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            continue
        with contextlib.suppress(OSError):
            text = path.read_bytes().decode(errors="replace")
            found |= {(path.name, name) for name, secret in secured.secrets().items() if secret in text}
    assert found == set()
