from __future__ import annotations

import pytest

from moldau.broker.configs import authorizer_of
from moldau.security import AllowAll, Operation, Principal, ResourceType
from moldau.security.acl_authorizer import AclAuthorizer
from moldau.settings import BrokerSettings, SettingError
from moldau.settings.authorization import KAFKA_AUTHORIZERS, super_users


def test_without_an_authorizer_everyone_may_do_everything() -> None:
    assert isinstance(authorizer_of(BrokerSettings({})), AllowAll)
    assert isinstance(authorizer_of(BrokerSettings({"authorizer.class.name": " "})), AllowAll)


@pytest.mark.parametrize("name", KAFKA_AUTHORIZERS)
def test_both_names_of_kafka_turn_access_control_on(name: str) -> None:
    settings = {"authorizer.class.name": name, "super.users": "User:admin; User:CN=a,OU=b;"}
    authorizer = authorizer_of(BrokerSettings(settings))
    assert isinstance(authorizer, AclAuthorizer)
    for user, allowed in (("admin", True), ("CN=a,OU=b", True), ("alice", False)):
        who = Principal("User", user)
        assert authorizer.authorize(who, "10.0.0.1", Operation.READ, ResourceType.TOPIC, "x") is allowed


def test_the_default_without_rules_follows_its_setting() -> None:
    settings = {"authorizer.class.name": KAFKA_AUTHORIZERS[0], "allow.everyone.if.no.acl.found": "true"}
    authorizer = authorizer_of(BrokerSettings(settings))
    assert authorizer.authorize(Principal("User", "x"), "10.0.0.1", Operation.READ, ResourceType.TOPIC, "x")


def test_another_authorizer_is_refused_with_the_names_that_work() -> None:
    with pytest.raises(SettingError, match=r"org\.example\.Guard cannot be loaded.*StandardAuthorizer"):
        BrokerSettings({"authorizer.class.name": "org.example.Guard"})


@pytest.mark.parametrize("text", ["admin", "User:", ":admin", "User:a;b"])
def test_a_malformed_super_user_is_an_error_that_shows_it(text: str) -> None:
    with pytest.raises(SettingError, match="TYPE:NAME"):
        BrokerSettings({"super.users": text})


def test_super_users_are_separated_by_semicolons() -> None:
    assert super_users("User:a ; Group:b;;User:CN=x,O=y;User:c:d") == [
        ("User", "a"),
        ("Group", "b"),
        ("User", "CN=x,O=y"),
        ("User", "c:d"),
    ]
    assert super_users("") == []
