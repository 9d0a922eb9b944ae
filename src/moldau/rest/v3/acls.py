"""Access control rules (API v3)."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeVar

from moldau.client.admin import (
    AclEntry,
    AclFilter,
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from moldau.rest.endpoints import TEXT, ProxyCall, ProxyEndpoint, array, one_of, record
from moldau.rest.v3.resources import CLUSTER, check_cluster, listing, resource, url

TAG = "Access control"
ACLS = f"{CLUSTER}/acls"
TYPES = tuple(kind.name for kind in ResourceType if kind > ResourceType.ANY)
OPERATIONS = tuple(kind.name for kind in Operation if kind > Operation.ANY)

RULE = record(
    {
        "resource_type": one_of(*TYPES),
        "resource_name": TEXT,
        "pattern_type": one_of("LITERAL", "PREFIXED"),
        "principal": TEXT,
        "host": TEXT,
        "operation": one_of(*OPERATIONS),
        "permission": one_of("ALLOW", "DENY"),
    }
)
FILTER = {
    "resource_type": one_of("ANY", *TYPES),
    "resource_name": TEXT,
    "pattern_type": one_of("ANY", "MATCH", "LITERAL", "PREFIXED"),
    "principal": TEXT,
    "host": TEXT,
    "operation": one_of("ANY", *OPERATIONS),
    "permission": one_of("ANY", "ALLOW", "DENY"),
}

E = TypeVar("E", bound=IntEnum)


async def list_acls(call: ProxyCall) -> Any:
    check_cluster(call)
    found = await (await call.session.admin()).describe_acls(_filter(call))
    return listing("KafkaAclList", url(call, "acls"), [_rule_json(call, rule) for rule in found])


async def create_acl(call: ProxyCall) -> Any:
    check_cluster(call)
    await (await call.session.admin()).create_acls(_rule(call.body))


async def create_acls(call: ProxyCall) -> Any:
    check_cluster(call)
    if call.body["data"]:
        await (await call.session.admin()).create_acls([_rule(one) for one in call.body["data"]])


async def delete_acls(call: ProxyCall) -> Any:
    check_cluster(call)
    wanted = _filter(call)
    found = await (await call.session.admin()).delete_acls(wanted)
    return {"data": [_rule_json(call, rule) for rule in found[wanted]]}


def _rule(body: dict[str, str]) -> AclRule:
    return AclRule(
        ResourcePattern(ResourceType[body["resource_type"]], body["resource_name"], PatternType[body["pattern_type"]]),
        AclEntry(body["principal"], body["host"], Operation[body["operation"]], Permission[body["permission"]]),
    )


def _filter(call: ProxyCall) -> AclFilter:
    given = call.query

    def member(name: str, kind: type[E]) -> E:
        return kind[given.get(name, "ANY")]

    return AclFilter(
        member("resource_type", ResourceType),
        given.get("resource_name"),
        member("pattern_type", PatternType),
        given.get("principal"),
        given.get("host"),
        member("operation", Operation),
        member("permission", Permission),
    )


def _rule_json(call: ProxyCall, rule: AclRule) -> dict[str, Any]:
    pattern, entry = rule
    fields = {
        "resource_type": pattern.resource_type.name,
        "resource_name": pattern.name,
        "pattern_type": pattern.pattern_type.name,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation.name,
        "permission": entry.permission.name,
    }
    name = f"crn:///kafka={call.session.cluster_id}/acl={pattern.resource_type.name}:{pattern.name}:{entry.principal}"
    return resource("KafkaAcl", url(call, "acls"), name, cluster_id=call.session.cluster_id, **fields)


CREATED = {201: "The rules are in force."}
REQUIRED = {name: {**FILTER[name], "required": True} for name in ("resource_type", "pattern_type", "operation")}
ENDPOINTS = (
    ProxyEndpoint("GET", ACLS, list_acls, "List rules that match a filter", TAG, query=FILTER),
    ProxyEndpoint("POST", ACLS, create_acl, "Create a rule", TAG, body=RULE, answers=CREATED, answer_types=()),
    ProxyEndpoint(
        "DELETE", ACLS, delete_acls, "Delete all rules that match a filter", TAG, query={**FILTER, **REQUIRED}
    ),
    ProxyEndpoint(
        "POST",
        f"{ACLS}:batch",
        create_acls,
        "Create several rules",
        TAG,
        body=record({"data": array(RULE, maxItems=1000)}),
        answers=CREATED,
        answer_types=(),
    ),
)
