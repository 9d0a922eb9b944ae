"""Parsing of schemas with their references, and a cache of what was parsed.

References are looked up in the context of the subject that has them. A reference to a version that was deleted softly
still counts: schemas that were registered with it must stay readable.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from moldau.registry.refusals import invalid_schema
from moldau.registry.registry import NewSchema
from moldau.registry.schema_metadata import stored_metadata, stored_rule_set
from moldau.registry.schema_store import SchemaStore
from moldau.registry.subject_names import beside, context_of
from moldau.schemas.errors import SchemaError
from moldau.schemas.parsed_schema import ParsedSchema, parse
from moldau.schemas.schema import Schema, SchemaReference, SchemaType

MAX_PARSED: Final = 1_000
"""How many parsed schemas are kept; the one that was not used for the longest time goes first."""
MAX_REFERENCES: Final = 1_000
"""References of one schema, also indirect ones."""

_Key = tuple[SchemaType, str, tuple[SchemaReference, ...], str, bool]


@dataclass(frozen=True)
class _ParsedText:
    """A parsed schema, with its stored forms on demand."""

    schema: ParsedSchema
    texts: dict[bool, str]

    def text(self, normalize: bool) -> str:
        found = self.texts.get(normalize)
        if found is None:
            found = self.schema.normalized() if normalize else self.schema.canonical()
            self.texts[normalize] = found
        return found


class SchemaParsing:
    """The parsers, with the references of one store."""

    def __init__(self, store: SchemaStore) -> None:
        self._store = store
        self._parsed: OrderedDict[_Key, _ParsedText] = OrderedDict()
        self._removals = 0

    def parsed(self, schema: Schema, subject: str, *, strict: bool = True) -> ParsedSchema:
        """RegistryRefusal 42201 if the schema is not valid. A registered schema, perhaps one of another registry, is
        parsed with `strict=False`."""
        return self._entry(schema, subject, strict=strict).schema

    def stored_form(self, new: NewSchema, subject: str, *, normalize: bool) -> Schema:
        """The schema of a request in the form in which it is stored and compared. RegistryRefusal 42201, 42210."""
        schema = self.schema_of(new)
        text = self._entry(schema, subject).text(normalize)
        return schema if text == schema.text else replace(schema, text=text)

    def schema_of(self, new: NewSchema) -> Schema:
        """The schema of a request, with its text as it came."""
        try:
            kind = SchemaType(new.type or SchemaType.AVRO)
        except ValueError:
            known = ", ".join(SchemaType)
            raise invalid_schema(f"Invalid schema type {new.type!r}; this registry has {known}") from None
        if not new.text.strip():
            raise invalid_schema("Empty schema")
        try:
            new.text.encode()
        except UnicodeEncodeError as error:
            raise invalid_schema(f"Invalid schema: half a character (a surrogate) at position {error.start}") from None
        return Schema(
            new.text, kind, tuple(new.references), stored_metadata(new.metadata), stored_rule_set(new.rule_set)
        )

    def resolved(self, schema: Schema, subject: str) -> dict[str, str]:
        """The texts of all references, also indirect ones, by name, dependencies first. RegistryRefusal 42201."""
        found: dict[str, str] = {}
        self._resolve(schema.references, subject, found, set())
        return found

    def _resolve(
        self, references: tuple[SchemaReference, ...], subject: str, found: dict[str, str], seen: set[str]
    ) -> None:
        for one in references:
            if one.name in seen:
                continue
            seen.add(one.name)
            if len(seen) > MAX_REFERENCES:
                raise invalid_schema(f"Invalid schema: it has more than {MAX_REFERENCES} references")
            target = beside(one.subject, subject)
            stored = self._store.version(target, one.version) if one.version > 0 else self._store.latest(target)
            if stored is None:
                raise invalid_schema(
                    f"Invalid schema: reference '{one.name}' names version {one.version} of subject '{one.subject}', "
                    "which does not exist"
                )
            self._resolve(stored.schema.references, target, found, seen)
            found[one.name] = stored.schema.text

    def _entry(self, schema: Schema, subject: str, *, strict: bool = True) -> _ParsedText:
        if self._removals != self._store.removals:
            self._removals = self._store.removals
            self._parsed.clear()
        key = (schema.type, schema.text, schema.references, context_of(subject), strict)
        found = self._parsed.get(key)
        if found is not None:
            self._parsed.move_to_end(key)
            return found
        resolved = self.resolved(schema, subject)
        try:
            found = _ParsedText(parse(schema, resolved, strict=strict), {})
            found.text(False)
        except SchemaError as error:
            raise invalid_schema(f"Invalid schema of type {schema.type}: {error}") from error
        except RecursionError:
            raise invalid_schema(f"Invalid schema of type {schema.type}: it is nested too deeply") from None
        if all(one.version > 0 for one in schema.references):  # "latest" may be another version next time
            self._parsed[key] = found
            if len(self._parsed) > MAX_PARSED:
                self._parsed.popitem(last=False)
        return found
