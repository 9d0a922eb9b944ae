"""Creation of a connector and its runner from a stored configuration. Runs in the connector's thread.

References to config providers are resolved here and nowhere else: the resolved values stay in the connector, and every
trace of this connector is searched for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moldau.connect.config_def import ConfigError
from moldau.connect.connector import Connector, PolledSourceConnector, SinkConnector, SourceConnector
from moldau.connect.engine import LoadConnector
from moldau.connect.engine.run_settings import client_configs, run_settings
from moldau.connect.engine.runner import EngineRunner, RunContext
from moldau.connect.engine.scrubbing import secret_values
from moldau.connect.engine.source_offsets import OffsetTable
from moldau.host.clock import Clock

Resolve = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Replaces references to config providers by their values."""


@dataclass(frozen=True)
class WorkerParts:
    """What the runners of a process share."""

    settings: Mapping[str, Any]
    load: LoadConnector
    resolve: Resolve
    table: OffsetTable
    clock: Clock
    new_run: Callable[[], str]

    @property
    def group(self) -> str:
        return str(self.settings.get("group.id") or "connect-cluster")


@dataclass
class ResolvedConfig:
    """A configuration with its secrets, known before anything can fail with them in its message."""

    config: Mapping[str, Any]
    secrets: frozenset[str]


def resolved(parts: WorkerParts, raw: Mapping[str, Any]) -> ResolvedConfig:
    """The configuration with the values of config providers."""
    config = dict(parts.resolve(raw))
    return ResolvedConfig(config, secret_values(raw, config))


def connector_class(parts: WorkerParts, config: Mapping[str, Any]) -> type[Connector]:
    name = config.get("connector.class")
    if not name:
        raise ConfigError('Missing required configuration "connector.class" which has no default value.')
    return parts.load(str(name))


def run_context(parts: WorkerParts, name: str, cls: type[Connector], config: Mapping[str, Any]) -> RunContext:
    """The connector of a resolved configuration, with all that its runner needs."""
    text = {**config, "name": name}
    settings = run_settings(name, text, parts.settings)
    connector = cls({**text, **cls.config_def.parse(text)})
    return RunContext(
        name,
        parts.group,
        connector,
        text,
        settings,
        client_configs(parts.settings, text),
        parts.settings,
        parts.clock,
        parts.new_run,
    )


def create_runner(parts: WorkerParts, name: str, cls: type[Connector], config: Mapping[str, Any]) -> EngineRunner:
    """The runner of a connector. Nothing is taken over before its `open`."""
    context = run_context(parts, name, cls, config)
    connector, settings = context.connector, context.settings
    if isinstance(connector, SinkConnector):
        from moldau.connect.engine.sink_runner import SinkRunner

        if bool(settings.topics) == bool(settings.topics_regex):
            raise ConfigError("set one of topics and topics.regex: a sink reads named topics, or those of a pattern")
        return SinkRunner(context)
    if isinstance(connector, PolledSourceConnector):
        from moldau.connect.engine.polled_runner import PolledRunner

        return PolledRunner(context, parts.table)
    if isinstance(connector, SourceConnector):
        from moldau.connect.engine.source_runner import SourceRunner

        return SourceRunner(context, parts.table)
    raise ConfigError(f"{cls.__module__}.{cls.__qualname__} is neither a source nor a sink connector")
