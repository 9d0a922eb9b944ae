"""Changes of stored settings: whether they are allowed, and the result. Pure decisions over an image.

Only overrides are stored, as texts. This module does not know the names and valid values of settings: callers pass in
`ConfigRules`, which check the overrides as they would be after the change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple

from moldau.cluster.changes import BrokerConfigsChanged, GroupConfigsChanged, TopicConfigsChanged
from moldau.cluster.errors import Refusal
from moldau.cluster.image import ALL_BROKERS, EMPTY, ClusterImage
from moldau.cluster.topic_names import topic_name_error
from moldau.wire.errors import ErrorCode

_BROKER_ID = re.compile(r"0|[1-9][0-9]{0,9}")


class ConfigResourceType(IntEnum):
    """The resources whose settings are stored here. The protocol has more types; the broker handles those."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class ConfigOperation(IntEnum):
    """The operations of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigRules(NamedTuple):
    """The rules for one kind of settings.

    `check` takes all overrides of a resource and returns the reason why they are invalid, or None. `is_list` tells
    whether a setting is a list. `default` is the text that applies without an override, or None.
    """

    check: Callable[[Mapping[str, str]], str | None]
    is_list: Callable[[str], bool]
    default: Callable[[str], str | None]


class Alteration(NamedTuple):
    """The changes to the settings of one resource, each as (name, operation, value).

    With `replace_all`, as in AlterConfigs, every operation is SET, and settings that are not named are removed.
    """

    resource_type: int
    resource_name: str
    operations: tuple[tuple[str, int, str | None], ...]
    replace_all: bool = False


ConfigsChanged = TopicConfigsChanged | BrokerConfigsChanged | GroupConfigsChanged


def alter_configs(
    image: ClusterImage,
    alterations: Sequence[Alteration],
    *,
    topic_rules: ConfigRules,
    broker_rules: ConfigRules,
    group_rules: ConfigRules,
) -> list[ConfigsChanged | Refusal]:
    """Decide an AlterConfigs or IncrementalAlterConfigs request."""
    named = Counter((alteration.resource_type, alteration.resource_name) for alteration in alterations)
    answers: list[ConfigsChanged | Refusal] = []
    for alteration in alterations:
        if named[alteration.resource_type, alteration.resource_name] > 1:
            answers.append(_bad_request("Each resource may be in the request only once."))
        elif (malformed := _malformed(alteration)) is not None:
            answers.append(malformed)
        elif alteration.resource_type == ConfigResourceType.TOPIC:
            answers.append(_alter_topic(image, alteration, topic_rules))
        elif alteration.resource_type == ConfigResourceType.BROKER:
            answers.append(_alter_broker(image, alteration, broker_rules))
        elif alteration.resource_type == ConfigResourceType.GROUP:
            answers.append(_alter_group(image, alteration, group_rules))
        else:
            answers.append(_bad_request(f"Resources of type {alteration.resource_type} have no settings to alter."))
    return answers


def creation_configs(configs: Mapping[str, str | None], rules: ConfigRules) -> Mapping[str, str] | Refusal:
    """The overrides of a new topic."""
    if not configs:
        return EMPTY
    without_value = [name for name, value in configs.items() if value is None]
    if without_value:
        return Refusal(ErrorCode.INVALID_CONFIG, f"A topic setting needs a value: {', '.join(without_value)}.")
    given = {name: value for name, value in configs.items() if value is not None}
    error = rules.check(given)
    return given if error is None else Refusal(ErrorCode.INVALID_CONFIG, error)


def _malformed(alteration: Alteration) -> Refusal | None:
    named = Counter(name for name, _, _ in alteration.operations)
    if len(named) != len(alteration.operations):
        twice = ", ".join(name for name, times in named.items() if times > 1)
        return _bad_request(f"Each setting may be altered only once in a request: {twice}.")
    for name, operation, value in alteration.operations:
        if operation not in ConfigOperation.__members__.values():
            return _bad_request(f"Unknown operation {operation} on {name}.")
        if value is None and operation != ConfigOperation.DELETE:
            return _bad_request(f"A value is needed for {name}.")
    return None


def _alter_topic(image: ClusterImage, alteration: Alteration, rules: ConfigRules) -> ConfigsChanged | Refusal:
    name = alteration.resource_name
    if not name:
        return _bad_request("A topic resource needs the name of a topic.")
    if (error := topic_name_error(name)) is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, error)
    topic = image.topics.get(name)
    configs = _altered(EMPTY if topic is None else topic.configs, alteration, rules)
    if isinstance(configs, Refusal):
        return configs
    if (error := rules.check(configs)) is not None:
        return Refusal(ErrorCode.INVALID_CONFIG, error)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist.")
    return TopicConfigsChanged(replace(topic, configs=configs or EMPTY))


def _alter_broker(image: ClusterImage, alteration: Alteration, rules: ConfigRules) -> ConfigsChanged | Refusal:
    name = alteration.resource_name
    if name != ALL_BROKERS and not _BROKER_ID.fullmatch(name):
        return _bad_request(f"A broker resource needs a broker id, or an empty name for all brokers, not '{name}'.")
    configs = _altered(image.broker_config(name), alteration, rules)
    if isinstance(configs, Refusal):
        return configs
    if (error := rules.check(configs)) is not None:
        # Kafka returns this code for brokers, and INVALID_CONFIG for topics.
        return _bad_request(error)
    if name != ALL_BROKERS and int(name) not in image.brokers:
        return _bad_request(f"Broker {name} is not registered.")  # the error code of Kafka's brokers
    return BrokerConfigsChanged(name, configs)


def _alter_group(image: ClusterImage, alteration: Alteration, rules: ConfigRules) -> ConfigsChanged | Refusal:
    """A group may have settings before it exists: they apply to its first member."""
    group_id = alteration.resource_name
    if not group_id:
        return _bad_request("A group resource needs the id of a group.")
    configs = _altered(image.group_config(group_id), alteration, rules)
    if isinstance(configs, Refusal):
        return configs
    if (error := rules.check(configs)) is not None:
        return Refusal(ErrorCode.INVALID_CONFIG, error)
    return GroupConfigsChanged(group_id, configs)


def _altered(current: Mapping[str, str], alteration: Alteration, rules: ConfigRules) -> dict[str, str] | Refusal:
    altered = {} if alteration.replace_all else dict(current)
    for name, operation, value in alteration.operations:
        if operation == ConfigOperation.DELETE:
            altered.pop(name, None)
            continue
        assert value is not None
        if operation == ConfigOperation.SET:
            altered[name] = value
            continue
        if not rules.is_list(name):
            verb = ConfigOperation(operation).name
            return Refusal(ErrorCode.INVALID_CONFIG, f"{verb} is only for list settings, and {name} is not a list.")
        items = _items(altered.get(name, rules.default(name) or ""))
        wanted = _items(value)
        if operation == ConfigOperation.APPEND:
            items += [item for item in wanted if item not in items]
        else:
            items = [item for item in items if item not in wanted]
        altered[name] = ",".join(items)
    return altered


def _items(text: str) -> list[str]:
    return [item for part in text.split(",") if (item := part.strip())]


def _bad_request(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
