"""Admin client: settings."""

from __future__ import annotations

import pytest

from moldau import Admin, ConfigResource
from moldau.client.admin import Append, ConfigKind, ConfigSource, SomeFailed, Subtract
from moldau.client.errors import ConfigurationError, InvalidConfig, UnknownTopicOrPartition
from tests.support.waiting import wait_until


def values(admin: Admin, topic: str) -> dict[str, str | None]:
    resource = ConfigResource.topic(topic)
    return {name: entry.value for name, entry in admin.describe_configs(resource)[resource].items()}


def test_a_setting_is_changed_and_reset_and_the_others_stay(admin: Admin, topic: str) -> None:
    resource = ConfigResource.topic(topic)
    before = values(admin, topic)
    admin.alter_configs({resource: {"retention.ms": 123_456, "preallocate": True}})
    after = {**before, "retention.ms": "123456", "preallocate": "true"}
    wait_until(lambda: values(admin, topic) == after)
    entry = admin.describe_configs(resource, names=["retention.ms"])[resource]["retention.ms"]
    assert entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert not entry.is_default
    assert entry.synonyms[0].value == "123456"

    admin.alter_configs({resource: {"retention.ms": None, "preallocate": None}})
    wait_until(lambda: values(admin, topic) == before)


def test_values_are_appended_to_and_subtracted_from_lists(admin: Admin, topic: str) -> None:
    resource = ConfigResource.topic(topic)
    admin.alter_configs({resource: {"cleanup.policy": Append("compact")}})
    wait_until(lambda: values(admin, topic)["cleanup.policy"] == "delete,compact")
    admin.alter_configs({resource: {"cleanup.policy": Subtract("delete")}})
    wait_until(lambda: values(admin, topic)["cleanup.policy"] == "compact")


def test_validate_only_changes_nothing(admin: Admin, topic: str) -> None:
    before = values(admin, topic)
    admin.alter_configs({ConfigResource.topic(topic): {"retention.ms": 5}}, validate_only=True)
    assert values(admin, topic) == before


def test_unknown_settings_and_bad_values_are_refused(admin: Admin, topic: str) -> None:
    for change in ({"no.such.setting": "1"}, {"retention.ms": "soon"}):
        with pytest.raises(InvalidConfig, match=topic):
            admin.alter_configs({ConfigResource.topic(topic): change})


def test_of_several_topics_the_unknown_one_is_named(admin: Admin, topic: str) -> None:
    wanted = [ConfigResource.topic(topic), ConfigResource.topic(f"{topic}-not")]
    with pytest.raises(SomeFailed) as raised:
        admin.describe_configs(wanted)
    assert isinstance(raised.value.errors[wanted[1]], UnknownTopicOrPartition)
    assert "retention.ms" in raised.value.results[wanted[0]]


def test_a_broker_describes_its_own_settings(admin: Admin) -> None:
    node = admin.describe_cluster().brokers[0].id
    resource = ConfigResource.broker(node)
    entries = admin.describe_configs(resource, documentation=True)[resource]
    assert entries["node.id"].value == str(node)
    assert entries["node.id"].read_only


def test_cluster_wide_settings_are_stored_and_reset(admin: Admin) -> None:
    resource = ConfigResource.all_brokers()
    admin.alter_configs({resource: {"log.cleaner.delete.retention.ms": 86_400_001}})
    entry = wait_until(lambda: admin.describe_configs(resource)[resource].get("log.cleaner.delete.retention.ms"))
    assert (entry.value, entry.source) == ("86400001", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    admin.alter_configs({resource: {"log.cleaner.delete.retention.ms": None}})
    wait_until(lambda: "log.cleaner.delete.retention.ms" not in admin.describe_configs(resource)[resource])


def test_a_broker_is_named_by_a_number(admin: Admin) -> None:
    with pytest.raises(ConfigurationError, match="a number"):
        admin.describe_configs(ConfigResource.broker("first"))


def test_a_group_with_settings_of_its_own_is_listed_beside_topics_and_brokers(admin: Admin, topic: str) -> None:
    group = ConfigResource.group(f"{topic}-readers")
    admin.alter_configs({group: {"consumer.heartbeat.interval.ms": 6_000}})
    wait_until(lambda: group in admin.list_config_resources(ConfigKind.GROUP))
    entry = admin.describe_configs(group)[group]["consumer.heartbeat.interval.ms"]
    assert (entry.value, entry.source) == ("6000", ConfigSource.DYNAMIC_GROUP_CONFIG)
    assert {group, ConfigResource.topic(topic)} <= set(admin.list_config_resources())
    with pytest.raises(InvalidConfig, match=r"consumer\.heartbeat\.interval\.ms"):
        admin.alter_configs({group: {"consumer.heartbeat.interval.ms": 1}})
    admin.alter_configs({group: {"consumer.heartbeat.interval.ms": None}})
    wait_until(lambda: group not in admin.list_config_resources([ConfigKind.GROUP, ConfigKind.TOPIC]))
