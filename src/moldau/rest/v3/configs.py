"""Settings of topics, brokers and the cluster (API v3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from moldau.client.admin import ConfigChange, ConfigEntry, ConfigResource, ConfigSource
from moldau.rest.endpoints import BOOLEAN, TEXT, Handler, ProxyCall, ProxyEndpoint, array, one_of, record
from moldau.rest.errors import not_found
from moldau.rest.v3.brokers import BROKER, known_broker
from moldau.rest.v3.resources import CLUSTER, check_cluster, crn, listing, resource, url
from moldau.rest.v3.topics import TOPIC, TOPICS, known_topic

TAG = "Settings"
NULLABLE = {"type": ["string", "null"]}
CHANGE = record({"name": TEXT}, value=NULLABLE, operation=one_of("SET", "DELETE"))
ALTER = record({"data": array(CHANGE)}, validate_only=BOOLEAN)
VALUE = record({"value": NULLABLE})
DONE = {204: "The setting has the new value."}


class Owner(NamedTuple):
    """What a setting belongs to, and how its JSON names it."""

    resource: ConfigResource
    kind: str
    place: tuple[str | int, ...]
    fields: dict[str, Any]
    crn: tuple[str | int, ...]


async def topic_owner(call: ProxyCall) -> Owner:
    topic = await known_topic(call)
    return _of_topic(topic.name)


def _of_topic(name: str) -> Owner:
    fields = {"topic_name": name}
    return Owner(ConfigResource.topic(name), "KafkaTopicConfig", ("topics", name, "configs"), fields, ("topic", name))


async def broker_owner(call: ProxyCall) -> Owner:
    node = (await known_broker(call)).id
    place = ("brokers", node, "configs")
    return Owner(ConfigResource.broker(node), "KafkaBrokerConfig", place, {"broker_id": node}, ("broker", node))


async def cluster_owner(call: ProxyCall) -> Owner:
    check_cluster(call)
    fields = {"config_type": "BROKER"}
    return Owner(ConfigResource.all_brokers(), "KafkaClusterConfig", ("broker-configs",), fields, ())


async def described(call: ProxyCall, owner: Owner, names: list[str] | None = None) -> dict[str, ConfigEntry]:
    admin = await call.session.admin()
    return (await admin.describe_configs(owner.resource, names=names))[owner.resource]


def config_json(call: ProxyCall, owner: Owner, entry: ConfigEntry) -> dict[str, Any]:
    return resource(
        owner.kind,
        url(call, *owner.place, entry.name),
        crn(call, *owner.crn, "config", entry.name),
        cluster_id=call.session.cluster_id,
        **owner.fields,
        name=entry.name,
        value=None if entry.sensitive else entry.value,
        is_default=entry.is_default,
        is_read_only=entry.read_only,
        is_sensitive=entry.sensitive,
        source=entry.source.name,
        synonyms=[
            {"name": one.name, "value": None if entry.sensitive else one.value, "source": one.source.name}
            for one in entry.synonyms
        ],
    )


def endpoints_of(base: str, what: str, owner_of: Callable[[ProxyCall], Any]) -> Iterable[ProxyEndpoint]:
    """The endpoints for the settings of one kind of owner."""

    async def list_configs(call: ProxyCall) -> Any:
        owner = await owner_of(call)
        found = [config_json(call, owner, entry) for entry in (await described(call, owner)).values()]
        return listing(f"{owner.kind}List", url(call, *owner.place), found)

    async def get_config(call: ProxyCall) -> Any:
        owner: Owner = await owner_of(call)
        found = (await described(call, owner)).get(call.path["name"])
        if found is None:
            raise not_found(f"{owner.resource} has no setting {call.path['name']!r}")
        return config_json(call, owner, found)

    async def set_config(call: ProxyCall) -> Any:
        await _alter(call, {call.path["name"]: call.body["value"]})

    async def reset_config(call: ProxyCall) -> Any:
        await _alter(call, {call.path["name"]: None})

    async def alter_configs(call: ProxyCall) -> Any:
        changes = {
            one["name"]: None if one.get("operation") == "DELETE" else one.get("value") for one in call.body["data"]
        }
        await _alter(call, changes, call.body.get("validate_only", False))

    async def _alter(call: ProxyCall, changes: dict[str, ConfigChange], validate_only: bool = False) -> None:
        owner = await owner_of(call)
        if changes:
            await (await call.session.admin()).alter_configs({owner.resource: changes}, validate_only=validate_only)

    rows: list[tuple[str, str, Handler, str, dict[str, Any]]] = [
        ("GET", base, list_configs, f"List the settings of {what}", {}),
        (
            "POST",
            f"{base}:alter",
            alter_configs,
            f"Change several settings of {what}",
            {"body": ALTER, "answers": DONE},
        ),
        ("GET", f"{base}/{{name}}", get_config, f"Get a setting of {what}", {}),
        ("PUT", f"{base}/{{name}}", set_config, f"Change a setting of {what}", {"body": VALUE, "answers": DONE}),
        ("DELETE", f"{base}/{{name}}", reset_config, f"Set a setting of {what} to its default", {"answers": DONE}),
    ]
    return [ProxyEndpoint(method, path, handler, summary, TAG, **more) for method, path, handler, summary, more in rows]


async def list_all_topic_configs(call: ProxyCall) -> Any:
    check_cluster(call)
    admin = await call.session.admin()
    owners = [_of_topic(topic.name) for topic in await admin.list_topics(include_internal=True)]
    found = await admin.describe_configs([owner.resource for owner in owners]) if owners else {}
    data = [config_json(call, owner, entry) for owner in owners for entry in found[owner.resource].values()]
    return listing("KafkaTopicConfigList", url(call, "topics", "-", "configs"), data)


async def list_default_configs(call: ProxyCall) -> Any:
    """The settings that a topic would have without its own."""
    check_cluster(call)
    owner = _of_topic(call.path["topic_name"])
    found = []
    for entry in (await described(call, await topic_owner(call))).values():
        value = next((one for one in entry.synonyms if one.source is not ConfigSource.DYNAMIC_TOPIC_CONFIG), None)
        if value is not None:
            found.append(
                config_json(call, owner, ConfigEntry(entry.name, value.value, value.source, False, entry.sensitive))
            )
    return listing("KafkaTopicConfigList", url(call, "topics", call.path["topic_name"], "default-configs"), found)


ENDPOINTS = (
    ProxyEndpoint("GET", f"{TOPICS}/-/configs", list_all_topic_configs, "List the settings of all topics", TAG),
    *endpoints_of(f"{TOPIC}/configs", "a topic", topic_owner),
    ProxyEndpoint(
        "GET", f"{TOPIC}/default-configs", list_default_configs, "List the defaults of a topic's settings", TAG
    ),
    *endpoints_of(f"{BROKER}/configs", "a broker", broker_owner),
    *endpoints_of(f"{CLUSTER}/broker-configs", "all brokers", cluster_owner),
)
