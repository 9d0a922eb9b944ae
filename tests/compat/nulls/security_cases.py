"""Cases of nullable strings in responses about rules, users and quotas. The server has no authorizer."""

from __future__ import annotations

from typing import Any

from moldau.wire.api import ApiKey
from tests.compat.nulls.case_context import EMPTY, NULL, TEXT, CaseContext, case

ANY, TOPIC, LITERAL, READ, ALLOW = 1, 2, 3, 3, 3
SHA_256 = 1


@case(ApiKey.DESCRIBE_ACLS, "no authorizer", {"error_message": TEXT})
def _(context: CaseContext) -> Any:
    return {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY}


@case(ApiKey.CREATE_ACLS, "no authorizer", {"results.error_message": TEXT})
def _(context: CaseContext) -> Any:
    rule = {"resource_type": TOPIC, "resource_name": "t", "resource_pattern_type": LITERAL, "principal": "User:a"}
    return {"creations": [{**rule, "host": "*", "operation": READ, "permission_type": ALLOW}]}


@case(ApiKey.DELETE_ACLS, "no authorizer", {"filter_results.error_message": TEXT})
def _(context: CaseContext) -> Any:
    wanted = {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY}
    return {"filters": [wanted]}


def _upsertion(user: str, iterations: int) -> dict[str, Any]:
    credential = {"name": user, "mechanism": SHA_256, "iterations": iterations}
    return {"upsertions": [{**credential, "salt": b"salt", "salted_password": b"password"}]}


@case(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "added", {"results.error_message": NULL})
def _(context: CaseContext) -> Any:
    return _upsertion(context.unused_name(), 4096)


@case(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "too few iterations", {"results.error_message": TEXT})
def _(context: CaseContext) -> Any:
    return _upsertion(context.unused_name(), 1)


@case(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "unknown user", {"error_message": EMPTY, "results.error_message": TEXT})
def _(context: CaseContext) -> Any:
    return {"users": [{"name": context.unused_name()}]}


def _quota(user: str | None, value: float) -> dict[str, Any]:
    entity = [{"entity_type": "user", "entity_name": user}]
    return {"entries": [{"entity": entity, "ops": [{"key": "producer_byte_rate", "value": value, "remove": False}]}]}


@case(ApiKey.ALTER_CLIENT_QUOTAS, "set", {"entries.error_message": NULL, "entries.entity.entity_name": TEXT})
def _(context: CaseContext) -> Any:
    return _quota(context.unused_name(), 1e9)


@case(
    ApiKey.ALTER_CLIENT_QUOTAS,
    "invalid, for the default",
    {"entries.error_message": TEXT, "entries.entity.entity_name": NULL},
)
def _(context: CaseContext) -> Any:
    return _quota(None, -1.0)


@case(ApiKey.DESCRIBE_CLIENT_QUOTAS, "found", {"error_message": EMPTY, "entries.entity.entity_name": TEXT})
def _(context: CaseContext) -> Any:
    user = context.unused_name()
    context.ask(ApiKey.ALTER_CLIENT_QUOTAS, _quota(user, 1e9), 1)
    return {"components": [{"entity_type": "user", "match_type": 0, "match": user}], "strict": True}


@case(ApiKey.DESCRIBE_CLIENT_QUOTAS, "invalid filter", {"error_message": TEXT})
def _(context: CaseContext) -> Any:
    return {"components": [{"entity_type": "user", "match_type": 0, "match": None}], "strict": True}


@case(ApiKey.SASL_AUTHENTICATE, "on a listener without logins", {"error_message": TEXT})
def _(context: CaseContext) -> Any:
    return {"auth_bytes": b"anything"}
