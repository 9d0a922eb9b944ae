"""JSON Schema: a parsed schema with its references, which validates values and is compared with others.

Draft 4, 6, 7, 2019-09 and 2020-12; without `$schema` draft 7, as in Confluent's registry. A `$ref` leads to a place in
the same document, to a reference by its name, or to the metaschema of a draft. Nothing is loaded from the network.
`format` is not checked, which is the default of JSON Schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.schemas.errors import InvalidSchema, SchemaError
from moldau.schemas.json_schema.comparison import compare_roots
from moldau.schemas.json_schema.schema_document import load_json, root_node
from moldau.schemas.json_schema.schema_node import JsonSchemaNode
from moldau.schemas.parsed_schema import Incompatibility
from moldau.schemas.schema import SchemaType

MAX_ERROR_TEXT = 300
"""Characters of a validation error: it contains the part of the value that is wrong, which may be a whole document."""


class JsonSchema:
    """A JSON Schema. Raises InvalidSchema if the text is none, or if a `$ref` cannot be resolved."""

    def __init__(self, text: str, resolved: Mapping[str, str] | None = None) -> None:
        self.document: dict[str, Any] | bool = load_json(text, "the schema")
        self.resolved = dict(resolved or {})
        try:
            self.root: JsonSchemaNode = root_node(self.document, self.resolved)
        except RecursionError:
            raise InvalidSchema("the schema is nested too deep to be checked") from None
        self._validator: Any = None

    @property
    def type(self) -> SchemaType:
        return SchemaType.JSON

    @property
    def name(self) -> str | None:
        """The name of the record for subject name strategies: the schema's title."""
        title = self.document.get("title") if isinstance(self.document, dict) else None
        return title if isinstance(title, str) else None

    def canonical(self) -> str:
        return json.dumps(self.document, separators=(",", ":"), ensure_ascii=False)

    def normalized(self) -> str:
        """The text with sorted keys. Lists keep their order, as in Confluent's registry."""
        return json.dumps(self.document, separators=(",", ":"), ensure_ascii=False, sort_keys=True)

    def validate(self, value: Any) -> None:
        """Raise SchemaError if the value does not have this schema. It names the place in the value and the rule."""
        from jsonschema.exceptions import best_match

        if self._validator is None:
            self._validator = self.root.draft.validator(self.document, registry=self.root.registry)
        try:
            error = best_match(self._validator.iter_errors(value))
        except RecursionError:
            raise SchemaError("the value is nested too deep to be validated") from None
        except (ValueError, re.error) as problem:
            raise SchemaError(f"the value cannot be validated: {problem}") from problem
        if error is not None:
            place = "/" + "/".join(str(part) for part in error.absolute_path)
            text = error.message
            if len(text) > MAX_ERROR_TEXT:
                text = f"{text[: MAX_ERROR_TEXT // 2]} … {text[-MAX_ERROR_TEXT // 2 :]}"
            raise SchemaError(f"the value does not have the schema: at {place}: {text} (rule {error.validator})")

    def incompatibilities(self, writer: JsonSchema) -> Sequence[Incompatibility]:
        if writer.canonical() == self.canonical() and writer.resolved == self.resolved:
            return []
        return compare_roots(writer.root, self.root)
