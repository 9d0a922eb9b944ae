"""Formats of rows: what `poll_arrow` and `send_batch` do with keys and values beyond bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.client.arguments import refuse
from moldau.client.settings import ClientSettings

if TYPE_CHECKING:
    from moldau.schemas.avro_columns.registry_columns import AvroColumns
    from moldau.schemas.registry_client import RegistryClient
    from moldau.schemas.schema import Schema

    GivenRegistry = RegistryClient | str | Mapping[str, Any] | None

FORMATS: Final = ("bytes", "avro")
MAX_KEPT: Final = 16
"""Combinations of formats, schemas and registries that a client keeps from one call to the next."""


class RowFormat(NamedTuple):
    """What a call asks for."""

    key_format: str | None = None
    value_format: str | None = None
    key_schema: str | Schema | None = None
    value_schema: str | Schema | None = None
    registry: GivenRegistry = None

    @property
    def is_plain(self) -> bool:
        return self.key_format in (None, "bytes") and self.value_format in (None, "bytes")

    def checked(self) -> RowFormat:
        """This format, if its names are known. Raises ArgumentError."""
        for part in ("key_format", "value_format"):
            name = getattr(self, part)
            if name not in (None, *FORMATS):
                refuse(part, name, f"one of {', '.join(FORMATS)}")
        return self


class FormatColumns:
    """Decoders and encoders of one client. They are kept: they know the schemas that they have seen."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._kept: dict[object, AvroColumns] = {}

    def of(self, wanted: RowFormat, part: str, **options: Any) -> AvroColumns | None:
        """The decoder and encoder of keys or values ("key", "value"); None: they are bytes."""
        if getattr(wanted, f"{part}_format") != "avro":
            return None
        registry = wanted.registry
        schema = getattr(wanted, f"{part}_schema")
        key = (part, repr(schema), repr(registry) if registry is None or _is_settings(registry) else registry)
        found = self._kept.get(key)
        if found is None:
            from moldau.schemas.avro_columns.registry_columns import AvroColumns

            if len(self._kept) >= MAX_KEPT:
                self.close()
            found = AvroColumns(self._registry(wanted, part), schema, is_key=part == "key", **options)
            self._kept[key] = found
        return found

    def _registry(self, wanted: RowFormat, part: str) -> Any:
        if wanted.registry is not None:
            return wanted.registry
        from moldau.client.registry_serialization import registry_client

        return registry_client(f"{part}_format", self._settings)

    def close(self) -> None:
        """Close the connections that the application did not make itself."""
        for (_, _, registry), columns in ((key, one) for key, one in self._kept.items() if isinstance(key, tuple)):
            if isinstance(registry, str):
                columns.registry.close()
        self._kept.clear()


def _is_settings(registry: object) -> bool:
    return isinstance(registry, str | Mapping)
