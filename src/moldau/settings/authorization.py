"""Broker settings of access control, with the names of Kafka's authorizer.

They are part of the table in `broker.py`. The rules themselves are not settings: they are in the cluster's metadata.
"""

from __future__ import annotations

from typing import Final

from moldau.settings.setting import Setting, SettingError, SettingType, Value

KAFKA_AUTHORIZERS: Final = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""Kafka's authorizers. Moldau has one of its own that decides as they do, so files written for Kafka work unchanged."""


def super_users(text: str) -> list[tuple[str, str]]:
    """Parse `TYPE:NAME;...` of `super.users` into types and names. Empty items are left out, as in Kafka.

    Semicolons separate the users, because distinguished names of certificates have commas.
    """
    users = []
    for item in filter(None, (part.strip() for part in text.split(";"))):
        kind, colon, name = item.partition(":")
        if not (kind and colon and name):
            raise SettingError("super.users", f"{item!r} is not of the form TYPE:NAME, such as User:admin")
        users.append((kind, name))
    return users


def _check_authorizer(value: Value) -> str | None:
    if value in ("", *KAFKA_AUTHORIZERS):
        return None
    return (
        f"{value} cannot be loaded, and without it requests would be unchecked; Moldau's own authorizer has the names "
        f"{' and '.join(KAFKA_AUTHORIZERS)}"
    )


def _check_super_users(value: Value) -> str | None:
    try:
        super_users(str(value))
    except SettingError as error:
        return error.reason
    return None


AUTHORIZATION = (
    Setting(
        "authorizer.class.name",
        SettingType.STRING,
        "",
        "The authorizer. Empty: everyone may do everything. `org.apache.kafka.metadata.authorizer.StandardAuthorizer` "
        "or `kafka.security.authorizer.AclAuthorizer`: access control by the rules of the cluster.",
        check=_check_authorizer,
    ),
    Setting(
        "super.users",
        SettingType.STRING,
        "",
        "The principals that may do everything, whatever the rules say: `User:admin;User:broker`. The brokers' own "
        "principal must be one of them, or have a rule that allows ClusterAction.",
        check=_check_super_users,
    ),
    Setting(
        "allow.everyone.if.no.acl.found",
        SettingType.BOOLEAN,
        False,
        "Whether everyone may access a resource that no rule covers. Without it, only super users may.",
    ),
)
