"""Endpoints below `/schemas`: schemas by id and by content, and lists of them."""

from __future__ import annotations

from typing import Final

from moldau.registry.refusals import RegistryRefusal
from moldau.registry.registry import ListedSchema, Registry
from moldau.registry.rest.bodies import Body, schema_body
from moldau.registry.rest.body_schemas import STRING, array, reference
from moldau.registry.rest.endpoint import ApiCall, ApiReply, flag, integer, operation, page, word
from moldau.registry.rest.formats import formatted, references_of
from moldau.registry.rest.parameters import DELETED, FORMAT, PAGE, REFERENCE_FORMAT, SUBJECT, SUBJECT_PREFIX

UNKNOWN: Final = (40403,)
LATEST_ONLY: Final = flag("latestOnly", "Only the newest version of each subject.")
ALIASES: Final = flag("aliases", "Also under aliases of subjects.")
RULE_TYPE: Final = word("ruleType", "Only with rules of this type.")
FETCH_MAX_ID: Final = flag("fetchMaxId", "Also the largest id that was given.")


class SchemasResource:
    """Handlers of the endpoints."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    @operation("GET /schemas/types", "getSchemaTypes", "Types of schemas", array(STRING))
    async def types(self, call: ApiCall) -> ApiReply:
        return ApiReply(self._registry.schema_types())

    @operation(
        "GET /schemas",
        "getSchemas",
        "Schemas of all subjects",
        array(reference("Schema")),
        (SUBJECT_PREFIX, DELETED, LATEST_ONLY, ALIASES, RULE_TYPE, *PAGE),
    )
    async def list(self, call: ApiCall) -> ApiReply:
        await self._registry.fresh()
        found = self._registry.schemas(
            call.text("subjectPrefix"),
            deleted=call.flag("deleted"),
            latest_only=call.flag("latestOnly"),
            aliases=call.flag("aliases"),
            rule_type=call.text("ruleType") or None,
        )
        return ApiReply([schema_body(one, one.registered.schema.text) for one in page(call, found)])

    @operation(
        "GET /schemas/ids/{id}",
        "getSchemaById",
        "A schema by its id",
        reference("SchemaString"),
        (SUBJECT, FORMAT, REFERENCE_FORMAT, FETCH_MAX_ID),
        errors=UNKNOWN,
    )
    async def by_id(self, call: ApiCall) -> ApiReply:
        found = await self._find(call)
        body = self._string_body(call, found)
        if call.flag("fetchMaxId"):
            body["maxId"] = self._registry.max_id(call.text("subject") or None)
        return ApiReply(body)

    @operation(
        "GET /schemas/ids/{id}/schema", "getTextById", "The text of a schema", {}, (SUBJECT, FORMAT), errors=UNKNOWN
    )
    async def text_by_id(self, call: ApiCall) -> ApiReply:
        return ApiReply(text=formatted(self._registry, await self._find(call), call.text("format")))

    @operation(
        "GET /schemas/ids/{id}/subjects",
        "getSubjectsOfId",
        "Subjects that have a schema",
        array(STRING),
        (SUBJECT, DELETED, *PAGE),
        errors=UNKNOWN,
    )
    async def subjects(self, call: ApiCall) -> ApiReply:
        await self._registry.fresh()
        found = self._registry.subjects_of_id(
            integer(call.path["id"]), call.text("subject") or None, deleted=call.flag("deleted")
        )
        return ApiReply(page(call, found))

    @operation(
        "GET /schemas/ids/{id}/versions",
        "getVersionsOfId",
        "Subjects and versions of a schema",
        array(reference("SubjectVersion")),
        (SUBJECT, DELETED, *PAGE),
        errors=UNKNOWN,
    )
    async def versions(self, call: ApiCall) -> ApiReply:
        await self._registry.fresh()
        found = self._registry.versions_of_id(
            integer(call.path["id"]), call.text("subject") or None, deleted=call.flag("deleted")
        )
        return ApiReply([{"subject": one.subject, "version": one.version} for one in page(call, found)])

    @operation(
        "GET /schemas/guids/{guid}",
        "getSchemaByGuid",
        "A schema by its GUID",
        reference("SchemaString"),
        (FORMAT,),
        errors=UNKNOWN,
    )
    async def by_guid(self, call: ApiCall) -> ApiReply:
        await self._registry.fresh()
        return ApiReply(self._string_body(call, self._registry.by_guid(call.path["guid"])))

    @operation(
        "GET /schemas/guids/{guid}/ids",
        "getIdsOfGuid",
        "Contexts and ids of a GUID",
        array(reference("ContextId")),
        errors=UNKNOWN,
    )
    async def ids_of_guid(self, call: ApiCall) -> ApiReply:
        await self._registry.fresh()
        found = self._registry.ids_of_guid(call.path["guid"])
        return ApiReply([{"context": context, "id": schema_id} for context, schema_id in found])

    async def _find(self, call: ApiCall) -> ListedSchema:
        """The schema of the id in the path. What an id means never changes: only an unknown one asks the brokers."""
        schema_id, subject = integer(call.path["id"]), call.text("subject") or None
        try:
            return self._registry.by_id(schema_id, subject)
        except RegistryRefusal:
            await self._registry.fresh()
            return self._registry.by_id(schema_id, subject)

    def _string_body(self, call: ApiCall, found: ListedSchema) -> Body:
        """A schema without its id, which the path has."""
        text = formatted(self._registry, found, call.text("format"))
        body = schema_body(found, text, references_of(found, call.either("referenceFormat", "reference_format")))
        del body["id"]
        return body
