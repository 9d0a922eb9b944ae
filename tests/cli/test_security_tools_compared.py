"""Our tools of access control, users, quotas and tokens, compared with Apache Kafka's: output and exit codes.

Each side has a Moldau broker of its own, and the same commands, after a login by SASL.
"""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.conftest import Tool
from tests.cli.real_tools import RealTools, Result
from tests.support.secured import SecuredBroker

pytestmark = pytest.mark.needs_java

COMMANDS = [
    line
    for line in Path(__file__).with_name("security_tool_commands.txt").read_text().splitlines()
    if not line.startswith("#")
]
SECRET = "s3cret"
BROKER = {
    "sasl.jaas.config": 'x.PlainLoginModule required user_admin="admin-password";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "delegation.token.secret.key": "the key",
}
LOGIN = (
    "security.protocol=SASL_PLAINTEXT\n"
    "sasl.mechanism=PLAIN\n"
    "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="admin-password";\n'
)

# Lines that only Java prints: stack traces, logs, and the table of options after a usage error.
NOISE = re.compile(r"at |\.\.\. |Caused by|\[\S+( \| \S+)?\] (ERROR|WARN)|java\.|joptsimple|usage:|Option  |---|--|$")
HMAC = re.compile(r"\S{80,}")
TOKEN_ID = re.compile(r"\b[\w-]{22}(?=[ \n]|$)")
DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
LIST = re.compile(r"\[([A-Z_, ]+)\]")
QUOTAS = re.compile(r"(?<= are )\w+=.*")
NAMES = re.compile(r"(?:Set|ArrayBuffer)\((.*)\)")
ECHOED = re.compile(r"hmac :\S+ , ")


class Seen(NamedTuple):
    """The parts of a result that must be equal."""

    code: int
    out: list[str]
    complaint: list[str]


def seen(result: Result) -> Seen:
    """Lines without their order, which is that of a hash table in Kafka, and without what differs at each run."""
    out = [normal(line) for line in result.out.splitlines()]
    complaint = [normal(line) for line in result.err.splitlines()]
    return Seen(
        result.code,
        sorted(line for line in out if not NOISE.match(line)),
        [re.sub(r"(?<=Exception: ).*", "…", line) for line in complaint if not NOISE.match(line)][:1],
    )


def normal(line: str) -> str:
    line = NAMES.sub(r"\1", ECHOED.sub("", line.strip()))
    line = DATE.sub("DATE", TOKEN_ID.sub("ID", HMAC.sub("HMAC", line)))
    line = LIST.sub(lambda found: f"[{', '.join(sorted(found[1].split(', ')))}]", line)
    line = QUOTAS.sub(lambda found: ", ".join(sorted(found[0].split(", "))), line)
    line = re.sub(r"Invalid credential property SCRAM_SHA_256.*", "Invalid credential property SCRAM_SHA_256", line)
    return re.sub(r"with args '.*", "with args", line)


class Side:
    """A broker, and the tools of one kind that are run against it."""

    def __init__(self, broker: SecuredBroker, run: Callable[..., Result]) -> None:
        settings = broker.folder / "login.properties"
        settings.write_text(LOGIN)
        self.connection = f"--bootstrap-server {broker.address('SASL_PLAINTEXT')} --command-config {settings}"
        self.run = run
        self.hmac = "none"

    def result(self, command: str) -> Result:
        found = self.run(*shlex.split(command.replace("BS", self.connection).replace("HMAC", self.hmac)))
        if "tokens BS --create" in command and self.hmac == "none":
            match = HMAC.search(found.out)
            assert match is not None, found
            self.hmac = match[0]
        return found


@pytest.fixture(scope="module")
def sides(
    kafkas_tools: RealTools, our_tool: Tool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Side, Side]]:
    with (
        SecuredBroker(tmp_path_factory.mktemp("theirs"), BROKER) as one,
        SecuredBroker(tmp_path_factory.mktemp("ours"), BROKER) as other,
    ):
        yield Side(one, kafkas_tools.run), Side(other, our_tool)


def test_every_command_prints_what_kafkas_own_tool_prints_and_no_secret(sides: tuple[Side, Side]) -> None:
    theirs, ours = sides
    theirs.hmac = ours.hmac = "none"
    differences = []
    for command in COMMANDS:
        expected, found = seen(theirs.result(command)), ours.result(command)
        if seen(found) != expected:
            differences.append(f"{command}\n  Kafka:  {expected}\n  Moldau: {seen(found)}")
        assert SECRET not in found.out + found.err
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize(("answer", "left"), [("n\n", 1), ("\n", 1), ("", 1), ("y\n", 0), ("Y\n", 0)])
def test_rules_are_removed_only_after_a_yes(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch, answer: str, left: int
) -> None:
    _, ours = sides
    ours.result("kafka-acls BS --add --allow-principal User:alice --operation Read --topic asked")
    for command in ("--allow-principal User:alice --operation Read --topic asked", "--topic asked"):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        removed = ours.result(f"kafka-acls BS --remove {command}")
        assert "Are you sure you want to" in removed.out
        assert removed.code == 0
        assert ours.result("kafka-acls BS --list --topic asked").out.count("principal=") == left
    ours.result("kafka-acls BS --remove --topic asked --force")


def test_tokens_are_listed_without_an_owner(sides: tuple[Side, Side]) -> None:
    _, ours = sides
    made = ours.result("kafka-delegation-tokens BS --create --max-life-time-period -1")
    secret = HMAC.search(made.out)
    assert secret is not None
    listed = ours.result("kafka-delegation-tokens BS --describe")
    assert secret[0] in listed.out
    ended = ours.result(f"kafka-delegation-tokens BS --expire --expiry-time-period -1 --hmac {secret[0]}")
    assert ended.code == 0
    assert secret[0] not in ended.out + ended.err
    assert ours.result("kafka-delegation-tokens BS --renew --renew-time-period -1 --hmac !!").code == 1
