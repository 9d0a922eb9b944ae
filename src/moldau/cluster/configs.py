"""Stored settings: may they be altered so, and what are they then? Pure decisions over an image.

Only overrides are stored, as texts. What names exist and what values they take is not known here: `ConfigRules` is
handed in, and asked about the overrides as they would be after the change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple

from moldau.cluster.changes import BrokerConfigsChanged, TopicConfigsChanged
from moldau.cluster.image import ALL_BROKERS, EMPTY, ClusterImage
from moldau.cluster.names import topic_name_error
from moldau.cluster.refusal import Refusal
from moldau.wire.errors import ErrorCode

_BROKER_ID = re.compile(r"0|[1-9][0-9]{0,9}")


class ResourceType(IntEnum):
    """What has settings that are stored here. The wire knows more kinds; they are the broker's to answer."""

    TOPIC = 2
    BROKER = 4


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs can do to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigRules(NamedTuple):
    """What the decisions must know of a kind of settings.

    `check` takes all overrides of a resource and gives the reason why they are wrong, or None; `is_list` says
    whether a setting is a list; `default` is the text that holds where there is no override, or None.
    """

    check: Callable[[Mapping[str, str]], str | None]
    is_list: Callable[[str], bool]
    default: Callable[[str], str | None]


class Alteration(NamedTuple):
    """What to do to the settings of one resource: (name, operation, value) each.

    With `replace_all`, as in AlterConfigs, every operation is SET and whatever is not named is removed.
    """

    resource_type: int
    resource_name: str
    operations: tuple[tuple[str, int, str | None], ...]
    replace_all: bool = False


ConfigsChanged = TopicConfigsChanged | BrokerConfigsChanged


def alter_configs(
    image: ClusterImage, alterations: Sequence[Alteration], *, topic_rules: ConfigRules, broker_rules: ConfigRules
) -> list[ConfigsChanged | Refusal]:
    """Decides over an AlterConfigs or IncrementalAlterConfigs request."""
    named = Counter((alteration.resource_type, alteration.resource_name) for alteration in alterations)
    answers: list[ConfigsChanged | Refusal] = []
    for alteration in alterations:
        if named[alteration.resource_type, alteration.resource_name] > 1:
            answers.append(_bad_request("Each resource may be in the request only once."))
        elif (malformed := _malformed(alteration)) is not None:
            answers.append(malformed)
        elif alteration.resource_type == ResourceType.TOPIC:
            answers.append(_alter_topic(image, alteration, topic_rules))
        elif alteration.resource_type == ResourceType.BROKER:
            answers.append(_alter_broker(image, alteration, broker_rules))
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
        return _bad_request("Topics have no settings in common: the resource needs a topic's name.")
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
        return _bad_request(f"A broker is named by its id, or by nothing for all of them, not by '{name}'.")
    configs = _altered(image.broker_config(name), alteration, rules)
    if isinstance(configs, Refusal):
        return configs
    if (error := rules.check(configs)) is not None:
        # Kafka answers so for brokers, and INVALID_CONFIG for topics.
        return _bad_request(error)
    if name != ALL_BROKERS and int(name) not in image.brokers:
        return Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {name} is not registered.")
    return BrokerConfigsChanged(name, configs)


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
            return Refusal(ErrorCode.INVALID_CONFIG, f"{verb} is for settings that are lists, and {name} is not.")
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
