"""Client of a schema registry: blocking, for any number of threads, with caches.

    registry = RegistryClient("http://127.0.0.1:8081")
    registry.register("orders-value", Schema(text)).id
    registry.get_schema(17)

An id never changes its meaning, so schemas by id, registrations and versions are cached without a time limit. The
latest version of a subject is cached for `latest.cache.ttl.sec`. A value with a known id costs no request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

from moldau.host.clock import SystemClock
from moldau.host.threads import Lock
from moldau.schemas.errors import InvalidSchema, RegistryError
from moldau.schemas.parsed_schema import ParsedSchema, parse
from moldau.schemas.registry_http import RegistryHttp
from moldau.schemas.registry_settings import RegistrySettings, registry_settings
from moldau.schemas.schema import RegisteredSchema, Schema, SchemaReference, SchemaType

T = TypeVar("T")

MAX_REFERENCES: Final = 1000
"""How many schemas one schema may refer to, directly and indirectly."""


class RegistryClient:
    """A client of one registry. Errors are RegistryErrors; wrong settings are a SettingError (a ValueError)."""

    def __init__(self, settings: str | Mapping[str, Any] | RegistrySettings) -> None:
        """`settings` is the registry's URL, or settings by name: see `registry_settings.py`."""
        if isinstance(settings, str):
            settings = {"url": settings}
        self._settings = settings if isinstance(settings, RegistrySettings) else registry_settings(settings)
        self._http = RegistryHttp(self._settings)
        self._clock = SystemClock()
        size = self._settings.cached_schemas
        self._by_id: _Cache[Schema] = _Cache(size)
        self._by_guid: _Cache[Schema] = _Cache(size)
        self._by_version: _Cache[RegisteredSchema] = _Cache(size)
        self._registered: _Cache[RegisteredSchema] = _Cache(size)
        self._latest: _Cache[tuple[float, RegisteredSchema]] = _Cache(size)
        self._parsed: _Cache[ParsedSchema] = _Cache(size)

    def __repr__(self) -> str:
        return f"RegistryClient({', '.join(self._settings.urls)})"

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process (Spark's tasks) has the same settings, and connections of its own."""
        return RegistryClient, (self._settings,)

    def __enter__(self) -> RegistryClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        self._http.close()

    # -- schemas ---------------------------------------------------------------------------------------------------

    def get_schema(self, schema_id: int, subject: str | None = None) -> Schema:
        """The schema with this id. `subject` names the context to look in, if it is not the default one."""
        key = (schema_id, _context(subject))
        found = self._by_id.get(key)
        if found is None:
            query = {} if subject is None else {"subject": subject}
            found = _schema(self._http.request("GET", f"/schemas/ids/{int(schema_id)}", query=query))
            self._by_id.put(key, found)
        return found

    def get_schema_by_guid(self, guid: str) -> Schema:
        """The schema with this globally unique id: records with the id in a header have it."""
        found = self._by_guid.get(guid)
        if found is None:
            found = _schema(self._http.request("GET", f"/schemas/guids/{quote(guid, safe='')}"))
            self._by_guid.put(guid, found)
        return found

    def subjects_of_id(self, schema_id: int) -> list[str]:
        """The subjects that have the schema with this id, in the default context. Not cached."""
        return _listed(self._http.request("GET", f"/schemas/ids/{int(schema_id)}/subjects"))

    def ids_of_guid(self, guid: str) -> list[tuple[str, int]]:
        """Contexts in which there is a schema with this globally unique id, and its id there. Not cached."""
        answer = _listed(self._http.request("GET", f"/schemas/guids/{quote(guid, safe='')}/ids"))
        return [(str(_mapping(one).get("context")), int(_mapping(one).get("id", 0))) for one in answer]

    def resolved(self, schema: Schema) -> dict[str, str]:
        """The text of every reference of a schema, also indirect ones, by name, dependencies first."""
        texts: dict[str, str] = {}
        self._resolve(schema, texts, ())
        return texts

    def parsed(self, schema: Schema) -> ParsedSchema:
        """The schema, parsed with its references. Parsed once: the result is cached. Raises InvalidSchema."""
        key = _schema_key(schema)
        found = self._parsed.get(key)
        if found is None:
            # Not strictly: the registry has checked it, or does so when it is registered.
            found = parse(schema, self.resolved(schema), strict=False)
            self._parsed.put(key, found)
        return found

    # -- subjects --------------------------------------------------------------------------------------------------

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Register a schema in a subject, and return its id. A schema that is there already keeps its id."""
        key = ("register", subject, normalize, _schema_key(schema))
        found = self._registered.get(key)
        if found is None:
            path = f"/subjects/{_name(subject)}/versions"
            answer = _mapping(self._http.request("POST", path, _body(schema), {"normalize": normalize}))
            found = _registered(answer, subject, schema)
            self._registered.put(key, found)
            self._latest.forget(subject)
        return found

    def lookup(
        self, subject: str, schema: Schema, *, normalize: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        """The id and version of a schema that is registered in a subject. RegistryError 40403: it is not."""
        key = ("lookup", subject, normalize, deleted, _schema_key(schema))
        found = self._registered.get(key)
        if found is None:
            query = {"normalize": normalize, "deleted": deleted}
            answer = _mapping(self._http.request("POST", f"/subjects/{_name(subject)}", _body(schema), query))
            found = _registered(answer, subject, schema)
            self._registered.put(key, found)
        return found

    def latest(self, subject: str) -> RegisteredSchema:
        """The latest version of a subject, as it was up to `latest.cache.ttl.sec` ago."""
        now = self._clock.monotonic()
        cached = self._latest.get(subject)
        if cached is not None and now - cached[0] < self._settings.latest_ttl_s:
            return cached[1]
        found = self._version(subject, "latest", False)
        self._latest.put(subject, (now, found))
        return found

    def version(self, subject: str, version: int, *, deleted: bool = False) -> RegisteredSchema:
        """A version of a subject; with `deleted` also one that is deleted softly."""
        key = (subject, version, deleted)
        found = self._by_version.get(key)
        if found is None:
            found = self._version(subject, str(int(version)), deleted)
            self._by_version.put(key, found)
        return found

    def subjects(self, *, prefix: str = "", deleted: bool = False) -> list[str]:
        query: dict[str, str | int | bool] = {"deleted": deleted}
        if prefix:
            query["subjectPrefix"] = prefix
        return _listed(self._http.request("GET", "/subjects", query=query))

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        return _listed(self._http.request("GET", f"/subjects/{_name(subject)}/versions", query={"deleted": deleted}))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete all versions of a subject; `permanent` only after they were deleted softly. Returns the versions."""
        answer = self._http.request("DELETE", f"/subjects/{_name(subject)}", query={"permanent": permanent})
        self._forget(subject)
        return _listed(answer)

    def delete_version(self, subject: str, version: int, *, permanent: bool = False) -> int:
        path = f"/subjects/{_name(subject)}/versions/{int(version)}"
        answer = self._http.request("DELETE", path, query={"permanent": permanent})
        self._forget(subject)
        return int(answer)

    # -- compatibility ---------------------------------------------------------------------------------------------

    def check_compatibility(
        self, subject: str, schema: Schema, version: int | str | None = "latest", *, normalize: bool = False
    ) -> list[str]:
        """Why the schema may not follow a version of the subject; None: the versions that its level names."""
        path = f"/compatibility/subjects/{_name(subject)}/versions"
        if version is not None:
            path = f"{path}/{version}"
        query = {"verbose": True, "normalize": normalize}
        answer = _mapping(self._http.request("POST", path, _body(schema), query))
        if answer.get("is_compatible"):
            return []
        return [str(message) for message in answer.get("messages") or ()] or ["the registry does not say why"]

    def compatibility(self, subject: str | None = None) -> str:
        """The compatibility level of a subject, or the global one."""
        path = "/config" if subject is None else f"/config/{_name(subject)}"
        query = {} if subject is None else {"defaultToGlobal": True}
        return str(_mapping(self._http.request("GET", path, query=query)).get("compatibilityLevel"))

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        path = "/config" if subject is None else f"/config/{_name(subject)}"
        self._http.request("PUT", path, {"compatibility": level})

    # -- own parts -------------------------------------------------------------------------------------------------

    def _version(self, subject: str, version: str, deleted: bool) -> RegisteredSchema:
        query = {"deleted": True} if deleted else {}
        answer = _mapping(self._http.request("GET", f"/subjects/{_name(subject)}/versions/{version}", query=query))
        return _registered(answer, subject, _schema(answer))

    def _resolve(self, schema: Schema, texts: dict[str, str], path: tuple[str, ...]) -> None:
        for reference in schema.references:
            if reference.name in path:
                raise InvalidSchema(f"the references form a circle: {' -> '.join((*path, reference.name))}")
            if reference.name in texts:
                continue
            # A deleted version still resolves references: schemas by id live as long as records with their ids.
            found = self.version(reference.subject, reference.version, deleted=True).schema
            self._resolve(found, texts, (*path, reference.name))
            if len(texts) >= MAX_REFERENCES:
                raise InvalidSchema(f"the schema refers to more than {MAX_REFERENCES} others")
            texts[reference.name] = found.text

    def _forget(self, subject: str) -> None:
        """Forget what is cached about a subject. Ids stay: their schemas do not change."""
        self._latest.forget(subject)
        self._by_version.clear()
        self._registered.clear()


class _Cache(Generic[T]):
    """A mapping of bounded size: the oldest entry makes room for a new one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = Lock()
        self._entries: dict[object, T] = {}

    def get(self, key: object) -> T | None:
        return self._entries.get(key)

    def put(self, key: object, value: T) -> None:
        with self._lock:
            if key not in self._entries and len(self._entries) >= self._size:
                del self._entries[next(iter(self._entries))]
            self._entries[key] = value

    def forget(self, key: object) -> None:
        with self._lock:
            self._entries.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()


# -- JSON of the REST API ------------------------------------------------------------------------------------------


def _name(subject: str) -> str:
    return quote(subject, safe="")


def _context(subject: str | None) -> str:
    """The context of a subject: ":.name:" of ":.name:subject"."""
    if subject is None or not subject.startswith(":."):
        return ""
    return subject[: subject.find(":", 1) + 1]


def _schema_key(schema: Schema) -> object:
    """What a cache knows a schema by. Metadata and rules are mappings, which have no hash."""
    if schema.metadata is None and schema.rule_set is None:
        return schema.text, schema.type, schema.references
    more = json.dumps([schema.metadata, schema.rule_set], sort_keys=True, default=dict)
    return schema.text, schema.type, schema.references, more


def _body(schema: Schema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.type is not SchemaType.AVRO:
        body["schemaType"] = schema.type.value
    if schema.references:
        body["references"] = [
            {"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references
        ]
    if schema.metadata is not None:
        body["metadata"] = dict(schema.metadata)
    if schema.rule_set is not None:
        body["ruleSet"] = dict(schema.rule_set)
    return body


def _mapping(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise RegistryError(f"the registry's answer is not an object but {type(answer).__name__}")
    return answer


def _listed(answer: Any) -> list[Any]:
    if not isinstance(answer, list):
        raise RegistryError(f"the registry's answer is not a list but {type(answer).__name__}")
    return answer


def _schema(answer: Any) -> Schema:
    found = _mapping(answer)
    try:
        return Schema(
            str(found["schema"]),
            SchemaType(found.get("schemaType") or "AVRO"),
            tuple(
                SchemaReference(str(one["name"]), str(one["subject"]), int(one["version"]))
                for one in found.get("references") or ()
            ),
            found.get("metadata"),
            found.get("ruleSet"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RegistryError(f"the registry's answer is not a schema: {error!r}") from None


def _registered(answer: dict[str, Any], subject: str, schema: Schema) -> RegisteredSchema:
    if not isinstance(answer.get("id"), int):
        raise RegistryError(f"the registry's answer about subject {subject!r} has no id")
    return RegisteredSchema(answer["id"], schema, subject, answer.get("version"), answer.get("guid"))
