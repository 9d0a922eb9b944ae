"""Facts about the class of a connector: its type, its version and its full name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.connect.built_in_plugins import CONNECTORS, Kind
from moldau.connect.herder.results import ConnectorOffset
from moldau.connect.plugins import Plugin, PluginLoadError, Plugins, UnknownPlugin, installed
from moldau.connect.states import ConnectorType

CONNECTOR_CLASS = "connector.class"


class PluginFacts:
    """The facts that this worker's plugins give. A class that is not installed here has none: it may be elsewhere."""

    def __init__(self, plugins: Plugins | None = None) -> None:
        self._plugins = plugins

    def _find(self, config: Mapping[str, str]) -> Plugin | None:
        plugins = self._plugins if self._plugins is not None else installed()
        try:
            return plugins.find(config.get(CONNECTOR_CLASS, ""), *CONNECTORS)
        except UnknownPlugin:
            return None

    def type(self, config: Mapping[str, str]) -> ConnectorType:
        plugin = self._find(config)
        if plugin is None:
            return ConnectorType.UNKNOWN
        return ConnectorType.SINK if plugin.kind is Kind.SINK else ConnectorType.SOURCE

    def version(self, config: Mapping[str, str]) -> str | None:
        plugin = self._find(config)
        try:
            return None if plugin is None else plugin.version
        except PluginLoadError:
            return None

    def offset_problem(self, config: Mapping[str, str], offsets: Sequence[ConnectorOffset]) -> str | None:
        """What the connector's class says against these offsets. A class that is not installed here says nothing."""
        plugin = self._find(config)
        try:
            loaded = None if plugin is None else plugin.load()
        except PluginLoadError:
            return None
        if loaded is None:
            return None
        problem: str | None = loaded.check_offsets(config, [(one.partition, one.offset) for one in offsets])
        return problem

    def full_class(self, config: Mapping[str, str]) -> str:
        """The full name of the class, where the configuration has a short form or an alias."""
        plugin = self._find(config)
        return config.get(CONNECTOR_CLASS, "") if plugin is None else plugin.name
