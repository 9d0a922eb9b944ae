"""Validation of a connector's configuration, with Kafka Connect's answer for each setting.

Checked are the settings that all connectors have, the connector's own, those of its transforms, predicates and
converters, topic creation, and overrides of client settings. Beyond Kafka, a setting that nothing reads is an error
that names the nearest known one: Kafka ignores a misspelt name.

Values of config providers are checked, never shown: the answer has the reference (`${file:…}`) in their place.

Nothing is stored here. `Connector.check` may look at the world outside (a file, a database): callers run `validate` in
a thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Final

from moldau.connect import client_overrides
from moldau.connect.built_in_plugins import CONNECTORS, Kind
from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, ConfigValue, Importance, Validator
from moldau.connect.config_infos import answer_body
from moldau.connect.connector_settings import (
    CONNECTOR_CLASS,
    CONVERTERS,
    DEAD_LETTER_TOPIC,
    DEFAULT_GROUP,
    OFFSETS_TOPIC,
    PREDICATES,
    SINK,
    SOURCE,
    TOPIC_CREATION,
    TOPIC_CREATION_GROUPS,
    TOPICS,
    TOPICS_REGEX,
    TRANSFORMS,
    predicate_settings,
    topic_creation_settings,
    transform_settings,
)
from moldau.connect.engine.run_settings import BATCH_RECORDS, ENGINE_SETTINGS
from moldau.connect.herder.errors import BadRequestError
from moldau.connect.herder.results import ValidationResult
from moldau.connect.plugins import Plugin, PluginLoadError, Plugins, UnknownPlugin, installed
from moldau.settings import TOPIC

MIN_SECRET: Final = 4
"""A shorter value of a config provider is only replaced in the messages of its own setting: `1` occurs everywhere."""

_CONVERTER_KINDS: Final = {
    "header.converter": Kind.HEADER_CONVERTER,
    "key.converter": Kind.CONVERTER,
    "value.converter": Kind.CONVERTER,
}


_RANKS: Final = list(Importance)


@dataclass(frozen=True)
class WorkerRules:
    """What validation has to know of the worker."""

    exactly_once_sources: bool = True
    override_policy: str = "All"
    """`connector.client.config.override.policy`: All, None or Principal."""
    converters: Mapping[str, str] = field(default_factory=dict)
    """The worker's key.converter, value.converter and header.converter."""


def validate(
    config: Mapping[str, str | None],
    *,
    resolved: Mapping[str, str | None] | None = None,
    plugins: Plugins | None = None,
    rules: WorkerRules | None = None,
) -> ValidationResult:
    """Every setting with its definition, value and problems.

    `resolved` is the configuration with the values of config providers. Raises BadRequestError without a connector
    class, and if the class is not installed or cannot be loaded.
    """
    return _Validation(config, resolved or config, plugins or installed(), rules or WorkerRules()).run()


def common_settings(kind: Kind) -> ConfigDef:
    """The settings of all sources or all sinks: Kafka Connect's, and those of Moldau's engine."""
    if kind is Kind.SINK:
        return SINK + ENGINE_SETTINGS
    return SOURCE + ConfigDef(key for name, key in ENGINE_SETTINGS.keys.items() if name != BATCH_RECORDS)


class _Validation:
    """One run. Collects keys, values and groups in the order of Kafka Connect's answer."""

    def __init__(
        self, raw: Mapping[str, str | None], given: Mapping[str, str | None], plugins: Plugins, rules: WorkerRules
    ) -> None:
        self.raw = raw
        self.nulls = [name for name, value in given.items() if value is None]
        self.given: dict[str, str] = {name: value for name, value in given.items() if value is not None}
        self.plugins = plugins
        self.rules = rules
        self.keys: dict[str, ConfigKey] = {}
        self.values: dict[str, ConfigValue] = {}
        self.appended: list[tuple[ConfigKey | None, ConfigValue]] = []
        """Converters' settings and overrides: after all others in the answer."""
        self.open_prefixes: list[str] = []
        self.plugin = self._plugin()

    def _plugin(self) -> Plugin:
        name = self.given.get(CONNECTOR_CLASS)
        if name is None:
            # Kafka's message shows the whole configuration, passwords included; here it shows the names.
            raise BadRequestError(f"Connector config {{{', '.join(self.raw)}}} contains no connector type")
        try:
            return self.plugins.find(name, *CONNECTORS)
        except UnknownPlugin as error:
            raise BadRequestError(str(error)) from None

    @property
    def sink(self) -> bool:
        return self.plugin.kind is Kind.SINK

    def run(self) -> ValidationResult:
        try:
            connector = self.plugin.load()
        except PluginLoadError as error:
            raise BadRequestError(f"Failed to load connector class {self.plugin.name}: {error}") from error
        self._declare(common_settings(self.plugin.kind))
        self._chain(TRANSFORMS, Kind.TRANSFORMATION)
        self._chain(PREDICATES, Kind.PREDICATE)
        self._topic_creation()
        self._declare(connector.config_def)
        self._declare_versions()
        self.open_prefixes += getattr(connector, "open_prefixes", ())
        self.values = ConfigDef(self.keys.values()).validate(self.given)
        self._check_classes()
        self._hide_versions()
        if self.sink:
            self._check_topics()
        else:
            self._check_exactly_once()
        self._check_predicates()
        self._overrides()
        self._converters()
        for name in self.nulls:
            self._problem(name, "Null value can not be supplied as the configuration value.")
        self._unknown()
        self._ask(connector)
        return self._result()

    # -- declarations -------------------------------------------------------------------------------------------------

    def _declare(self, settings: ConfigDef) -> None:
        self.keys.update(settings.keys)

    def _aliases(self, name: str) -> list[str]:
        aliases = [one.strip() for one in self.given.get(name, "").split(",")]
        return list(dict.fromkeys(alias for alias in aliases if alias))

    def _chain(self, name: str, kind: Kind) -> None:
        """Declare the settings of the transforms or predicates that the configuration names."""
        classes = [plugin.name for plugin in self.plugins.listed(kind)]
        declared = transform_settings if kind is Kind.TRANSFORMATION else predicate_settings
        for alias in self._aliases(name):
            prefix = f"{name}.{alias}."
            head, implicit = declared(alias, classes)
            self._declare(head)
            loaded = self._load(self.given.get(prefix + "type"), kind)
            if loaded is None:
                # Its settings are not known: do not report every one of them as well.
                self.open_prefixes.append(prefix)
                continue
            own = [key for key in loaded.config_def.keys.values() if key.name not in implicit.keys]
            group = f"{name.capitalize()}: {alias}"
            self._declare(embedded(ConfigDef([*implicit.keys.values(), *own]), prefix, group, len(head.keys)))
            self.open_prefixes += [prefix + one for one in getattr(loaded, "open_prefixes", ())]

    def _load(self, name: str | None, kind: Kind) -> type[Any] | None:
        try:
            return None if name is None else self.plugins.load(name, kind)
        except (UnknownPlugin, PluginLoadError):
            return None

    def _topic_creation(self) -> None:
        if self.sink or not any(name.startswith(f"{TOPIC_CREATION}.") for name in self.given):
            return
        for alias in dict.fromkeys([*self._aliases(TOPIC_CREATION_GROUPS), DEFAULT_GROUP]):
            self._declare(topic_creation_settings(alias))
            prefix = f"{TOPIC_CREATION}.{alias}."
            for name, text in self.given.items():
                topic_setting = name.removeprefix(prefix)
                if name.startswith(prefix) and name not in self.keys and topic_setting in TOPIC:
                    self.keys[name] = client_overrides.config_key(TOPIC[topic_setting], prefix, text)

    def _declare_versions(self) -> None:
        """The converters that apply by default, the classes to choose from, and the one version that each class has."""
        for name, kind in _CONVERTER_KINDS.items():
            classes = tuple(plugin.name for plugin in self.plugins.listed(kind))
            default = self.rules.converters.get(name)
            self.keys[name] = replace(self.keys[name], default=default, recommended=classes)
        for name, key in self.keys.items():
            if name.endswith(".plugin.version"):
                version = self._version_of(name.removesuffix(".plugin.version"))
                recommended = () if version is None else (version,)
                self.keys[name] = replace(key, default=version, recommended=recommended, validator=_only(version))

    def _version_of(self, name: str) -> str | None:
        if name == "connector":
            return self.plugin.version
        kind = self._kind_of(name) or self._kind_of(f"{name}.type")
        text = self.given.get(f"{name}.type") or self.given.get(name) or self.rules.converters.get(name)
        try:
            return None if kind is None or text is None else self.plugins.find(text, kind).version
        except (UnknownPlugin, PluginLoadError):
            return None

    # -- checks -------------------------------------------------------------------------------------------------------

    def _problem(self, name: str, problem: str) -> None:
        value = self.values.setdefault(name, ConfigValue(name))
        if problem not in value.errors:
            value.errors.append(problem)

    def _check_classes(self) -> None:
        """Replace short names by full ones, and report classes that are not installed."""
        for name, key in self.keys.items():
            kind = self._kind_of(name)
            text = self.given.get(name)
            if key.type is not ConfigType.CLASS or kind is None or text is None:
                continue
            try:
                plugin = self.plugins.find(text, kind)
                plugin.load()
                self.values[name].value = plugin.name
            except UnknownPlugin:
                self.values[name].value = None
                self._problem(name, f"Invalid value {text} for configuration {name}: Class {text} could not be found.")
            except PluginLoadError as error:
                self._problem(name, f"Invalid value {text} for configuration {name}: {error}")

    def _hide_versions(self) -> None:
        """A form has no field for the version of a converter that is not known."""
        for name, kind in _CONVERTER_KINDS.items():
            if self.given.get(name) is not None and self._load(self.given[name], kind) is None:
                self.values[f"{name}.plugin.version"].visible = False

    def _kind_of(self, name: str) -> Kind | None:
        if name in _CONVERTER_KINDS:
            return _CONVERTER_KINDS[name]
        for prefix, kind in ((TRANSFORMS, Kind.TRANSFORMATION), (PREDICATES, Kind.PREDICATE)):
            if re.fullmatch(rf"{prefix}\.[^.]+\.type", name):
                return kind
        return None

    def _check_topics(self) -> None:
        topics, pattern = self._aliases(TOPICS), self.given.get(TOPICS_REGEX, "").strip()
        problem = None
        if topics and pattern:
            problem = f"{TOPICS} and {TOPICS_REGEX} are mutually exclusive options, but both are set."
        elif not topics and not pattern:
            problem = f"Must configure one of {TOPICS} or {TOPICS_REGEX}"
        if problem:
            self._problem(TOPICS, problem)
            self._problem(TOPICS_REGEX, problem)
        dead = self.given.get(DEAD_LETTER_TOPIC, "").strip()
        if dead and dead in topics:
            self._problem(
                TOPICS,
                f"The DLQ topic '{dead}' may not be included in the list of topics ('{TOPICS}=[{', '.join(topics)}]') "
                "consumed by the connector",
            )
        if dead and pattern and not self.values[TOPICS_REGEX].errors and re.fullmatch(pattern, dead):
            self._problem(
                TOPICS_REGEX,
                f"The DLQ topic '{dead}' may not be matched by the regex for the topics ('{TOPICS_REGEX}={pattern}') "
                "consumed by the connector",
            )

    def _check_exactly_once(self) -> None:
        wanted = self.given.get("exactly.once.support", "").strip().lower()
        if wanted == "required" and not self.rules.exactly_once_sources:
            self._problem("exactly.once.support", "This worker does not have exactly-once source support enabled.")
        if self.given.get(OFFSETS_TOPIC):
            self._problem(
                OFFSETS_TOPIC,
                f"Invalid value {self.given[OFFSETS_TOPIC]} for configuration {OFFSETS_TOPIC}: the offsets of all "
                "connectors are in the worker's offset.storage.topic; leave it out",
            )
        boundary = self.given.get("transaction.boundary", "poll").strip().lower()
        if boundary in ("interval", "connector"):
            self._problem(
                "transaction.boundary",
                f"Invalid value {boundary} for configuration transaction.boundary: a transaction holds one "
                "micro-batch here; use poll",
            )

    def _check_predicates(self) -> None:
        known = self._aliases(PREDICATES)
        for alias in self._aliases(TRANSFORMS):
            prefix = f"{TRANSFORMS}.{alias}."
            used = self.given.get(prefix + "predicate")
            if used is not None and used not in known:
                self._problem(prefix + "predicate", f"Transformation {alias} refers to the undefined predicate {used}.")
            if prefix + "negate" in self.given and used is None:
                self._problem(
                    prefix + "type",
                    f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate' defining a "
                    "predicate to be negated.",
                )

    def _converters(self) -> None:
        for name in CONVERTERS:
            loaded = self._load(self.given.get(name), _CONVERTER_KINDS[name])
            if loaded is None:
                continue
            prefix = f"{name}."
            own = {one.removeprefix(prefix): text for one, text in self.given.items() if one.startswith(prefix)}
            own.pop("plugin.version", None)
            own.setdefault("converter.type", name.partition(".")[0])
            for one, value in loaded.config_def.validate(own).items():
                key = loaded.config_def.keys[one]
                shown = replace(key, name=prefix + one, display_name=key.display_name or key.name)
                self.appended.append((shown, replace(value, name=prefix + one)))
            self.open_prefixes += [prefix + one for one in getattr(loaded, "open_prefixes", ())]

    def _overrides(self) -> None:
        dead_letters = bool(self.given.get(DEAD_LETTER_TOPIC, "").strip())
        creates = any(name.startswith(f"{TOPIC_CREATION}.") for name in self.given)
        used = {
            "producer": not self.sink or dead_letters,
            "admin": dead_letters if self.sink else creates,
            "consumer": self.sink,
        }
        for client, is_used in used.items():
            for key, value in client_overrides.validated(client, self.given, self.rules.override_policy):
                if is_used or value.errors:
                    self.appended.append((key, value))
                else:
                    self.open_prefixes.append(value.name)

    def _unknown(self) -> None:
        known = {*self.keys, *(value.name for _, value in self.appended)}
        for name in self.given:
            if name in known or any(name.startswith(prefix) for prefix in self.open_prefixes):
                continue
            self._problem(name, self._hint(name, known))

    def _hint(self, name: str, known: Iterable[str]) -> str:
        for converter in CONVERTERS:
            if name.startswith(f"{converter}.") and converter not in self.given:
                return f'Configuration "{name}" has no effect without {converter}: the converter of the worker is used'
        for chain in (TRANSFORMS, PREDICATES):
            alias = name.removeprefix(f"{chain}.").partition(".")[0]
            if name.startswith(f"{chain}.") and alias not in self._aliases(chain):
                return f'Configuration "{name}" has no effect: {alias} is not listed in {chain}'
        nearest = get_close_matches(name, sorted(known), 1)
        return f'Unknown configuration "{name}"' + (f"; did you mean {nearest[0]}?" if nearest else "")

    def _ask(self, connector: type[Any]) -> None:
        """Let the connector check what concerns several settings or the world outside, if all else is right."""
        if any(value.errors for value in (*self.values.values(), *(value for _, value in self.appended))):
            return
        parsed = {**self.given, **{name: value.value for name, value in self.values.items()}}
        for name, problems in connector.check(parsed).items():
            for problem in problems:
                self._problem(name, problem)

    # -- result -------------------------------------------------------------------------------------------------------

    def _result(self) -> ValidationResult:
        undeclared = [value for name, value in self.values.items() if name not in self.keys]
        entries: list[tuple[ConfigKey | None, ConfigValue]] = [(None, value) for value in undeclared]
        entries += [(key, self.values[name]) for name, key in self.keys.items()]
        entries += self.appended
        self._hide(value for _, value in entries)
        errors: dict[str, Sequence[str]] = {value.name: value.errors for _, value in entries if value.errors}
        count = sum(len(found) for found in errors.values())
        body = answer_body(self.given[CONNECTOR_CLASS], count, entries)
        return ValidationResult(count, errors, body)

    def _hide(self, values: Iterable[ConfigValue]) -> None:
        """Show references to config providers in place of what they resolved to."""
        secret = {name: text for name, text in self.given.items() if text and self.raw.get(name) not in (None, text)}
        for value in values:
            mine = secret.get(value.name)
            if mine is not None:
                value.value = self.raw[value.name]
                value.errors = [one.replace(mine, str(self.raw[value.name])) for one in value.errors]
            for name, text in secret.items():
                if len(text) >= MIN_SECRET:
                    value.errors = [one.replace(text, str(self.raw[name])) for one in value.errors]


def _only(version: str | None) -> Validator:
    def check(name: str, value: Any) -> str | None:
        if value in (None, version):
            return None
        return f"Invalid value {value} for configuration {name}: the installed version is {version}"

    return check


def embedded(settings: ConfigDef, prefix: str, group: str, first: int) -> ConfigDef:
    """The settings of a transform or predicate as settings of the connector, in Kafka's order."""
    groups = list(dict.fromkeys(key.group for key in settings.keys.values() if key.group is not None))

    def rank(key: ConfigKey) -> tuple[int, int, bool, int, str]:
        in_group = -1 if key.group is None else groups.index(key.group)
        return in_group, key.order, not key.required, _RANKS.index(key.importance), key.name

    return ConfigDef(
        replace(
            key,
            name=prefix + key.name,
            group=group if key.group is None else f"{group}: {key.group}",
            order=first + number,
            display_name=key.display_name or key.name,
            dependents=tuple(prefix + one for one in key.dependents),
        )
        for number, key in enumerate(sorted(settings.keys.values(), key=rank))
    )
