"""JSON Schema: a parsed schema with its references, which validates values and is compared with others.

Draft 4, 6, 7, 2019-09 and 2020-12; without `$schema` draft 7, as in Confluent's registry. A `$ref` leads to a place in
the same document, to a reference by its name, or to the metaschema of a draft. Nothing is loaded from the network.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.schemas.errors import InvalidSchema
from moldau.schemas.parsed_schema import Incompatibility
from moldau.schemas.schema import SchemaType


class JsonSchema:
    """A JSON Schema."""

    type = SchemaType.JSON

    def __init__(self, text: str, resolved: Mapping[str, str] | None = None) -> None:
        try:
            self.document: dict[str, Any] | bool = json.loads(text)
        except ValueError as error:
            raise InvalidSchema(f"the schema is not JSON: {error}") from error
        self.resolved = dict(resolved or {})

    @property
    def name(self) -> str | None:
        """The name of the record for subject name strategies: the schema's title."""
        title = self.document.get("title") if isinstance(self.document, dict) else None
        return title if isinstance(title, str) else None

    def canonical(self) -> str:
        return json.dumps(self.document, separators=(",", ":"), ensure_ascii=False)

    def normalized(self) -> str:
        return json.dumps(self.document, separators=(",", ":"), ensure_ascii=False, sort_keys=True)

    def validate(self, value: Any) -> None:
        """Raise SchemaError if the value does not have this schema. It names the place in the value and the rule."""
        raise NotImplementedError

    def incompatibilities(self, writer: JsonSchema) -> Sequence[Incompatibility]:
        raise NotImplementedError
