"""Effective settings of one broker and its topics and groups: defaults, overridden by everything that was set.

A broker setting has the first value found in this order: set at run time for this broker, set at run time for all
brokers, given at start, default. A topic setting comes from the topic itself, otherwise from the broker settings that
are its synonyms. DescribeConfigs reports the same order, including the values that were overridden.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from moldau.settings.broker import BROKER, NO_NODE_ID
from moldau.settings.group_configs import GROUP, bound
from moldau.settings.kafka_only import check_ignored, foreign
from moldau.settings.listener_overrides import ONLY_OF_LISTENERS, ListenerSettings, Override, parse_override
from moldau.settings.listeners import ListenerPlan, plan_listeners
from moldau.settings.setting import Setting, SettingError, SettingType, Value
from moldau.settings.topic import TOPIC, topic_conflict

_EMPTY: Mapping[str, str] = {}
_NODE_IDS = ("node.id", "broker.id")


class SettingSource(IntEnum):
    """The source of a value, with the codes of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class Synonym(NamedTuple):
    """A value that determines a setting, or that would if a more specific one were not set."""

    name: str
    value: str | None
    source: SettingSource


class Description(NamedTuple):
    """One entry of a DescribeConfigs response."""

    name: str
    value: str | None
    source: SettingSource
    read_only: bool
    sensitive: bool
    type: SettingType
    documentation: str
    synonyms: list[Synonym]


class BrokerSettings:
    """The immutable settings of one broker at one moment. A change at run time creates a new object.

    `settings["num.partitions"]` is the effective value, with its type.
    """

    __slots__ = ("_layers", "_overrides", "_topic_defaults", "_values", "dynamic", "dynamic_default", "static")

    def __init__(
        self,
        static: Mapping[str, str],
        dynamic: Mapping[str, str] = _EMPTY,
        dynamic_default: Mapping[str, str] = _EMPTY,
    ) -> None:
        self.static = _with_both_node_ids(static)
        self.dynamic = dynamic
        self.dynamic_default = dynamic_default
        self._layers: tuple[tuple[SettingSource, Mapping[str, str]], ...] = (
            (SettingSource.DYNAMIC_BROKER, dynamic),
            (SettingSource.DYNAMIC_DEFAULT_BROKER, dynamic_default),
            (SettingSource.STATIC_BROKER, self.static),
        )
        self._values: dict[str, Value] = {setting.name: setting.default for setting in BROKER}
        for _, texts in reversed(self._layers):
            self._values.update(BROKER.parse({name: text for name, text in texts.items() if name in BROKER}))
            for name, text in texts.items():
                if name not in BROKER:
                    check_ignored(name, text)
        self._overrides: dict[Override, Value] = {
            override: declared(name).parse(text)
            for _, texts in reversed(self._layers)
            for name, text in texts.items()
            if (override := parse_override(name)) is not None
        }
        _check_together(self._values)
        # Computed once, because every topic needs them at start.
        self._topic_defaults = {setting.name: self._topic_default(setting) for setting in TOPIC}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def for_listener(self, name: str) -> ListenerSettings:
        """The security settings of one listener (`listener.name.NAME.…`, otherwise those without prefix)."""
        return ListenerSettings(name, self._overrides, self._values.__getitem__)

    def with_dynamic(self, dynamic: Mapping[str, str], dynamic_default: Mapping[str, str]) -> BrokerSettings:
        """These settings with other run-time settings: `dynamic` of this broker, `dynamic_default` of all brokers."""
        return BrokerSettings(self.static, dynamic, dynamic_default)

    def with_node_id(self, node_id: int) -> BrokerSettings:
        """These settings with the id that the broker read from its data directory."""
        texts = {**self.static, **dict.fromkeys(_NODE_IDS, str(node_id))}
        return BrokerSettings(texts, self.dynamic, self.dynamic_default)

    @property
    def node_id(self) -> int | None:
        """The id given at start; None if the data directory determines it."""
        node_id: int = self["node.id"]
        return None if node_id == NO_NODE_ID else node_id

    @property
    def log_dirs(self) -> tuple[str, ...]:
        dirs: tuple[str, ...] = self["log.dirs"] or self["log.dir"]
        return dirs

    def listener_plan(self) -> ListenerPlan:
        """The listeners to bind and the addresses to advertise; SettingError if the listener settings contradict each
        other."""
        plan = plan_listeners(
            listeners=self["listeners"],
            advertised=self["advertised.listeners"],
            protocol_map=self["listener.security.protocol.map"],
            inter_broker_name=self["inter.broker.listener.name"],
            inter_broker_protocol=self["security.inter.broker.protocol"]
            if "security.inter.broker.protocol" in self.static
            else None,
            controller_names=self["controller.listener.names"],
        )
        self._check_overrides({listener.name for listener in plan.bound})
        return plan

    def _check_overrides(self, listeners: set[str]) -> None:
        """A misspelt listener name must not leave a listener without its protection."""
        skipped = {name.upper() for name in self["controller.listener.names"]}
        for name in self.static:
            override = parse_override(name)
            if override is not None and override.listener not in listeners | skipped:
                raise SettingError(
                    name, f"no listener is named {override.listener} (there are {', '.join(sorted(listeners))})"
                )

    def without_effect(self) -> list[Setting]:
        """Settings that were given, at start or at run time, and have no effect in Moldau."""
        given = dict.fromkeys(name for _, texts in self._layers for name in texts)
        return [setting for setting in map(declared, given) if setting.no_effect]

    # Topics ----------------------------------------------------------------------------------------------------------

    def _topic_default(self, setting: Setting) -> Value:
        """The effective value for a topic that does not set this setting."""
        for synonym in setting.synonyms:
            value = self._values[synonym]
            if value is not None:
                # A time in hours or minutes. -1 means "for ever" in every unit.
                return value * BROKER[synonym].unit_ms if type(value) is int and value > 0 else value
        return setting.default

    def topic_values(self, overrides: Mapping[str, str]) -> dict[str, Value]:
        """The effective value of every topic setting, for a topic with these overrides."""
        return {**self._topic_defaults, **TOPIC.parse(overrides)}

    def topic_error(self, overrides: Mapping[str, str]) -> str | None:
        """The reason why a topic may not have these overrides, or None."""
        try:
            return topic_conflict(self.topic_values(overrides))
        except SettingError as error:
            return str(error)

    def dynamic_error(self, texts: Mapping[str, str]) -> str | None:
        """The reason why these may not be run-time settings of a broker, or None."""
        try:
            for name in texts:
                if declared(name).read_only and declared(name).type is not SettingType.UNKNOWN:
                    return f"{name}: cannot be changed while the broker runs; set it in its file and restart it"
                if name in ONLY_OF_LISTENERS:
                    return f"{name}: can be changed only for one listener, as listener.name.NAME.{name}"
            self.with_dynamic(texts, _EMPTY)
        except SettingError as error:
            return str(error)
        return None

    # Groups ----------------------------------------------------------------------------------------------------------

    def group_value(self, overrides: Mapping[str, str], name: str) -> Any:
        """The effective value of a group setting, for a group with these overrides.

        A stored value that is outside the broker's current bounds is moved to the nearest bound, as in Kafka.
        """
        if name not in overrides:
            return self._group_default(GROUP[name])
        value: Any = GROUP[name].parse(overrides[name])
        low, high = self._bounds(name)
        if low is not None:
            value = max(value, low)
        return value if high is None else min(value, high)

    def group_error(self, overrides: Mapping[str, str]) -> str | None:
        """The reason why a group may not have these overrides, or None."""
        try:
            values: dict[str, Any] = {**GROUP.parse(overrides)}
        except SettingError as error:
            return str(error)
        for name, value in values.items():
            low, high = self._bounds(name)
            if low is not None and value < low:
                return f"{name} must be greater than or equal to {bound(name).low}, which is {low}"
            if high is not None and value > high:
                return f"{name} must be less than or equal to {bound(name).high}, which is {high}"
        for kind in ("consumer", "share", "streams"):
            session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
            altered = {session, heartbeat} & values.keys()
            if altered and self.group_value(overrides, session) <= self.group_value(overrides, heartbeat):
                return f"{session} must be greater than {heartbeat}"
        return None

    def _bounds(self, name: str) -> tuple[int | None, int | None]:
        low, high = (None if one is None else self._broker_value(one) for one in bound(name))
        return low, high

    def _group_default(self, setting: Setting) -> Value:
        return self._broker_value(setting.synonyms[0]) if setting.synonyms else setting.default

    def _broker_value(self, name: str) -> Any:
        return self._values[name] if name in BROKER else self._foreign_value(foreign(name))

    # DescribeConfigs -------------------------------------------------------------------------------------------------

    def describe(self, names: Iterable[str] | None = None) -> list[Description]:
        """All broker settings and all other settings that were given, or those of them that `names` lists."""
        given = {name for _, texts in self._layers for name in texts if name not in BROKER}
        return [
            *[self._describe(setting) for setting in _selected(BROKER, names)],
            *[self._describe(setting) for setting in _selected(map(foreign, given), names)],
        ]

    def describe_default(self, names: Iterable[str] | None = None) -> list[Description]:
        """The settings that are set at run time for all brokers: the response for the broker with the empty name."""
        descriptions = []
        for setting in _selected(map(declared, self.dynamic_default), names):
            described = self._describe(setting)
            own = [one for one in described.synonyms if one.source is SettingSource.DYNAMIC_DEFAULT_BROKER]
            descriptions.append(described._replace(value=own[0].value, source=own[0].source, synonyms=own))
        return descriptions

    def describe_topic(self, overrides: Mapping[str, str], names: Iterable[str] | None = None) -> list[Description]:
        """All settings of a topic with these overrides, or the existing ones that `names` lists."""
        return [self._describe_topic(setting, overrides) for setting in _selected(TOPIC, names)]

    def describe_group(self, overrides: Mapping[str, str], names: Iterable[str] | None = None) -> list[Description]:
        """All settings of a group with these overrides, or the existing ones that `names` lists."""
        return [self._describe_group(setting, overrides) for setting in _selected(GROUP, names)]

    def _describe_group(self, setting: Setting, overrides: Mapping[str, str]) -> Description:
        text = setting.format(self._group_default(setting))
        synonyms = self._broker_synonyms(setting.synonyms) or [Synonym(setting.name, text, SettingSource.DEFAULT)]
        if setting.name in overrides:
            text = setting.format(setting.parse(overrides[setting.name]))
            synonyms.insert(0, Synonym(setting.name, text, SettingSource.GROUP))
        return _description(setting, text, synonyms)

    def _describe(self, setting: Setting) -> Description:
        synonyms = self._broker_synonyms(_family(setting.name))
        return _description(setting, setting.format(self._broker_value(setting.name)), synonyms)

    def _foreign_value(self, setting: Setting) -> Value:
        texts = [texts[setting.name] for _, texts in self._layers if setting.name in texts]
        return setting.parse(texts[0]) if texts else setting.default

    def _describe_topic(self, setting: Setting, overrides: Mapping[str, str]) -> Description:
        synonyms = self._broker_synonyms(setting.synonyms)
        if setting.name in overrides:
            text = setting.format(setting.parse(overrides[setting.name]))
            synonyms.insert(0, Synonym(setting.name, text, SettingSource.TOPIC))
        else:
            text = setting.format(self._topic_defaults[setting.name])
        return _description(setting, text, synonyms)

    def _broker_synonyms(self, family: tuple[str, ...]) -> list[Synonym]:
        """All values that the broker has for a family of settings, most specific first.

        Values before the first one of the family's first name are left out, as in Kafka: a `retention.ms` that comes
        from `log.retention.hours` has no synonyms and is reported as a default. Tools compare these lists, so they must
        be equal to Kafka's.
        """
        found = [
            Synonym(name, declared(name).format(declared(name).parse(texts[name])), source)
            for source, texts in self._layers
            for name in family
            if name in texts
        ]
        for name in family:
            setting = declared(name)
            if setting.default is not None:
                found.append(Synonym(name, setting.format(setting.default), SettingSource.DEFAULT))
        first = next((index for index, one in enumerate(found) if one.name == family[0]), len(found)) if family else 0
        return found[first:]


def _description(setting: Setting, text: str | None, synonyms: list[Synonym]) -> Description:
    if setting.sensitive:
        text = None
        synonyms = [one._replace(value=None) for one in synonyms]
    source = synonyms[0].source if synonyms else SettingSource.DEFAULT
    return Description(
        setting.name, text, source, setting.read_only, setting.sensitive, setting.type, setting.documentation, synonyms
    )


def _selected(table: Iterable[Setting], names: Iterable[str] | None) -> list[Setting]:
    wanted = None if names is None else set(names)
    return [setting for setting in table if wanted is None or setting.name in wanted]


def declared(name: str) -> Setting:
    """The declaration of a broker setting: Moldau's, otherwise Kafka's, otherwise one for an unknown name."""
    return BROKER[name] if name in BROKER else foreign(name)


def _family(name: str) -> tuple[str, ...]:
    """A broker setting and the settings that replace it when it is not set: `log.retention.ms` and its minutes and
    hours."""
    for setting in TOPIC:
        if name in setting.synonyms:
            return setting.synonyms[setting.synonyms.index(name) :]
    return (name,)


def _with_both_node_ids(static: Mapping[str, str]) -> Mapping[str, str]:
    """Set both `node.id` and `broker.id`, which mean the same, if one of them is given."""
    given = {name: BROKER[name].parse(static[name]) for name in _NODE_IDS if name in static}
    known = [value for value in given.values() if value != NO_NODE_ID]
    if not known:
        return static
    if len(set(known)) > 1:
        raise SettingError(
            "node.id", f"{given['node.id']} is not the same as broker.id {given['broker.id']}; set only one of them"
        )
    return {**static, **dict.fromkeys(_NODE_IDS, str(known[0]))}


def _check_together(values: Mapping[str, Value]) -> None:
    """Check the rules between several broker settings."""
    dirs = values["log.dirs"] or values["log.dir"]
    if not isinstance(dirs, tuple) or not dirs:
        raise SettingError("log.dirs", "at least one directory is needed")
    if len(set(dirs)) < len(dirs):
        raise SettingError("log.dirs", "a directory is given twice")
    queued, largest = values["queued.max.request.bytes"], values["socket.request.max.bytes"]
    assert isinstance(queued, int) and isinstance(largest, int)
    if 0 < queued < largest:
        raise SettingError("queued.max.request.bytes", f"{queued} is less than socket.request.max.bytes ({largest})")
