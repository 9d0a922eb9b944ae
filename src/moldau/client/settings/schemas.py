"""Settings of serializers with a schema registry, with the names of Confluent's Java serializers.

They count for the serializers and deserializers "avro", "json-schema" and "protobuf". A serializer that is an object
has its own arguments.
"""

from __future__ import annotations

from copy import copy
from typing import Final

from moldau.schemas.registry_settings import PREFIX, REGISTRY_CLIENT
from moldau.settings.setting import Setting, SettingType

BOOLEAN, STRING, INT, CLASS = SettingType.BOOLEAN, SettingType.STRING, SettingType.INT, SettingType.CLASS

STRATEGY_DOC: Final = "Subject of the schema: `topic`, `record` or `topic-record`, or the name of Confluent's class."
ID_PLACE_DOC: Final = "Where the schema id is: before the data (`prefix`) or in a header (`header`)."


def _registry_setting(setting: Setting) -> Setting:
    """The setting of the registry's client with its prefix."""
    prefixed = copy(setting)
    prefixed.name = PREFIX + setting.name
    return prefixed


REGISTRY: Final = tuple(_registry_setting(setting) for setting in REGISTRY_CLIENT)
STRATEGIES: Final = (
    Setting("key.subject.name.strategy", CLASS, "topic", STRATEGY_DOC),
    Setting("value.subject.name.strategy", CLASS, "topic", STRATEGY_DOC),
)
VALIDATION: Final = Setting(
    "json.fail.invalid.schema", BOOLEAN, True, "Whether values are validated with their JSON Schema."
)

PRODUCER_SCHEMAS: Final = (
    *REGISTRY,
    *STRATEGIES,
    Setting("key.schema", STRING, "", "Schema of keys, as text; `${file:/path}` reads a file."),
    Setting("value.schema", STRING, "", "Schema of values; without it they have the latest one of the subject."),
    Setting("auto.register.schemas", BOOLEAN, True, "Whether a schema is registered; otherwise it must be registered."),
    Setting("use.latest.version", BOOLEAN, False, "Whether data has the latest schema of the subject."),
    Setting("latest.compatibility.strict", BOOLEAN, True, "Whether the latest schema must be able to read the data."),
    Setting("use.schema.id", INT, -1, "The id of the schema that data has.", low=0, extra_value=-1),
    Setting("normalize.schemas", BOOLEAN, False, "Whether the registry normalizes a schema before it compares it."),
    Setting("key.schema.id.serializer", CLASS, "prefix", ID_PLACE_DOC),
    Setting("value.schema.id.serializer", CLASS, "prefix", ID_PLACE_DOC),
    VALIDATION,
)

CONSUMER_SCHEMAS: Final = (
    *REGISTRY,
    *STRATEGIES,
    Setting("use.latest.version", BOOLEAN, False, "Whether values are returned with the latest schema of the subject."),
    VALIDATION,
)
