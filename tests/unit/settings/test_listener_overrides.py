"""Settings of single listeners: which value counts, what is refused, and what is never shown."""

from __future__ import annotations

import pytest

from moldau.settings import BROKER, BrokerSettings, SettingError, SettingType, gather
from moldau.settings.effective import SettingSource
from moldau.settings.listener_overrides import OF_LISTENERS, Override, parse_override

BASE = {"log.dirs": "/d", "listeners": "PLAINTEXT://h:1,INTERNAL://h:2", "advertised.listeners": "PLAINTEXT://h:1"}
MAP = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT"}
JAAS = 'a.PlainLoginModule required user_alice="s3cret";'


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("listener.name.internal.ssl.client.auth", Override("INTERNAL", "", "ssl.client.auth")),
        ("listener.name.INTERNAL.ssl.client.auth", Override("INTERNAL", "", "ssl.client.auth")),
        ("listener.name.a.b.ssl.client.auth", Override("A.B", "", "ssl.client.auth")),
        ("listener.name.internal.plain.sasl.jaas.config", Override("INTERNAL", "PLAIN", "sasl.jaas.config")),
        ("listener.name.i.scram-sha-256.sasl.jaas.config", Override("I", "SCRAM-SHA-256", "sasl.jaas.config")),
        ("listener.name.plain.sasl.jaas.config", Override("PLAIN", "", "sasl.jaas.config")),
        (
            "listener.name.i.oauthbearer.connections.max.reauth.ms",
            Override("I", "OAUTHBEARER", "connections.max.reauth.ms"),
        ),
        ("listener.name.internal.num.partitions", None),
        ("listener.name.ssl.client.auth", None),
        ("listener.name.", None),
        ("ssl.client.auth", None),
    ],
)
def test_names_of_overrides(name: str, parsed: Override | None) -> None:
    assert parse_override(name) == parsed


def test_the_most_specific_value_counts() -> None:
    settings = BrokerSettings(
        {
            **BASE,
            "connections.max.reauth.ms": "1",
            "listener.name.internal.connections.max.reauth.ms": "2",
            "listener.name.internal.plain.connections.max.reauth.ms": "3",
        }
    )
    internal, other = settings.for_listener("internal"), settings.for_listener("PLAINTEXT")
    assert internal.of_mechanism("PLAIN", "connections.max.reauth.ms") == 3
    assert internal.of_mechanism("OAUTHBEARER", "connections.max.reauth.ms") == 2
    assert internal["connections.max.reauth.ms"] == 2
    assert other.of_mechanism("PLAIN", "connections.max.reauth.ms") == 1


def test_a_change_at_run_time_overrides_the_file() -> None:
    name = "listener.name.internal.ssl.keystore.location"
    settings = BrokerSettings({**BASE, name: "/old"})
    assert settings.for_listener("INTERNAL")["ssl.keystore.location"] == "/old"
    changed = settings.with_dynamic({name: "/new"}, {name: "/new for all"})
    assert changed.for_listener("INTERNAL")["ssl.keystore.location"] == "/new"
    assert settings.with_dynamic({}, {name: "/all"}).for_listener("INTERNAL")["ssl.keystore.location"] == "/all"


def test_an_override_has_type_and_bounds_of_its_setting() -> None:
    for name, text in (
        ("ssl.client.auth", "sometimes"),
        ("ssl.enabled.protocols", "TLSv1.1"),
        ("ssl.enabled.protocols", ""),
        ("ssl.keystore.type", "BKS"),
        ("sasl.enabled.mechanisms", "DIGEST-MD5"),
        ("connections.max.reauth.ms", "soon"),
        ("sasl.server.callback.handler.class", "com.example.Mine"),
    ):
        with pytest.raises(SettingError):
            BrokerSettings({**BASE, name: text})
        with pytest.raises(SettingError):
            BrokerSettings({**BASE, f"listener.name.internal.{name}": text})


def test_a_misspelt_listener_or_setting_is_refused() -> None:
    settings = BrokerSettings({**BASE, **MAP, "listener.name.intrenal.ssl.client.auth": "required"})
    with pytest.raises(SettingError, match="no listener is named INTRENAL"):
        settings.listener_plan()
    with pytest.raises(SettingError, match="unknown setting of a listener"):
        gather(BROKER, properties="listener.name.internal.ssl.client.auht=required")
    assert gather(BROKER, assignments=["listener.name.internal.ssl.client.auth=required"])


def test_secrets_are_described_without_their_values() -> None:
    name = "listener.name.internal.plain.sasl.jaas.config"
    settings = BrokerSettings({**BASE, name: JAAS, "ssl.keystore.password": "s3cret", "ssl.keystore.key": "s3cret"})
    described = {one.name: one for one in settings.describe()}
    for secret in (name, "ssl.keystore.password", "ssl.keystore.key"):
        one = described[secret]
        assert (one.value, one.sensitive, one.type) == (None, True, SettingType.PASSWORD)
        assert one.source is SettingSource.STATIC_BROKER
        assert [synonym.value for synonym in one.synonyms] == [None]
    assert "s3cret" not in repr(described)


def test_run_time_changes_of_keys_name_a_listener() -> None:
    settings = BrokerSettings(BASE)
    for name in ("ssl.keystore.location", "ssl.keystore.key", "sasl.jaas.config"):
        assert "only for one listener" in (settings.dynamic_error({name: "x"}) or "")
        assert settings.dynamic_error({f"listener.name.internal.{name}": "x"}) is None
    assert "cannot be changed" in (
        settings.dynamic_error({"listener.name.internal.ssl.principal.mapping.rules": "DEFAULT"}) or ""
    )


def test_every_password_is_of_the_sensitive_type() -> None:
    for name in OF_LISTENERS:
        if "password" in name or name.endswith((".key", "jaas.config")):
            assert BROKER[name].sensitive
