"""Cases of the denial matrix: rules, credentials, delegation tokens and quotas."""

from __future__ import annotations

from typing import Any

from moldau.security import Operation
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from tests.authorization.matrix import CLUSTER, OPEN, TOKEN, USER, Need, Resources, case

CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

ALTER = Need(Operation.ALTER, CLUSTER, error=CLUSTER_DENIED)
DESCRIBE = Need(Operation.DESCRIBE, CLUSTER, error=CLUSTER_DENIED)

TOPIC_TYPE, LITERAL, READ, ALLOW = 2, 3, 3, 3
SCRAM_SHA_256 = 1

OPEN[ApiKey.SASL_HANDSHAKE] = "the client logs in with it"
OPEN[ApiKey.SASL_AUTHENTICATE] = "the client logs in with it"
OPEN[ApiKey.RENEW_DELEGATION_TOKEN] = "no rule is asked: the owner and the renewers of the token may renew it"
OPEN[ApiKey.EXPIRE_DELEGATION_TOKEN] = "no rule is asked: the owner and the renewers of the token may end it"


def _filter(of: Resources) -> dict[str, Any]:
    return {
        "resource_type_filter": TOPIC_TYPE,
        "resource_name_filter": of["nothing"],
        "pattern_type_filter": LITERAL,
        "principal_filter": None,
        "host_filter": None,
        "operation": READ,
        "permission_type": ALLOW,
    }


@case(ApiKey.DESCRIBE_ACLS, "filtered", DESCRIBE)
def _(of: Resources) -> dict[str, Any]:
    return _filter(of)


@case(ApiKey.CREATE_ACLS, "new", ALTER)
def _(of: Resources) -> dict[str, Any]:
    creation = {
        "resource_type": TOPIC_TYPE,
        "resource_name": of["nothing"],
        "resource_pattern_type": LITERAL,
        "principal": "User:nobody",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return {"creations": [creation]}


@case(ApiKey.DELETE_ACLS, "filtered", ALTER)
def _(of: Resources) -> dict[str, Any]:
    return {"filters": [_filter(of)]}


@case(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "named", DESCRIBE)
def _(of: Resources) -> dict[str, Any]:
    return {"users": [{"name": of["nobody"]}]}


@case(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    "all",
    DESCRIBE,
    denied_differs="Apache Kafka fails with a null pointer and does not answer",
)
def _(of: Resources) -> dict[str, Any]:
    return {"users": None}


@case(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "delete", ALTER)
def _(of: Resources) -> dict[str, Any]:
    return {"deletions": [{"name": of["nobody"], "mechanism": SCRAM_SHA_256}], "upsertions": []}


@case(ApiKey.DESCRIBE_CLIENT_QUOTAS, "all", Need(Operation.DESCRIBE_CONFIGS, CLUSTER, error=CLUSTER_DENIED))
def _(of: Resources) -> dict[str, Any]:
    return {"components": [], "strict": False}


@case(ApiKey.ALTER_CLIENT_QUOTAS, "checked only", Need(Operation.ALTER_CONFIGS, CLUSTER, error=CLUSTER_DENIED))
def _(of: Resources) -> dict[str, Any]:
    entity = [{"entity_type": "user", "entity_name": of["nobody"]}]
    entry = {"entity": entity, "ops": [{"key": "producer_byte_rate", "value": 1e6, "remove": False}]}
    return {"entries": [entry], "validate_only": True}


@case(
    ApiKey.CREATE_DELEGATION_TOKEN,
    "for another owner",
    Need(Operation.CREATE_TOKENS, USER, "owner", ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
)
def _(of: Resources) -> dict[str, Any]:
    owner = {"owner_principal_type": "User", "owner_principal_name": of["owner"]}
    return {**owner, "renewers": [], "max_lifetime_ms": -1}


@case(
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    "all",
    Need(Operation.DESCRIBE, TOKEN, "token", instead=(Need(Operation.DESCRIBE_TOKENS, USER, "owner of token"),)),
    tokens=("token",),
)
def _(of: Resources) -> dict[str, Any]:
    return {"owners": None}
