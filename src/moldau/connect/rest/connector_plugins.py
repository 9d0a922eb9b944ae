"""Endpoints below `/connector-plugins`: the classes that are installed, their settings, and validation."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request

from moldau.connect.built_in_plugins import CONNECTORS, Kind
from moldau.connect.config_infos import definition_body
from moldau.connect.connector_settings import CONNECTOR_CLASS
from moldau.connect.herder import Herder
from moldau.connect.herder.errors import BadRequestError, NotFoundError
from moldau.connect.plugins import Plugin, Plugins, UnknownPlugin
from moldau.connect.rest.bodies import plugins_body
from moldau.connect.rest.dispatch import Reply
from moldau.connect.rest.request_bodies import parse_config
from moldau.connect.validation import common_settings


class ConnectorPluginsResource:
    """Handlers of the endpoints. A list imports no plugin; the settings of one import that one."""

    def __init__(self, herder: Herder, plugins: Plugins) -> None:
        self._herder = herder
        self._plugins = plugins

    async def list(self, request: Request) -> Reply:
        only_connectors = request.query_params.get("connectorsOnly", "true").lower() == "true"
        return Reply(body=plugins_body(self._plugins.listed(*(CONNECTORS if only_connectors else ()))))

    async def settings(self, request: Request) -> Reply:
        """The plugin's own settings, then those that all connectors of its kind have."""
        plugin = self._find(str(request.path_params["plugin"]))
        keys = dict(plugin.load().config_def.keys)
        if plugin.kind in CONNECTORS:
            keys |= {name: key for name, key in common_settings(plugin.kind).keys.items() if name not in keys}
        version = keys.get("connector.plugin.version")
        if version is not None:
            keys[version.name] = replace(version, default=plugin.version)
        return Reply(body=[definition_body(key) for key in keys.values()])

    def _find(self, name: str) -> Plugin:
        for kind in Kind:
            try:
                return self._plugins.find(name, kind)
            except UnknownPlugin:
                continue
        raise NotFoundError(f"Unknown plugin {name}.")

    async def validate(self, request: Request) -> Reply:
        plugin = str(request.path_params["plugin"])
        config = parse_config(await request.body())
        included = config.get(CONNECTOR_CLASS)
        if included is not None and not self._same(included, plugin):
            raise BadRequestError(f"Included connector type {included} does not match request type {plugin}")
        return Reply(body=(await self._herder.validate(config)).body)

    def _same(self, included: str, asked: str) -> bool:
        """Whether both names mean one class. Kafka Connect compares the ends of the names."""
        if included.removesuffix("Connector").endswith(asked.removesuffix("Connector")):
            return True
        try:
            return self._plugins.find(included, *CONNECTORS) is self._plugins.find(asked, *CONNECTORS)
        except UnknownPlugin:
            return False
