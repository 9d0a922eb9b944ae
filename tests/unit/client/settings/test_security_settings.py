"""Security settings of clients: what belongs together, what is missing, and that no error shows a secret."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from moldau.client.client_errors import ConfigurationError
from moldau.client.security import client_security, login_settings, tls_settings
from moldau.client.settings import ADMIN, CONSUMER, PRODUCER, ClientSettings, ClientTable
from moldau.security.client_login import PasswordLogin

AT = {"bootstrap.servers": "localhost:9093"}
SCRAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="SECRET";'


def of(mapping: dict[str, Any], table: ClientTable = PRODUCER) -> ClientSettings:
    return ClientSettings.of(table, {**AT, **mapping})


@pytest.mark.parametrize("table", [PRODUCER, CONSUMER, ADMIN])
def test_a_properties_file_of_kafka_works(table: ClientTable) -> None:
    settings = of(
        {**SCRAM, "sasl.jaas.config": JAAS, "ssl.truststore.location": "/x", "ssl.truststore.type": "PEM"}, table
    )
    assert login_settings(settings) == PasswordLogin("SCRAM-SHA-512", "alice", "SECRET")
    assert tls_settings(settings).truststore_location == "/x"


def test_librdkafkas_names_work() -> None:
    settings = of(
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "SECRET",
            "ssl.ca.location": "/ca.pem",
        }
    )
    assert settings["security.protocol"] == "SASL_SSL"
    assert login_settings(settings) == PasswordLogin("PLAIN", "alice", "SECRET")
    assert tls_settings(settings).truststore_location == "/ca.pem"


def test_keywords_work() -> None:
    settings = ClientSettings.of(
        PRODUCER,
        None,
        {
            "bootstrap_servers": "localhost:9093",
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "alice",
            "sasl_password": "SECRET",
        },
    )
    assert login_settings(settings).mechanism == "PLAIN"


def test_a_secret_may_be_in_a_file_or_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text("SECRET\n")
    monkeypatch.setenv("MOLDAU_TEST_USER", "alice")
    given = {
        **SCRAM,
        "sasl.jaas.config": f'ScramLoginModule required username="${{env:MOLDAU_TEST_USER}}" '
        f'password="${{file:{tmp_path}/password}}";',
    }
    assert login_settings(of(given)) == PasswordLogin("SCRAM-SHA-512", "alice", "SECRET")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism: missing"),
        ({**SCRAM}, "sasl.jaas.config: missing"),
        ({**SCRAM, "sasl.username": "alice"}, "sasl.jaas.config: missing"),
        ({**SCRAM, "sasl.mechanism": "GSSAPI", "sasl.password": "SECRET"}, "Kerberos is not supported"),
        ({**SCRAM, "sasl.mechanism": "OAUTHBEARER"}, "needs a source of tokens"),
        ({**SCRAM, "sasl.mechanisms": "PLAIN"}, "is the same setting as sasl.mechanism"),
        ({**SCRAM, "sasl.jaas.config": "ScramLoginModule required username=a password='SECRET;"}, "sasl.jaas.config: "),
        ({**SCRAM, "sasl.jaas.config": "ScramLoginModule required password=SECRET;"}, "needs a username"),
        (
            {**SCRAM, "sasl.jaas.config": "PlainLoginModule required username=a password=SECRET;"},
            "not for SCRAM-SHA-512",
        ),
        (
            {**SCRAM, "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": "OAuthBearerLoginModule required;"},
            "has no source of tokens",
        ),
        ({**SCRAM, "sasl.mechanism": "OAUTHBEARER", "sasl.oauth.token.provider": "x"}, "is not a function"),
    ],
)
def test_errors_say_what_is_missing_and_never_the_secret(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as error:
        client_security(of(given), lambda: 0.5)
    assert "SECRET" not in str(error.value)


def test_security_settings_without_effect_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        of({"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "SECRET"})
    assert "security settings have no effect" in caplog.text
    assert "SECRET" not in caplog.text
