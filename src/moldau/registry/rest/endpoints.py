"""Table of the endpoints of Confluent's schema registry: the routes and the OpenAPI description are made from it.

Every path also exists below `/contexts/NAME`, for the subjects of that context.
"""

from __future__ import annotations

from moldau.registry.registry import Registry
from moldau.registry.rest.body_schemas import ANY_OBJECT, INTEGER, STRING, array, reference
from moldau.registry.rest.endpoint import ApiOperation, Parameter, flag, number, word
from moldau.registry.rest.schemas import SchemasResource
from moldau.registry.rest.server_info import ServerInfo
from moldau.registry.rest.settings_resource import SettingsResource
from moldau.registry.rest.subjects import SubjectsResource

DELETED = flag("deleted", "Also what was deleted without `permanent`.")
DELETED_ONLY = flag("deletedOnly", "Only what was deleted without `permanent`.")
NORMALIZE = flag("normalize", "Compare and store the normal form of the schema.")
PERMANENT = flag("permanent", "Remove what was deleted before from the registry.")
GLOBAL = flag("defaultToGlobal", "If the subject has none, answer with that of its context or of the registry.")
VERBOSE = flag("verbose", "Give the reasons.")
FORMAT = word("format", "`resolved`: Avro with its references put in. `serialized`: a Protobuf descriptor in base64.")
REFERENCES = word("referenceFormat", "`qualified`: references in a context name that context.")
SUBJECT = word("subject", "A subject that has the schema: the id is looked up in its context.")
PREFIX = word("subjectPrefix", "Only subjects that begin with it. `:*:` stands for all contexts.")
PAGE: tuple[Parameter, ...] = (
    number("offset", 0, "How many entries of the list to leave out."),
    number("limit", -1, "How many entries to answer with; negative: all."),
)
TEXTS = array(STRING)
NUMBERS = array(INTEGER)


def endpoints(registry: Registry, info: ServerInfo) -> list[ApiOperation]:
    """All endpoints of a registry."""
    return [
        *_schemas(SchemasResource(registry)),
        *_subjects(SubjectsResource(registry)),
        *_compatibility(SubjectsResource(registry)),
        *_settings(SettingsResource(registry)),
        *_server(info),
    ]


def _schemas(to: SchemasResource) -> list[ApiOperation]:
    one, by_guid = "/schemas/ids/{id}", "/schemas/guids/{guid}"
    listed = (PREFIX, DELETED, flag("latestOnly", "Only the newest version of each subject."))
    more = (flag("aliases", "Also under aliases of subjects."), word("ruleType", "Only with rules of this type."))
    by_id = (SUBJECT, FORMAT, REFERENCES, flag("fetchMaxId", "Also the largest id that was given."))
    of_id = (SUBJECT, DELETED, *PAGE)
    schema = reference("SchemaString")
    return [
        ApiOperation(
            "GET",
            "/schemas",
            "getSchemas",
            "Schemas of all subjects",
            to.list,
            array(reference("Schema")),
            (*listed, *more, *PAGE),
        ),
        ApiOperation("GET", "/schemas/types", "getSchemaTypes", "Types of schemas", to.types, TEXTS),
        ApiOperation("GET", one, "getSchemaById", "A schema by its id", to.by_id, schema, by_id, errors=[40403]),
        ApiOperation(
            "GET",
            f"{one}/schema",
            "getSchemaTextById",
            "The text of a schema",
            to.text_by_id,
            {},
            (SUBJECT, FORMAT),
            errors=[40403],
        ),
        ApiOperation(
            "GET",
            f"{one}/subjects",
            "getSubjectsOfId",
            "Subjects that have a schema",
            to.subjects,
            TEXTS,
            of_id,
            errors=[40403],
        ),
        ApiOperation(
            "GET",
            f"{one}/versions",
            "getVersionsOfId",
            "Subjects and versions of a schema",
            to.versions,
            array(reference("SubjectVersion")),
            of_id,
            errors=[40403],
        ),
        ApiOperation(
            "GET", by_guid, "getSchemaByGuid", "A schema by its GUID", to.by_guid, schema, (FORMAT,), errors=[40403]
        ),
        ApiOperation(
            "GET",
            f"{by_guid}/ids",
            "getIdsOfGuid",
            "Contexts and ids of a GUID",
            to.ids_of_guid,
            array(reference("ContextId")),
            errors=[40403],
        ),
    ]


def _subjects(to: SubjectsResource) -> list[ApiOperation]:
    subject = "/subjects/{subject}"
    versions, one = f"{subject}/versions", f"{subject}/versions/{{version}}"
    schema, new = reference("Schema"), reference("NewSchema")
    unknown, no_version = [40401], [40401, 40402, 42202]
    found = (FORMAT, REFERENCES, DELETED)
    with_metadata = (word("key", "The name of a property.", repeated=True), word("value", "Its value.", repeated=True))
    negative = flag("deletedAsNegative", "Also deleted versions, as negative numbers.")
    return [
        ApiOperation(
            "GET", "/subjects", "getSubjects", "Subjects", to.list, TEXTS, (PREFIX, DELETED, DELETED_ONLY, *PAGE)
        ),
        ApiOperation(
            "POST",
            subject,
            "lookUpSchema",
            "The version of a subject that has this schema",
            to.lookup,
            schema,
            (NORMALIZE, DELETED, FORMAT),
            new,
            [40401, 40403, 42201],
        ),
        ApiOperation(
            "DELETE",
            subject,
            "deleteSubject",
            "Delete a subject",
            to.delete,
            NUMBERS,
            (PERMANENT,),
            errors=[40401, 40404, 40405, 42205, 42206],
        ),
        ApiOperation(
            "GET",
            f"{subject}/metadata",
            "getLatestWithMetadata",
            "The newest version with these properties",
            to.with_metadata,
            schema,
            (*with_metadata, FORMAT, DELETED),
            errors=[40401, 40403, 422],
        ),
        ApiOperation(
            "GET",
            versions,
            "getVersions",
            "Versions of a subject",
            to.versions,
            NUMBERS,
            (DELETED, DELETED_ONLY, negative, *PAGE),
            errors=unknown,
        ),
        ApiOperation(
            "POST",
            versions,
            "registerSchema",
            "Register a schema",
            to.register,
            reference("RegisteredVersion"),
            (NORMALIZE, FORMAT),
            new,
            [409, 42201, 42205, 42207, 42208, 42209],
        ),
        ApiOperation("GET", one, "getVersion", "A version of a subject", to.version, schema, found, errors=no_version),
        ApiOperation(
            "DELETE",
            one,
            "deleteVersion",
            "Delete a version",
            to.delete_version,
            INTEGER,
            (PERMANENT,),
            errors=[*no_version, 40406, 40407, 42205, 42206],
        ),
        ApiOperation(
            "GET",
            f"{one}/schema",
            "getVersionText",
            "The text of a version",
            to.version_text,
            {},
            (FORMAT, DELETED),
            errors=no_version,
        ),
        ApiOperation(
            "GET",
            f"{one}/referencedby",
            "getReferencedBy",
            "Ids of schemas that refer to a version",
            to.referenced_by,
            NUMBERS,
            (DELETED, *PAGE),
            errors=no_version,
        ),
    ]


def _compatibility(to: SubjectsResource) -> list[ApiOperation]:
    versions = "/compatibility/subjects/{subject}/versions"
    answer, new, checks = reference("Compatibility"), reference("NewSchema"), (NORMALIZE, VERBOSE)
    return [
        ApiOperation(
            "POST",
            versions,
            "checkCompatibility",
            "Whether a schema may be registered",
            to.check,
            answer,
            checks,
            new,
            [42201],
        ),
        ApiOperation(
            "POST",
            f"{versions}/{{version}}",
            "checkCompatibilityWithVersion",
            "Whether a schema may follow a version",
            to.check,
            answer,
            checks,
            new,
            [40401, 40402, 42201, 42202],
        ),
    ]


def _settings(to: SettingsResource) -> list[ApiOperation]:
    config, mode, contexts = (
        reference("Config"),
        reference("Mode"),
        (word("contextPrefix", "Only contexts that begin with it."), *PAGE),
    )
    update, force = reference("ConfigUpdate"), (flag("force", "Also if there are schemas (IMPORT)."),)
    of_subject, not_allowed = "of a subject or context", [42203, 42205, 42208, 42210]
    return [
        ApiOperation(
            "GET", "/config", "getGlobalConfig", "Compatibility level of the registry", to.config, config, (GLOBAL,)
        ),
        ApiOperation("PUT", "/config", "setGlobalConfig", "Change it", to.set_config, update, (), update, not_allowed),
        ApiOperation(
            "DELETE", "/config", "deleteGlobalConfig", "Return to the default", to.delete_config, config, errors=[42205]
        ),
        ApiOperation(
            "GET",
            "/config/{subject}",
            "getConfig",
            f"Compatibility level {of_subject}",
            to.config,
            config,
            (GLOBAL,),
            errors=[40408],
        ),
        ApiOperation(
            "PUT", "/config/{subject}", "setConfig", "Change it", to.set_config, update, (), update, not_allowed
        ),
        ApiOperation(
            "DELETE",
            "/config/{subject}",
            "deleteConfig",
            "Return to that of the registry",
            to.delete_config,
            config,
            errors=[40401, 42205],
        ),
        ApiOperation("GET", "/mode", "getGlobalMode", "Mode of the registry", to.mode, mode, (GLOBAL,)),
        ApiOperation("PUT", "/mode", "setGlobalMode", "Change it", to.set_mode, mode, force, mode, [42204, 42205]),
        ApiOperation(
            "DELETE", "/mode", "deleteGlobalMode", "Return to the default", to.delete_mode, mode, errors=[40401, 42205]
        ),
        ApiOperation(
            "GET", "/mode/{subject}", "getMode", f"Mode {of_subject}", to.mode, mode, (GLOBAL,), errors=[40409]
        ),
        ApiOperation(
            "PUT", "/mode/{subject}", "setMode", "Change it", to.set_mode, mode, force, mode, [42204, 42205, 42208]
        ),
        ApiOperation(
            "DELETE",
            "/mode/{subject}",
            "deleteMode",
            "Return to that of the registry",
            to.delete_mode,
            mode,
            errors=[40401, 42205],
        ),
        ApiOperation("GET", "/contexts", "getContexts", "Contexts", to.contexts, TEXTS, contexts),
        ApiOperation(
            "DELETE",
            "/contexts/{context}",
            "deleteContext",
            "Delete an empty context",
            to.delete_context,
            {},
            errors=[42211, 400],
            status=204,
        ),
    ]


def _server(to: ServerInfo) -> list[ApiOperation]:
    return [
        ApiOperation("GET", "/", "getRoot", "An empty object: the registry answers", to.root, ANY_OBJECT),
        ApiOperation(
            "GET",
            "/v1/metadata/id",
            "getServerId",
            "The clusters of brokers and registries",
            to.id,
            reference("ServerId"),
        ),
        ApiOperation(
            "GET",
            "/v1/metadata/version",
            "getServerVersion",
            "The version of the registry",
            to.version,
            reference("ServerVersion"),
        ),
    ]
