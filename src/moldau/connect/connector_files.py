"""Files with the configuration of a connector: properties, or JSON with or without `name` and `config`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from moldau.connect.config_def import ConfigError
from moldau.settings.setting import SettingError
from moldau.settings.sources import read_properties

NAME: Final = "name"


def parse_connector_files(files: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """The configurations of several connectors, from the names and texts of their files. Raises ConfigError."""
    found: dict[str, str] = {}
    configs = []
    for file, text in files:
        config = parse_connector_file(file, text)
        name = config[NAME]
        if name in found:
            raise ConfigError(f"{file}: the name {name!r} is also in {found[name]}; connectors need different names")
        found[name] = file
        configs.append(config)
    return configs


def parse_connector_file(file: str, text: str) -> dict[str, str]:
    """The configuration of one connector, with its name. References to config providers stay."""
    try:
        config = _from_json(file, text) if file.endswith(".json") else read_properties(text)
    except SettingError as error:
        raise ConfigError(f"{file}: {error}") from None
    name = config.get(NAME, "").strip()
    if not name:
        raise ConfigError(f"{file}: the connector has no name; set {NAME}")
    return {**config, NAME: name}


def _from_json(file: str, text: str) -> dict[str, str]:
    try:
        body = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{file} is not JSON: {error}") from None
    if not isinstance(body, Mapping):
        raise ConfigError(f"{file} is not a JSON object")
    if isinstance(body.get("config"), Mapping):
        body = {NAME: body.get(NAME) or "", **body["config"]}
    return {str(name): value if isinstance(value, str) else json.dumps(value) for name, value in body.items()}
