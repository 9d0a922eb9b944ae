"""Settings of topics, brokers and groups as they are stored in the cluster: describe them, and change single ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from moldau.client.admin.calls import Calls, Target
from moldau.client.admin.outcome import Answers, judged, listed, settled
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


class ConfigKind(IntEnum):
    """What has settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value comes from, the strongest first."""

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
        return cls.UNKNOWN  # of a newer broker


class ConfigResource(NamedTuple):
    """One thing that has settings; a broker by its id, and all brokers together by the empty name."""

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
        """What is set for all brokers at run time."""
        return cls(ConfigKind.BROKER, "")

    @classmethod
    def group(cls, name: str) -> ConfigResource:
        return cls(ConfigKind.GROUP, name)

    def __str__(self) -> str:
        if self.kind is ConfigKind.BROKER and not self.name:
            return "all brokers"
        return f"{self.kind.name.lower().replace('_', ' ')} '{self.name}'"


class ConfigSynonym(NamedTuple):
    """A value that holds, or would hold if those before it were not set."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True)
class ConfigEntry:
    """One setting of one thing, and where its value comes from."""

    name: str
    value: str | None
    """None where it is a secret."""
    source: ConfigSource
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


class ConfigOp(IntEnum):
    """What is done to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Append(NamedTuple):
    """Add these to a setting that is a list: `Append("delete")`."""

    values: str


class Subtract(NamedTuple):
    """Take these out of a setting that is a list."""

    values: str


ConfigChange = str | int | float | bool | Append | Subtract | None
"""A new value; None to go back to the default; or what to add to or take out of a list."""


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


class _ConfigRoute:
    """A broker knows its own settings best; all others are known everywhere, and changed by the controller."""

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
            return ConfigurationError(f"{thing}: a broker is named by its id, a number")

    def failed(self, thing: ConfigResource, error: MoldauError) -> None:
        pass


class ConfigCalls(Calls):
    """The admin's calls about settings."""

    async def describe_configs(
        self,
        resources: ConfigResource | Iterable[ConfigResource],
        *,
        names: Sequence[str] | None = None,
        synonyms: bool = True,
        documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Every setting of each resource, or those named, with where the value comes from."""
        return settled(
            await self._each(
                listed(resources, ConfigResource),
                _ConfigRoute(ANY_NODE),
                lambda some: describe_request(some, names, synonyms, documentation),
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
        """Change the settings that are named and no others: a new value, None for the default, `Append`, `Subtract`."""
        settled(
            await self._each(
                changes,
                _ConfigRoute(CONTROLLER),
                lambda some: alter_request({one: changes[one] for one in some}, validate_only),
                lambda response, _some: read_altered(response),
                deadline=self._deadline(timeout),
                what="altering the settings of",
            )
        )
