"""Cases of nullable strings in responses about groups and their coordinators."""

from __future__ import annotations

from typing import Any

from moldau.wire.api import ApiKey
from tests.compat.nulls.case_context import EMPTY, JOIN, NULL, TEXT, CaseContext, case


@case(ApiKey.FIND_COORDINATOR, "found", {"error_message": TEXT, "coordinators.error_message": EMPTY})
def _(context: CaseContext) -> Any:
    return {"key": context.group, "coordinator_keys": [context.group]}


@case(
    ApiKey.FIND_COORDINATOR,
    "unknown type of key",
    {"error_message": TEXT, "coordinators.error_message": TEXT},
    first_version=1,
)
def _(context: CaseContext) -> Any:
    return {"key": "k", "coordinator_keys": ["k"], "key_type": 99}


@case(
    ApiKey.JOIN_GROUP,
    "joined",
    {"protocol_type": TEXT, "protocol_name": TEXT, "members.group_instance_id": NULL},
)
def _(context: CaseContext) -> Any:
    return context.join(context.version)


@case(
    ApiKey.JOIN_GROUP,
    "joined as a static member",
    {"protocol_type": TEXT, "protocol_name": TEXT, "members.group_instance_id": TEXT},
    first_version=5,
)
def _(context: CaseContext) -> Any:
    return context.join(context.version, group_instance_id="static")


@case(ApiKey.JOIN_GROUP, "unknown member", {"protocol_type": NULL, "protocol_name": NULL})
def _(context: CaseContext) -> Any:
    return context.join(context.version, member_id="nobody")


@case(ApiKey.JOIN_GROUP, "member id required", {"protocol_type": NULL, "protocol_name": NULL}, first_version=4)
def _(context: CaseContext) -> Any:
    return {**JOIN, "group_id": context.group, "protocols": [{"name": "only", "metadata": b""}]}


@case(ApiKey.JOIN_GROUP, "no group id", {"protocol_type": NULL, "protocol_name": NULL})
def _(context: CaseContext) -> Any:
    return context.join(context.version, group_id="")


@case(ApiKey.SYNC_GROUP, "synced", {"protocol_type": TEXT, "protocol_name": TEXT})
def _(context: CaseContext) -> Any:
    return context.synced(context.version)[1]


@case(ApiKey.SYNC_GROUP, "unknown group", {"protocol_type": NULL, "protocol_name": NULL})
def _(context: CaseContext) -> Any:
    request = {"group_id": context.group, "generation_id": 1, "member_id": "nobody"}
    return {**request, "protocol_type": "test", "protocol_name": "only"}


@case(ApiKey.LEAVE_GROUP, "left, and an unknown member", {"members.group_instance_id": NULL})
def _(context: CaseContext) -> Any:
    member = context.synced(5)[0].member_id
    return {
        "group_id": context.group,
        "member_id": member,
        "members": [{"member_id": one} for one in (member, "nobody")],
    }


@case(ApiKey.LEAVE_GROUP, "static members", {"members.group_instance_id": TEXT}, first_version=3)
def _(context: CaseContext) -> Any:
    context.synced(5, group_instance_id="static")
    names = ("static", "nobody")
    return {"group_id": context.group, "members": [{"member_id": "", "group_instance_id": name} for name in names]}


@case(ApiKey.DESCRIBE_GROUPS, "a member", {"groups.error_message": NULL, "groups.members.group_instance_id": NULL})
def _(context: CaseContext) -> Any:
    context.synced(5)
    return {"groups": [context.group]}


@case(
    ApiKey.DESCRIBE_GROUPS,
    "a static member",
    {"groups.error_message": NULL, "groups.members.group_instance_id": TEXT},
    first_version=4,
)
def _(context: CaseContext) -> Any:
    context.synced(5, group_instance_id="static")
    return {"groups": [context.group]}


@case(ApiKey.DESCRIBE_GROUPS, "unknown group", {"groups.error_message": TEXT})
def _(context: CaseContext) -> Any:
    return {"groups": [context.group]}


def _fetch_offsets(context: CaseContext) -> dict[str, Any]:
    topics = [{"name": context.topic, "partition_indexes": [0]}]
    grouped = [{**topics[0], "topic_id": context.topic_id}]
    return {"group_id": context.group, "topics": topics, "groups": [{"group_id": context.group, "topics": grouped}]}


_NOTES = ("topics.partitions.metadata", "groups.topics.partitions.metadata")


def _commit(context: CaseContext, metadata: str | None) -> None:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": metadata}
    topics = [{"name": context.topic, "partitions": [partition]}]
    context.ask(ApiKey.OFFSET_COMMIT, {"group_id": context.group, "topics": topics}, 8)


@case(ApiKey.OFFSET_FETCH, "committed", dict.fromkeys(_NOTES, TEXT))
def _(context: CaseContext) -> Any:
    _commit(context, "note")
    return _fetch_offsets(context)


@case(ApiKey.OFFSET_FETCH, "committed without metadata", dict.fromkeys(_NOTES, EMPTY))
def _(context: CaseContext) -> Any:
    _commit(context, None)
    return _fetch_offsets(context)


@case(ApiKey.OFFSET_FETCH, "nothing committed", dict.fromkeys(_NOTES, EMPTY))
def _(context: CaseContext) -> Any:
    return _fetch_offsets(context)


@case(ApiKey.CONSUMER_GROUP_HEARTBEAT, "joined", {"error_message": NULL, "member_id": TEXT})
def _(context: CaseContext) -> Any:
    return context.heartbeat()


@case(ApiKey.CONSUMER_GROUP_HEARTBEAT, "left", {"error_message": NULL, "member_id": TEXT})
def _(context: CaseContext) -> Any:
    return {"group_id": context.group, "member_id": context.heartbeat().member_id or "", "member_epoch": -1}


@case(ApiKey.CONSUMER_GROUP_HEARTBEAT, "unknown member", {"error_message": TEXT, "member_id": NULL})
def _(context: CaseContext) -> Any:
    context.heartbeat()
    return {"group_id": context.group, "member_id": "nobody", "member_epoch": 5}


@case(ApiKey.CONSUMER_GROUP_HEARTBEAT, "no group id", {"error_message": TEXT, "member_id": NULL})
def _(context: CaseContext) -> Any:
    context.heartbeat()
    return {"group_id": "", "member_id": "nobody", "member_epoch": 0}


_INSTANCE, _RACK, _REGEX = (f"groups.members.{name}" for name in ("instance_id", "rack_id", "subscribed_topic_regex"))


@case(
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    "a member",
    {"groups.error_message": NULL, _INSTANCE: NULL, _RACK: NULL, _REGEX: EMPTY},
)
def _(context: CaseContext) -> Any:
    context.heartbeat()
    return {"group_ids": [context.group]}


@case(
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    "a static member in a rack",
    {"groups.error_message": NULL, _INSTANCE: TEXT, _RACK: TEXT, _REGEX: EMPTY},
)
def _(context: CaseContext) -> Any:
    context.heartbeat(instance_id="static", rack_id="rack")
    return {"group_ids": [context.group]}


@case(ApiKey.CONSUMER_GROUP_DESCRIBE, "unknown group", {"groups.error_message": TEXT})
def _(context: CaseContext) -> Any:
    return {"group_ids": [context.group]}
