"""Endpoints below `/subjects` and `/compatibility`: versions, look-up, registration, deletion, checks."""

from __future__ import annotations

from typing import Final

from moldau.registry.refusals import RegistryRefusal
from moldau.registry.registry import ListedSchema, Registry
from moldau.registry.rest.bodies import INVALID_SCHEMA, new_schema, schema_body
from moldau.registry.rest.body_schemas import INTEGER, STRING, array, reference
from moldau.registry.rest.endpoint import ApiCall, ApiReply, flag, operation, page, word
from moldau.registry.rest.errors import ApiError
from moldau.registry.rest.formats import formatted, references_of
from moldau.registry.rest.parameters import (
    DELETED,
    DELETED_ONLY,
    FORMAT,
    NORMALIZE,
    PAGE,
    PERMANENT,
    REFERENCE_FORMAT,
    SUBJECT_PREFIX,
    VERBOSE,
)

ALL_CONTEXTS: Final = ":*:"
SCHEMA: Final = reference("Schema")
NEW_SCHEMA: Final = reference("NewSchema")
UNKNOWN: Final = (40401, 40402, 42202)
KEY: Final = word("key", "The name of a property.", repeated=True)
VALUE: Final = word("value", "Its value.", repeated=True)
FORCE: Final = flag("force", "Without the check of compatibility.")
DELETED_AS_NEGATIVE: Final = flag("deletedAsNegative", "Also deleted versions, as negative numbers.")


class SubjectsResource:
    """Handlers of the endpoints."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    # -- subjects -----------------------------------------------------------------------------------------------------

    @operation(
        "GET /subjects", "getSubjects", "Subjects", array(STRING), (SUBJECT_PREFIX, DELETED, DELETED_ONLY, *PAGE)
    )
    async def list(self, call: ApiCall) -> ApiReply:
        await self._registry.fresh()
        prefix = call.text("subjectPrefix") if "subjectPrefix" in call.query else ALL_CONTEXTS
        found = self._registry.subjects(prefix, deleted=call.flag("deleted"), deleted_only=_deleted_only(call))
        return ApiReply(page(call, found))

    @operation(
        "POST /subjects/{subject}",
        "lookUpSchema",
        "The version of a subject that has this schema",
        SCHEMA,
        (NORMALIZE, DELETED, FORMAT),
        body=NEW_SCHEMA,
        errors=(40401, 40403, 42201),
    )
    async def lookup(self, call: ApiCall) -> ApiReply:
        schema = new_schema(call.json_object())
        await self._registry.fresh()
        found = self._registry.lookup(
            call.path["subject"], schema, normalize=call.flag("normalize"), deleted=call.flag("deleted")
        )
        return self._reply(call, found)

    @operation(
        "DELETE /subjects/{subject}",
        "deleteSubject",
        "Delete a subject",
        array(INTEGER),
        (PERMANENT,),
        errors=(40401, 40404, 40405, 42205, 42206),
    )
    async def delete(self, call: ApiCall) -> ApiReply:
        return ApiReply(await self._registry.delete_subject(call.path["subject"], permanent=call.flag("permanent")))

    @operation(
        "GET /subjects/{subject}/metadata",
        "getLatestWithMetadata",
        "The newest version with these properties",
        SCHEMA,
        (KEY, VALUE, FORMAT, DELETED),
        errors=(40401, 40403, 422),
    )
    async def with_metadata(self, call: ApiCall) -> ApiReply:
        keys, values = call.texts("key"), call.texts("value")
        if len(keys) != len(values):
            raise ApiError(422, 422, f"{len(keys)} parameters 'key' need as many parameters 'value', not {len(values)}")
        await self._registry.fresh()
        properties = dict(zip(keys, values, strict=True))
        found = self._registry.latest_with_metadata(call.path["subject"], properties, deleted=call.flag("deleted"))
        return self._reply(call, found)

    # -- versions -----------------------------------------------------------------------------------------------------

    @operation(
        "GET /subjects/{subject}/versions",
        "getVersions",
        "Versions of a subject",
        array(INTEGER),
        (DELETED, DELETED_ONLY, DELETED_AS_NEGATIVE, *PAGE),
        errors=(40401,),
    )
    async def versions(self, call: ApiCall) -> ApiReply:
        await self._registry.fresh()
        subject, negative = call.path["subject"], call.flag("deletedAsNegative")
        deleted, only = call.flag("deleted") or negative, _deleted_only(call) and not negative
        found = self._registry.versions(subject, deleted=deleted, deleted_only=only)
        if negative:
            gone = set(self._registry.versions(subject, deleted=True, deleted_only=True))
            found = [-version if version in gone else version for version in found]
        return ApiReply(page(call, found))

    @operation(
        "POST /subjects/{subject}/versions",
        "registerSchema",
        "Register a schema, or find it registered",
        reference("RegisteredVersion"),
        (NORMALIZE, FORMAT, FORCE),
        body=NEW_SCHEMA,
        errors=(409, 42201, 42205, 42207, 42208, 42209, 42210),
    )
    async def register(self, call: ApiCall) -> ApiReply:
        schema = new_schema(call.json_object())
        done = await self._registry.register(
            call.path["subject"], schema, normalize=call.flag("normalize"), force=call.flag("force")
        )
        format_ = call.text("format")
        # confluent-kafka sends the descriptor of a Protobuf file, and caches the answer: it expects that form again.
        as_sent = schema.type == "PROTOBUF" and bool(schema.text) and not format_
        body = schema_body(done, schema.text if as_sent else formatted(self._registry, done, format_))
        del body["subject"]
        return ApiReply(body)

    @operation(
        "GET /subjects/{subject}/versions/{version}",
        "getVersion",
        "A version of a subject",
        SCHEMA,
        (FORMAT, REFERENCE_FORMAT, DELETED),
        errors=UNKNOWN,
    )
    async def version(self, call: ApiCall) -> ApiReply:
        return self._reply(call, await self._version(call))

    @operation(
        "GET /subjects/{subject}/versions/{version}/schema",
        "getVersionText",
        "The text of a version",
        {},
        (FORMAT, DELETED),
        errors=UNKNOWN,
    )
    async def version_text(self, call: ApiCall) -> ApiReply:
        return ApiReply(text=formatted(self._registry, await self._version(call), call.text("format")))

    @operation(
        "DELETE /subjects/{subject}/versions/{version}",
        "deleteVersion",
        "Delete a version",
        INTEGER,
        (PERMANENT,),
        errors=(*UNKNOWN, 40406, 40407, 42205, 42206),
    )
    async def delete_version(self, call: ApiCall) -> ApiReply:
        deleted = await self._registry.delete_version(
            call.path["subject"], call.path["version"], permanent=call.flag("permanent")
        )
        return ApiReply(deleted)

    @operation(
        "GET /subjects/{subject}/versions/{version}/referencedby",
        "getReferencedBy",
        "Ids of schemas that refer to a version",
        array(INTEGER),
        (DELETED, *PAGE),
        errors=UNKNOWN,
    )
    async def referenced_by(self, call: ApiCall) -> ApiReply:
        await self._registry.fresh()
        found = self._registry.referenced_by(call.path["subject"], call.path["version"], deleted=call.flag("deleted"))
        return ApiReply(page(call, found))

    # -- compatibility ------------------------------------------------------------------------------------------------

    @operation(
        "POST /compatibility/subjects/{subject}/versions",
        "checkCompatibility",
        "Whether a schema may be registered",
        reference("Compatibility"),
        (NORMALIZE, VERBOSE),
        body=NEW_SCHEMA,
        errors=(42201,),
    )
    @operation(
        "POST /compatibility/subjects/{subject}/versions/{version}",
        "checkCompatibilityWithVersion",
        "Whether a schema may follow a version",
        reference("Compatibility"),
        (NORMALIZE, VERBOSE),
        body=NEW_SCHEMA,
        errors=(*UNKNOWN, 42201),
    )
    async def check(self, call: ApiCall) -> ApiReply:
        """Compare with one version, or with all that the level names. `verbose` gives the reasons."""
        schema, verbose = new_schema(call.json_object()), call.flag("verbose")
        await self._registry.fresh()
        try:
            reasons = self._registry.check(
                call.path["subject"], schema, call.path.get("version"), normalize=call.flag("normalize")
            )
        except RegistryRefusal as error:
            if error.code != INVALID_SCHEMA or not verbose:
                raise
            reasons = [error.message]
        return ApiReply({"is_compatible": not reasons, **({"messages": list(reasons)} if verbose else {})})

    # -- what they share ----------------------------------------------------------------------------------------------

    async def _version(self, call: ApiCall) -> ListedSchema:
        await self._registry.fresh()
        return self._registry.version(call.path["subject"], call.path["version"], deleted=call.flag("deleted"))

    def _reply(self, call: ApiCall, found: ListedSchema) -> ApiReply:
        text = formatted(self._registry, found, call.text("format"))
        references = references_of(found, call.either("referenceFormat", "reference_format"))
        return ApiReply(schema_body(found, text, references))


def _deleted_only(call: ApiCall) -> bool:
    """confluent-kafka for Python spells the parameter in its own way."""
    return call.either("deletedOnly", "deleted_only").lower() == "true"
