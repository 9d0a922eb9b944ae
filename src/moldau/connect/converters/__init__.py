"""Converters: serialised keys, values and headers to Arrow columns and back, by Kafka Connect's names.

Further converters are found by the entry point groups `moldau.converters` and `moldau.header_converters`: the name is
the class name that users write in `value.converter`, the object a subclass of `Converter` or `HeaderConverter`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moldau.connect.built_in_plugins import Kind
from moldau.connect.config_def import ConfigError
from moldau.connect.converters.base import Converter, ConverterOfHeaders, HeaderConverter
from moldau.connect.plugins import installed

__all__ = ["DEFAULT_HEADER_CONVERTER", "Converter", "HeaderConverter", "converter", "header_converter"]

DEFAULT_HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


def converter(class_name: str, config: Mapping[str, Any], *, is_key: bool) -> Converter:
    """The converter of keys or values with this class name. `config` has its settings without prefix."""
    found = installed().load(class_name, Kind.CONVERTER)
    if not issubclass(found, Converter):
        raise ConfigError(f"{class_name} is no subclass of moldau.connect.converters.Converter")
    return found(config, is_key=is_key)


def header_converter(class_name: str, config: Mapping[str, Any]) -> HeaderConverter:
    """The converter of headers with this class name. A converter of values converts headers, too."""
    found = installed().load(class_name, Kind.HEADER_CONVERTER, Kind.CONVERTER)
    if issubclass(found, Converter):
        return ConverterOfHeaders(found(config, is_key=False))
    if not issubclass(found, HeaderConverter):
        raise ConfigError(f"{class_name} is no subclass of moldau.connect.converters.HeaderConverter")
    return found(config)
