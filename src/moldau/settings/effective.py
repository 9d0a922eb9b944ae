"""What holds: the settings of one broker and of its topics, after everything that was set is laid over the defaults.

A broker setting is taken from the first of: set at run time for this broker, set at run time for all brokers, given at
start, default. A topic setting comes from the topic itself, else from the broker settings that are its synonyms. The
same order, with all that was passed over, is what DescribeConfigs tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from moldau.settings.broker import BROKER, NO_NODE_ID
from moldau.settings.listeners import ListenerPlan, plan_listeners
from moldau.settings.setting import Setting, SettingError, SettingType, Value
from moldau.settings.topic import TOPIC, topic_conflict

_EMPTY: Mapping[str, str] = {}
_NODE_IDS = ("node.id", "broker.id")


class Source(IntEnum):
    """Where a value comes from, with the codes that DescribeConfigs carries."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Synonym(NamedTuple):
    """A value that gives, or would have given, a setting its value."""

    name: str
    value: str | None
    source: Source


class Description(NamedTuple):
    """One entry of a DescribeConfigs answer."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool
    type: SettingType
    documentation: str
    synonyms: list[Synonym]


class BrokerSettings:
    """The settings of one broker at one moment. A change at run time makes a new one; this one never changes.

    `settings["num.partitions"]` is the typed value that holds.
    """

    __slots__ = ("_layers", "_topic_defaults", "_values", "dynamic", "dynamic_default", "static")

    def __init__(
        self,
        static: Mapping[str, str],
        dynamic: Mapping[str, str] = _EMPTY,
        dynamic_default: Mapping[str, str] = _EMPTY,
    ) -> None:
        self.static = _with_both_node_ids(static)
        self.dynamic = dynamic
        self.dynamic_default = dynamic_default
        self._layers: tuple[tuple[Source, Mapping[str, str]], ...] = (
            (Source.DYNAMIC_BROKER, dynamic),
            (Source.DYNAMIC_DEFAULT_BROKER, dynamic_default),
            (Source.STATIC_BROKER, self.static),
        )
        self._values: dict[str, Value] = {setting.name: setting.default for setting in BROKER}
        for _, texts in reversed(self._layers):
            self._values.update(BROKER.parse(texts))
        _check_together(self._values)
        # Asked for once a topic at start, so worked out once for all of them.
        self._topic_defaults = {setting.name: self._topic_default(setting) for setting in TOPIC}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def with_dynamic(self, dynamic: Mapping[str, str], dynamic_default: Mapping[str, str]) -> BrokerSettings:
        """These settings with others set at run time, for this broker and for all."""
        return BrokerSettings(self.static, dynamic, dynamic_default)

    def with_node_id(self, node_id: int) -> BrokerSettings:
        """These settings once the broker knows its id from its data directory."""
        texts = {**self.static, **dict.fromkeys(_NODE_IDS, str(node_id))}
        return BrokerSettings(texts, self.dynamic, self.dynamic_default)

    @property
    def node_id(self) -> int | None:
        """The id given at start; None where the data directory decides."""
        node_id: int = self["node.id"]
        return None if node_id == NO_NODE_ID else node_id

    @property
    def log_dirs(self) -> tuple[str, ...]:
        dirs: tuple[str, ...] = self["log.dirs"] or self["log.dir"]
        return dirs

    def listener_plan(self) -> ListenerPlan:
        """What to bind and what to advertise; SettingError where the listener settings do not fit together."""
        return plan_listeners(
            listeners=self["listeners"],
            advertised=self["advertised.listeners"],
            protocol_map=self["listener.security.protocol.map"],
            inter_broker_name=self["inter.broker.listener.name"],
            inter_broker_protocol=self["security.inter.broker.protocol"]
            if "security.inter.broker.protocol" in self.static
            else None,
            controller_names=self["controller.listener.names"],
        )

    def without_effect(self) -> list[Setting]:
        """Settings that were given and change nothing here."""
        return BROKER.without_effect(self.static)

    # Topics ----------------------------------------------------------------------------------------------------------

    def _topic_default(self, setting: Setting) -> Value:
        """What holds for a topic that does not set this itself."""
        for synonym in setting.synonyms:
            value = self._values[synonym]
            if value is not None:
                # A time in hours or minutes; -1 is "for ever" in every unit.
                return value * BROKER[synonym].unit_ms if type(value) is int and value > 0 else value
        return setting.default

    def topic_values(self, overrides: Mapping[str, str]) -> dict[str, Value]:
        """Every topic setting with the value that holds for a topic with these overrides."""
        return {**self._topic_defaults, **TOPIC.parse(overrides)}

    def topic_error(self, overrides: Mapping[str, str]) -> str | None:
        """Why a topic may not have these overrides; None where it may."""
        try:
            return topic_conflict(self.topic_values(overrides))
        except SettingError as error:
            return str(error)

    def dynamic_error(self, texts: Mapping[str, str]) -> str | None:
        """Why these may not be the settings of this broker, or of all, at run time; None where they may."""
        try:
            for name in texts:
                if BROKER[name].read_only:
                    return f"{name}: cannot be changed while the broker runs"
            self.with_dynamic(texts, _EMPTY)
        except SettingError as error:
            return str(error)
        return None

    # DescribeConfigs -------------------------------------------------------------------------------------------------

    def describe(self, names: Iterable[str] | None = None) -> list[Description]:
        """Every broker setting, or those of `names` that exist."""
        return [self._describe(setting) for setting in _selected(BROKER, names)]

    def describe_default(self, names: Iterable[str] | None = None) -> list[Description]:
        """What is set at run time for all brokers, and nothing else: the answer for the broker with no name."""
        descriptions = []
        for setting in _selected(BROKER, names):
            if setting.name in self.dynamic_default:
                described = self._describe(setting)
                own = [one for one in described.synonyms if one.source is Source.DYNAMIC_DEFAULT_BROKER]
                descriptions.append(described._replace(value=own[0].value, source=own[0].source, synonyms=own))
        return descriptions

    def describe_topic(self, overrides: Mapping[str, str], names: Iterable[str] | None = None) -> list[Description]:
        """Every setting of a topic with these overrides, or those of `names` that exist."""
        return [self._describe_topic(setting, overrides) for setting in _selected(TOPIC, names)]

    def _describe(self, setting: Setting) -> Description:
        synonyms = self._broker_synonyms(_family(setting.name))
        return _description(setting, setting.format(self._values[setting.name]), synonyms)

    def _describe_topic(self, setting: Setting, overrides: Mapping[str, str]) -> Description:
        synonyms = self._broker_synonyms(setting.synonyms)
        if setting.name in overrides:
            text = setting.format(setting.parse(overrides[setting.name]))
            synonyms.insert(0, Synonym(setting.name, text, Source.TOPIC))
        else:
            text = setting.format(self._topic_defaults[setting.name])
        return _description(setting, text, synonyms)

    def _broker_synonyms(self, family: tuple[str, ...]) -> list[Synonym]:
        """All values that the broker has for a family of settings, most specific first.

        As in Kafka, those before the first one of the family's first name are left out: a `retention.ms` that comes
        from `log.retention.hours` is told without synonyms, and as a default. Tools compare these lists:
        ours are the same.
        """
        found = [
            Synonym(name, BROKER[name].format(BROKER[name].parse(texts[name])), source)
            for source, texts in self._layers
            for name in family
            if name in texts
        ]
        for name in family:
            setting = BROKER[name]
            if setting.default is not None:
                found.append(Synonym(name, setting.format(setting.default), Source.DEFAULT))
        first = next((index for index, one in enumerate(found) if one.name == family[0]), len(found))
        return found[first:]


def _description(setting: Setting, text: str | None, synonyms: list[Synonym]) -> Description:
    if setting.sensitive:
        text = None
        synonyms = [one._replace(value=None) for one in synonyms]
    source = synonyms[0].source if synonyms else Source.DEFAULT
    return Description(
        setting.name, text, source, setting.read_only, setting.sensitive, setting.type, setting.documentation, synonyms
    )


def _selected(table: Iterable[Setting], names: Iterable[str] | None) -> list[Setting]:
    wanted = None if names is None else set(names)
    return [setting for setting in table if wanted is None or setting.name in wanted]


def _family(name: str) -> tuple[str, ...]:
    """A broker setting and those that stand in for it where it is not set: `log.retention.ms` and its hours."""
    for setting in TOPIC:
        if name in setting.synonyms:
            return setting.synonyms[setting.synonyms.index(name) :]
    return (name,)


def _with_both_node_ids(static: Mapping[str, str]) -> Mapping[str, str]:
    """`node.id` and `broker.id` name the same thing: either one gives the other."""
    given = {name: BROKER[name].parse(static[name]) for name in _NODE_IDS if name in static}
    known = [value for value in given.values() if value != NO_NODE_ID]
    if not known:
        return static
    if len(set(known)) > 1:
        raise SettingError("node.id", f"{given['node.id']} is not the same as broker.id {given['broker.id']}")
    return {**static, **dict.fromkeys(_NODE_IDS, str(known[0]))}


def _check_together(values: Mapping[str, Value]) -> None:
    """Rules between broker settings."""
    dirs = values["log.dirs"] or values["log.dir"]
    if not isinstance(dirs, tuple) or not dirs:
        raise SettingError("log.dirs", "at least one directory is needed")
    if len(set(dirs)) < len(dirs):
        raise SettingError("log.dirs", "a directory is given twice")
    queued, largest = values["queued.max.request.bytes"], values["socket.request.max.bytes"]
    assert isinstance(queued, int) and isinstance(largest, int)
    if 0 < queued < largest:
        raise SettingError("queued.max.request.bytes", f"{queued} is less than socket.request.max.bytes ({largest})")
