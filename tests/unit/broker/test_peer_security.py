"""Security of connections to other brokers: missing credentials, and credentials that change."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moldau.broker.peer_security import PeerSecurity
from moldau.host.clock import SystemClock, SystemRandomness
from moldau.host.threads import Threads
from moldau.security.client_login import LoginError
from moldau.settings import BrokerSettings, SettingError

PREFIX = "listener.name.internal"
BASE = {
    "listeners": "INTERNAL://127.0.0.1:9092",
    "listener.security.protocol.map": "INTERNAL:SASL_PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}


def security(settings: dict[str, str]) -> PeerSecurity:
    whole = {**BASE, **settings}
    return PeerSecurity(lambda: BrokerSettings(whole), Threads(), SystemClock(), SystemRandomness())


def scram(password: str) -> dict[str, str]:
    jaas = f'x.ScramLoginModule required username="brokers" password="{password}";'
    return {
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        f"{PREFIX}.scram-sha-256.sasl.jaas.config": jaas,
    }


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, "scram-sha-256.sasl.jaas.config: is missing"),
        ({}, "gssapi.sasl.jaas.config: is missing"),
        (
            {f"{PREFIX}.gssapi.sasl.jaas.config": "Krb5LoginModule required;"},
            "set sasl.mechanism.inter.broker.protocol",
        ),
        ({**scram(""), "node.id": "1"}, "needs a password"),
        (
            {
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                f"{PREFIX}.plain.sasl.jaas.config": 'PlainLoginModule required user_a="SECRET";',
            },
            "needs a username",
        ),
        (
            {**scram("x"), f"{PREFIX}.scram-sha-256.sasl.jaas.config": "ScramLoginModule required password='SECRET"},
            "sasl.jaas.config: ",
        ),
        (scram("${env:MOLDAU_NO_SUCH_VARIABLE}"), "refers to the environment variable"),
    ],
)
def test_a_broker_that_could_not_log_in_is_told_why(settings: dict[str, str], says: str) -> None:
    with pytest.raises(SettingError, match=says) as error:
        security(settings).check()
    assert error.value.name.startswith(PREFIX) and "SECRET" not in str(error.value)


def test_a_plain_listener_needs_no_login() -> None:
    open_one = security({"listener.security.protocol.map": "INTERNAL:PLAINTEXT"})
    open_one.check()
    assert open_one.protocol == "PLAINTEXT" and open_one.listener == "INTERNAL"


def test_each_login_uses_the_credentials_of_its_moment(tmp_path: Path) -> None:
    """The password is in a file that the settings refer to; then the settings change as well."""
    file = tmp_path / "password"
    file.write_text("first")
    settings = {
        **BASE,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{PREFIX}.plain.sasl.jaas.config": f'PlainLoginModule required username="b" password="${{file:{file}}}";',
    }
    peers = PeerSecurity(lambda: BrokerSettings(settings), Threads(), SystemClock(), SystemRandomness())

    async def message() -> bytes:
        return (await peers.exchange()).first()

    async def steps() -> None:
        assert await message() == b"\0b\0first"
        file.write_text("second")
        assert await message() == b"\0b\0second"
        settings[f"{PREFIX}.plain.sasl.jaas.config"] = 'PlainLoginModule required username="c" password="third";'
        assert await message() == b"\0c\0third"
        del settings[f"{PREFIX}.plain.sasl.jaas.config"]
        with pytest.raises(LoginError, match="is missing"):
            await message()

    asyncio.run(steps())


def test_tokens_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("TOKEN\n")
    threads = Threads()
    settings = {
        **BASE,
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        f"{PREFIX}.oauthbearer.sasl.jaas.config": "OAuthBearerLoginModule required;",
        "sasl.oauthbearer.token.endpoint.url": f"file:{tmp_path}/token",
    }
    peers = PeerSecurity(lambda: BrokerSettings(settings), threads, SystemClock(), SystemRandomness())

    async def steps() -> None:
        try:
            assert b"auth=Bearer TOKEN\x01" in (await peers.exchange()).first()
        finally:
            await threads.close()

    asyncio.run(steps())
