"""Settings calls of the admin client: describe and change settings of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from moldau.client import arguments
from moldau.client.admin.calls import Calls, Target
from moldau.client.admin.outcome import Answers, checked, judged, settled
from moldau.client.errors import ConfigurationError, MoldauError
from moldau.client.network import ANY_NODE, CONTROLLER
from moldau.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseConfig,
)
from moldau.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
)
from moldau.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse


class ConfigKind(IntEnum):
    """The kinds of resources that have settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The source of a value."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        return cls.UNKNOWN  # a source of a newer broker


class ConfigResource(NamedTuple):
    """A resource that has settings. The name of a broker is its id; the empty name stands for all brokers."""

    kind: ConfigKind
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(ConfigKind.TOPIC, name)

    @classmethod
    def broker(cls, node: int | str) -> ConfigResource:
        return cls(ConfigKind.BROKER, str(node))

    @classmethod
    def all_brokers(cls) -> ConfigResource:
        """The dynamic settings of all brokers."""
        return cls(ConfigKind.BROKER, "")

    @classmethod
    def group(cls, name: str) -> ConfigResource:
        return cls(ConfigKind.GROUP, name)

    def __str__(self) -> str:
        if self.kind is ConfigKind.BROKER and not self.name:
            return "all brokers"
        return f"{self.kind.name.lower().replace('_', ' ')} '{self.name}'"


class ConfigSynonym(NamedTuple):
    """One source of a setting's value. The first synonym is in effect; each one hides those after it."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True)
class ConfigEntry:
    """One setting of a resource, with its value and source."""

    name: str
    value: str | None
    """None if the setting is sensitive."""
    source: ConfigSource
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether the value is the default of the broker."""
        return self.source is ConfigSource.DEFAULT_CONFIG


class ConfigOp(IntEnum):
    """The operation on a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Append(NamedTuple):
    """Adds values to a setting that is a list: `Append("delete")`."""

    values: str


class Subtract(NamedTuple):
    """Removes values from a setting that is a list."""

    values: str


ConfigChange = str | int | float | bool | Append | Subtract | None
"""A new value, None for the default, or an Append or Subtract for a list."""


def config_text(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def change_of(name: str, change: ConfigChange) -> IncrementalAlterConfigsRequestConfig:
    if change is None:
        operation, value = ConfigOp.DELETE, None
    elif isinstance(change, Append):
        operation, value = ConfigOp.APPEND, change.values
    elif isinstance(change, Subtract):
        operation, value = ConfigOp.SUBTRACT, change.values
    else:
        operation, value = ConfigOp.SET, config_text(change)
    return IncrementalAlterConfigsRequestConfig(name=name, config_operation=operation, value=value)


def describe_request(
    resources: Sequence[ConfigResource], names: Sequence[str] | None, synonyms: bool, documentation: bool
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequestResource(
                resource_type=kind, resource_name=name, configuration_keys=None if names is None else list(names)
            )
            for kind, name in resources
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )


def read_described(response: DescribeConfigsResponse) -> Answers[ConfigResource, dict[str, ConfigEntry]]:
    answers: Answers[ConfigResource, dict[str, ConfigEntry]] = {}
    for result in response.results:
        resource = ConfigResource(ConfigKind(result.resource_type), result.resource_name)
        error = judged(result.error_code, f"describing the settings of {resource}", result.error_message)
        answers[resource] = error or {config.name: _entry(config) for config in result.configs}
    return answers


def _entry(config: DescribeConfigsResponseConfig) -> ConfigEntry:
    return ConfigEntry(
        config.name,
        config.value,
        ConfigSource(config.config_source),
        config.read_only,
        config.is_sensitive,
        tuple(ConfigSynonym(one.name, one.value, ConfigSource(one.source)) for one in config.synonyms),
        config.documentation or None,
    )


def alter_request(
    changes: Mapping[ConfigResource, Mapping[str, ConfigChange]], validate_only: bool
) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequestResource(
                resource_type=kind,
                resource_name=name,
                configs=[change_of(setting, change) for setting, change in of_resource.items()],
            )
            for (kind, name), of_resource in changes.items()
        ],
        validate_only=validate_only,
    )


def read_altered(response: IncrementalAlterConfigsResponse) -> Answers[ConfigResource, None]:
    answers: Answers[ConfigResource, None] = {}
    for result in response.responses:
        resource = ConfigResource(ConfigKind(result.resource_type), result.resource_name)
        answers[resource] = judged(result.error_code, f"altering the settings of {resource}", result.error_message)
    return answers


def read_listed(response: ListConfigResourcesResponse) -> list[ConfigResource]:
    checked(response.error_code, "listing resources with settings")
    return sorted(ConfigResource(ConfigKind(one.resource_type), one.resource_name) for one in response.config_resources)


class _ConfigRoute:
    """Route for settings: those of a broker go to that broker, all others to the given target."""

    def __init__(self, otherwise: Target) -> None:
        self._otherwise = otherwise

    async def targets(self, things: Sequence[ConfigResource], deadline: float) -> Answers[ConfigResource, Target]:
        return {thing: self._target(thing) for thing in things}

    def _target(self, thing: ConfigResource) -> Target | MoldauError:
        if thing.kind not in (ConfigKind.BROKER, ConfigKind.BROKER_LOGGER) or not thing.name:
            return self._otherwise
        try:
            return int(thing.name)
        except ValueError:
            return ConfigurationError(f"{thing}: the name of a broker is its id, a number; give that")

    def failed(self, thing: ConfigResource, error: MoldauError) -> None:
        pass


EXAMPLE = '`ConfigResource.topic("orders")` returns'


def _kind(name: str, given: object) -> ConfigKind:
    return arguments.instance(name, given, ConfigKind, "ConfigKind.TOPIC")


def _resource(name: str, given: ConfigResource) -> ConfigResource:
    found = arguments.instance(name, given, ConfigResource, EXAMPLE)
    _kind(f"kind of {name}", found.kind)
    arguments.text(f"name of {name}", found.name)
    return found


def _resources(given: ConfigResource | Iterable[ConfigResource]) -> list[ConfigResource]:
    some = [given] if isinstance(given, ConfigResource) else given
    found = arguments.several("resources", some, _resource, f"ConfigResource objects, such as {EXAMPLE}")
    return list(dict.fromkeys(found))


def _changes(name: str, given: Mapping[str, ConfigChange]) -> dict[str, ConfigChange]:
    return arguments.mapping(name, given, arguments.text, _change)


def _change(name: str, given: ConfigChange) -> ConfigChange:
    if isinstance(given, Append | Subtract):
        arguments.text(name, given.values)
    elif given is not None and not isinstance(given, str | int | float):
        arguments.refuse(name, given, "a str, a number, a bool, Append, Subtract, or None for the default")
    return given


class ConfigCalls(Calls):
    """Admin calls about settings."""

    async def list_config_resources(
        self, kinds: ConfigKind | Iterable[ConfigKind] = (), *, timeout: float | None = None
    ) -> list[ConfigResource]:
        """Return the resources of these kinds that have settings; of all kinds without an argument.

        All topics and brokers are listed. Groups are listed if they have settings of their own.
        """
        deadline = self._deadline(timeout)
        some = [kinds] if isinstance(kinds, ConfigKind) else kinds
        wanted = arguments.several("kinds", some, _kind, "ConfigKind members, such as ConfigKind.TOPIC")
        return await self._once(
            ANY_NODE,
            ListConfigResourcesRequest(resource_types=[int(kind) for kind in wanted]),
            read_listed,
            deadline=deadline,
            what="listing resources with settings",
            min_version=1,
        )

    async def describe_configs(
        self,
        resources: ConfigResource | Iterable[ConfigResource],
        *,
        names: Sequence[str] | None = None,
        synonyms: bool = True,
        documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Return the settings of each resource, or only those in `names`, with the source of each value.

        `synonyms` adds the values of the other sources, `documentation` the description of each setting.
        """
        wanted = None if names is None else arguments.texts("names", names)
        return settled(
            await self._each(
                _resources(resources),
                _ConfigRoute(ANY_NODE),
                lambda some: describe_request(some, wanted, synonyms, documentation),
                lambda response, _some: read_described(response),
                deadline=self._deadline(timeout),
                what="describing the settings of",
            )
        )

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, ConfigChange]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Change the given settings of each resource; other settings keep their values.

        A change is a new value, None for the default, `Append` or `Subtract`. With `validate_only` the broker checks
        the changes and stores nothing. Raises InvalidConfig for a setting or value that the broker does not accept.
        """
        wanted = arguments.mapping("changes", changes, _resource, _changes)
        settled(
            await self._each(
                wanted,
                _ConfigRoute(CONTROLLER),
                lambda some: alter_request({one: wanted[one] for one in some}, validate_only),
                lambda response, _some: read_altered(response),
                deadline=self._deadline(timeout),
                what="altering the settings of",
            )
        )
