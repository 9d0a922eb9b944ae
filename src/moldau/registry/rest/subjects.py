"""Endpoints below `/subjects` and `/compatibility`: versions of subjects, look-up, registration, deletion, checks."""

from __future__ import annotations

from moldau.registry.refusals import RegistryRefusal
from moldau.registry.registry import ListedSchema, Registry
from moldau.registry.rest.bodies import INVALID_SCHEMA, new_schema, schema_body
from moldau.registry.rest.endpoint import ApiCall, ApiReply, page
from moldau.registry.rest.errors import ApiError
from moldau.registry.rest.formats import formatted, references_of

ALL_CONTEXTS = ":*:"


class SubjectsResource:
    """Handlers of the endpoints."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    # -- subjects -----------------------------------------------------------------------------------------------------

    async def list(self, call: ApiCall) -> ApiReply:
        await self._registry.fresh()
        prefix = call.text("subjectPrefix") if "subjectPrefix" in call.query else ALL_CONTEXTS
        found = self._registry.subjects(prefix, deleted=call.flag("deleted"), deleted_only=_deleted_only(call))
        return ApiReply(page(call, found))

    async def lookup(self, call: ApiCall) -> ApiReply:
        schema = new_schema(call.json_object())
        await self._registry.fresh()
        found = self._registry.lookup(
            call.path["subject"], schema, normalize=call.flag("normalize"), deleted=call.flag("deleted")
        )
        return self._reply(call, found)

    async def delete(self, call: ApiCall) -> ApiReply:
        return ApiReply(await self._registry.delete_subject(call.path["subject"], permanent=call.flag("permanent")))

    async def with_metadata(self, call: ApiCall) -> ApiReply:
        keys, values = call.texts("key"), call.texts("value")
        if len(keys) != len(values):
            raise ApiError(422, 422, f"{len(keys)} parameters 'key' need as many parameters 'value', not {len(values)}")
        await self._registry.fresh()
        properties = dict(zip(keys, values, strict=True))
        found = self._registry.latest_with_metadata(call.path["subject"], properties, deleted=call.flag("deleted"))
        return self._reply(call, found)

    # -- versions -----------------------------------------------------------------------------------------------------

    async def versions(self, call: ApiCall) -> ApiReply:
        await self._registry.fresh()
        subject, negative = call.path["subject"], call.flag("deletedAsNegative")
        deleted, only = call.flag("deleted") or negative, _deleted_only(call) and not negative
        found = self._registry.versions(subject, deleted=deleted, deleted_only=only)
        if negative:
            gone = set(self._registry.versions(subject, deleted=True, deleted_only=True))
            found = [-version if version in gone else version for version in found]
        return ApiReply(page(call, found))

    async def register(self, call: ApiCall) -> ApiReply:
        schema = new_schema(call.json_object())
        done = await self._registry.register(call.path["subject"], schema, normalize=call.flag("normalize"))
        body = schema_body(done, formatted(self._registry, done, call.text("format")))
        del body["subject"]
        return ApiReply(body)

    async def version(self, call: ApiCall) -> ApiReply:
        return self._reply(call, await self._version(call))

    async def version_text(self, call: ApiCall) -> ApiReply:
        return ApiReply(text=formatted(self._registry, await self._version(call), call.text("format")))

    async def delete_version(self, call: ApiCall) -> ApiReply:
        deleted = await self._registry.delete_version(
            call.path["subject"], call.path["version"], permanent=call.flag("permanent")
        )
        return ApiReply(deleted)

    async def referenced_by(self, call: ApiCall) -> ApiReply:
        await self._registry.fresh()
        found = self._registry.referenced_by(call.path["subject"], call.path["version"], deleted=call.flag("deleted"))
        return ApiReply(page(call, found))

    # -- compatibility ------------------------------------------------------------------------------------------------

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
