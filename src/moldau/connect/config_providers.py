"""Config providers: `${file:/path:key}`, `${env:NAME}` and `${dir:/path:file}` in configurations.

A worker names its providers in `config.providers`, each with Kafka's class name and parameters:

    config.providers=file
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/run/secrets

A connector's configuration is stored, shown and logged with its references. They are replaced when a connector is
validated or starts, and what they stand for leaves neither the connector nor the engine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Final

from moldau.connect.config_def import ConfigError
from moldau.host.reference_files import is_absolute, is_within, read_reference_file
from moldau.settings.setting import SettingError
from moldau.settings.sources import read_properties

PROVIDERS: Final = "config.providers"
REFERENCE: Final = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
"""Kafka's pattern: `${provider:[path:]key}`."""

Lookup = Callable[[str, str], str]
"""The value of a key at a path. LookupError says what is wrong, without any value."""


def _provider_class(name: str) -> str:
    return name.rpartition(".")[2]


class FileConfigProvider:
    """`${file:/path:key}`: one entry of a properties file."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._allowed = _paths(parameters.get("allowed.paths"))

    def __call__(self, path: str, key: str) -> str:
        if not path:
            raise LookupError("a path is missing: ${NAME:/path:key}")
        try:
            entries = read_properties(_read(path, self._allowed))
        except SettingError as error:
            raise LookupError(f"{path} is not a properties file: {error.name}") from None
        if key not in entries:
            raise LookupError(f"{path} has no entry {key!r}")
        return entries[key]


class DirectoryConfigProvider:
    """`${dir:/path:file}`: the whole content of a file of a directory, as Kubernetes mounts secrets."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._allowed = _paths(parameters.get("allowed.paths"))

    def __call__(self, path: str, key: str) -> str:
        if not path:
            raise LookupError("a directory is missing: ${NAME:/directory:file}")
        if not key or "/" in key or key in (".", ".."):
            raise LookupError(f"{key!r} is not the name of a file in {path}")
        return _read(os.path.join(path, key), self._allowed)


class EnvVarConfigProvider:
    """`${env:NAME}`: an environment variable of the worker. `allowlist.pattern` must match the whole name."""

    def __init__(self, parameters: Mapping[str, str], environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        pattern = parameters.get("allowlist.pattern")
        try:
            self._allowed = re.compile(pattern if pattern is not None else ".*", re.DOTALL)
        except re.error as error:
            raise ConfigError(f"allowlist.pattern: {pattern!r} is not a regular expression: {error}") from None

    def __call__(self, path: str, key: str) -> str:
        if path:
            raise LookupError(f"environment variables have no path, but {path!r} was given")
        if self._allowed.fullmatch(key) is None or key not in self._environment:
            raise LookupError(f"there is no environment variable {key!r}, or allowlist.pattern does not allow it")
        return self._environment[key]


CLASSES: Final[Mapping[str, Callable[[Mapping[str, str]], Lookup]]] = {
    "FileConfigProvider": FileConfigProvider,
    "DirectoryConfigProvider": DirectoryConfigProvider,
    "EnvVarConfigProvider": EnvVarConfigProvider,
}


class ConfigProviders:
    """The config providers of a worker. Without any, references stay as they are, as in Kafka."""

    def __init__(self, providers: Mapping[str, Lookup]) -> None:
        self._providers = providers

    def resolve(self, config: Mapping[str, str]) -> dict[str, str]:
        """The configuration with all references of known providers replaced.

        What they stand for is not searched for further references. References of unknown providers stay. Raises
        ConfigError, which names the setting and the reference, for one that cannot be resolved.
        """
        return {name: self._resolved(name, text) for name, text in config.items()}

    def _resolved(self, name: str, text: str) -> str:
        if "${" not in text:
            return text

        def value(match: re.Match[str]) -> str:
            provider = self._providers.get(match[1])
            if provider is None:
                return match[0]
            try:
                return provider(match[3] or "", match[4])
            except LookupError as error:
                raise ConfigError(f"{name}: {match[0]} cannot be resolved: {error.args[0]}") from None

        return REFERENCE.sub(value, text)


def config_providers(texts: Mapping[str, str]) -> ConfigProviders:
    """The providers that the settings of a worker name. Raises ConfigError."""
    names = [name.strip() for name in texts.get(PROVIDERS, "").split(",") if name.strip()]
    found = {}
    for name in names:
        prefix = f"{PROVIDERS}.{name}."
        given = texts.get(f"{prefix}class")
        if not given:
            raise ConfigError(f"{prefix}class is missing; known are {', '.join(CLASSES)}")
        known = CLASSES.get(_provider_class(given))
        if known is None:
            raise ConfigError(f"{prefix}class: {given} is not known; known are {', '.join(CLASSES)}")
        start = f"{prefix}param."
        found[name] = known({key.removeprefix(start): text for key, text in texts.items() if key.startswith(start)})
    return ConfigProviders(found)


def _paths(text: str | None) -> tuple[str, ...] | None:
    """The directories and files of `allowed.paths`; None allows all."""
    if text is None:
        return None
    found = tuple(one.strip() for one in text.split(",") if one.strip())
    for path in found:
        if not is_absolute(path):
            raise ConfigError(f"allowed.paths: {path} is not absolute")
    return found


def _read(path: str, allowed: tuple[str, ...] | None) -> str:
    """The text of a file within the allowed paths. Links must not lead out of them."""
    if allowed is not None and not is_within(path, allowed):
        raise LookupError(f"{path} is outside of allowed.paths")
    try:
        return read_reference_file(path)
    except OSError as error:
        raise LookupError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise LookupError(f"{path} is not UTF-8") from None
