"""Registry of connector, converter, transform and predicate classes, by the names that configurations give them.

Moldau's own classes are in `built_in_plugins.py`; other packages add theirs by entry points, one group for each kind:

    [project.entry-points."moldau.connectors"]
    "com.example.QueueSource" = "example_connect.queue:QueueSource"

The name of the entry point is the class name for `connector.class` (or `transforms.X.type`, `key.converter` …). Several
entry points of one class give it several names; the first one, in the order of names, is shown.

A class is found by its name, by the last part of the name (`QueueSource` of `com.example.QueueSource`), and by that
part without the suffix of its kind (`FileStreamSource` of `FileStreamSourceConnector`), as in Kafka Connect. A short
form that fits two classes is no name of either. Only registered classes are found: no request can make the worker
import a module.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from moldau import __version__
from moldau.client.errors import MoldauError
from moldau.connect.built_in_plugins import BUILT_IN, CONNECTORS, BuiltIn, Kind
from moldau.host.event_log import event_logger

log = event_logger(__name__)

GROUPS: Final[Mapping[str, tuple[Kind, ...]]] = {
    "moldau.connectors": CONNECTORS,
    "moldau.converters": (Kind.CONVERTER,),
    "moldau.header_converters": (Kind.HEADER_CONVERTER,),
    "moldau.transforms": (Kind.TRANSFORMATION,),
    "moldau.predicates": (Kind.PREDICATE,),
}

_SUFFIXES: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.SINK: ("Connector",),
    Kind.SOURCE: ("Connector",),
    Kind.CONVERTER: ("Converter",),
    Kind.HEADER_CONVERTER: ("HeaderConverter", "Converter"),
    Kind.TRANSFORMATION: ("Transformation",),
    Kind.PREDICATE: ("Predicate",),
}

_INTERFACES: Final[Mapping[tuple[Kind, ...], tuple[str, str]]] = {
    CONNECTORS: ("Connector", "connectors"),
    (Kind.CONVERTER,): ("Converter", "converters"),
    (Kind.HEADER_CONVERTER,): ("HeaderConverter", "header converters"),
    (Kind.TRANSFORMATION,): ("Transformation", "transformations"),
    (Kind.PREDICATE,): ("Predicate", "predicates"),
}


UNDEFINED: Final = "undefined"
"""The version of a plugin that has none."""


class UnknownPlugin(MoldauError):
    """A class name that no plugin has."""


class PluginLoadError(MoldauError):
    """A plugin whose class cannot be imported; the message says what to install."""


@dataclass(frozen=True)
class Plugin:
    """One registered class."""

    kind: Kind
    name: str
    target: str
    names: frozenset[str] = field(default_factory=frozenset)
    """All full names, `name` among them. Short forms are not in it."""
    extra: str | None = None

    @property
    def version(self) -> str:
        """The version of a built-in plugin is that of Moldau; that of another one is its class's, if it has one."""
        if self.extra is not None:
            return __version__
        try:
            return str(getattr(self.load(), "version", UNDEFINED))
        except PluginLoadError as error:
            # One broken package must not hide the others from a list; who uses the plugin gets the error.
            log.warning("plugin cannot be loaded", extra={"plugin": self.name, "reason": str(error)})
            return UNDEFINED

    def load(self) -> type[Any]:
        """The class. Raises PluginLoadError."""
        return _load(self.target, self.extra)


@functools.cache
def _load(target: str, extra: str | None) -> type[Any]:
    module, _, attribute = target.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:  # another package's module may raise anything while it is imported
        hint = f"; install it with: pip install 'moldau[{extra}]'" if isinstance(error, ImportError) and extra else ""
        raise PluginLoadError(f"cannot load {target}: {type(error).__name__}: {error}{hint}") from error
    if not isinstance(found, type):
        raise PluginLoadError(f"cannot load {target}: it is no class")
    return found


class Plugins:
    """All plugins of this process."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self._plugins = tuple(plugins)
        self._by_name: dict[tuple[Kind, str], Plugin] = {}
        for plugin in self._plugins:
            for name in plugin.names | {plugin.name}:
                self._by_name.setdefault((plugin.kind, name), plugin)
        self._add_short_forms()

    def _add_short_forms(self) -> None:
        found: dict[tuple[Kind, str], set[Plugin]] = {}
        for plugin in self._plugins:
            for name in plugin.names | {plugin.name}:
                for short in _short_forms(plugin.kind, name):
                    found.setdefault((plugin.kind, short), set()).add(plugin)
        for key, candidates in found.items():
            if len(candidates) == 1:
                self._by_name.setdefault(key, next(iter(candidates)))

    def find(self, name: str, *kinds: Kind) -> Plugin:
        """The plugin with this name of one of these kinds. Raises UnknownPlugin with Kafka Connect's message."""
        for kind in kinds:
            plugin = self._by_name.get((kind, name))
            if plugin is not None:
                return plugin
        interface, plural = _INTERFACES.get(kinds, ("plugin", "plugins"))
        known = ", ".join(plugin.name for plugin in self.listed(*kinds))
        raise UnknownPlugin(
            f"Failed to find any class that implements {interface} and which name matches {name}, "
            f"available {plural} are: {known}"
        )

    def load(self, name: str, *kinds: Kind) -> type[Any]:
        """The class with this name of one of these kinds. Raises UnknownPlugin or PluginLoadError."""
        return self.find(name, *kinds).load()

    def listed(self, *kinds: Kind) -> list[Plugin]:
        """The plugins of these kinds (none given: of all), by kind in the order of `Kind`, then by name."""
        order = list(Kind)
        chosen = [plugin for plugin in self._plugins if not kinds or plugin.kind in kinds]
        return sorted(chosen, key=lambda plugin: (order.index(plugin.kind), plugin.name))


def _short_forms(kind: Kind, name: str) -> list[str]:
    simple = name.rpartition(".")[2]
    forms = [simple] if simple != name else []
    for suffix in _SUFFIXES[kind]:
        if simple.endswith(suffix) and simple != suffix:
            forms.append(simple.removesuffix(suffix))
            break
    return forms


@functools.cache
def installed() -> Plugins:
    """The built-in plugins and those of the installed packages. Entry points are read once per process."""
    return Plugins([*map(_built_in, BUILT_IN), *_of_entry_points()])


def _built_in(row: BuiltIn) -> Plugin:
    return Plugin(row.kind, row.name, row.target, frozenset({row.name, *row.aliases}), row.extra)


def _of_entry_points() -> list[Plugin]:
    found: list[Plugin] = []
    for group, kinds in GROUPS.items():
        targets: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=group):
            targets.setdefault(point.value, []).append(point)
        for target, points in targets.items():
            kind = kinds[0] if len(kinds) == 1 else _kind_of_connector(target)
            if kind is not None:
                names = sorted(point.name for point in points)
                found.append(Plugin(kind, names[0], target, frozenset(names)))
    return found


def _kind_of_connector(target: str) -> Kind | None:
    """Source or sink; None, with a warning, if the class cannot be loaded: other plugins must stay usable."""
    from moldau.connect.connector import Connector, SinkConnector

    try:
        loaded = _load(target, None)
    except PluginLoadError as error:
        log.warning("plugin ignored", extra={"plugin": target, "reason": str(error)})
        return None
    if not issubclass(loaded, Connector):
        log.warning("plugin ignored", extra={"plugin": target, "reason": "no subclass of Connector"})
        return None
    return Kind.SINK if issubclass(loaded, SinkConnector) else Kind.SOURCE
