"""Interface of a registry: every operation that the REST API needs.

Reads answer from memory and never wait; `await registry.fresh()` before a read makes sure that it sees every write that
was acknowledged before, on whatever node. Writes return when they are stored and visible on this node.

Every operation raises `RegistryRefusal` (status, code, message). A write raises `NotLeader` with the leader's URL: the
REST API forwards the request there, and calls `fresh` before it passes the answer on.

Subjects may be qualified by a context: `:.context:subject`. The empty subject "" stands for the default context, and
`:.context:` for all subjects of a context; None is the whole registry (`/config`, `/mode`). A version is a number, or
"latest" or "-1". A deleted version or subject is one that was deleted softly, without `permanent`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from moldau.schemas.schema import RegisteredSchema, Schema, SchemaReference

__all__ = ["ListedSchema", "NewSchema", "RegisteredSchema", "Registry", "SubjectVersion"]


@dataclass(frozen=True)
class SubjectVersion:
    """A version of a subject."""

    subject: str
    version: int


@dataclass(frozen=True)
class ListedSchema:
    """A registered schema with what lists show beside it."""

    registered: RegisteredSchema
    guid: str
    """The identity of the schema's content, as a UUID: equal in all registries and contexts."""
    deleted: bool = False
    aliases: tuple[str, ...] = ()
    """Subjects whose alias is the schema's subject; only where they are asked for."""


@dataclass(frozen=True)
class NewSchema:
    """The body of a request with a schema. An empty `text` with metadata or rules changes only these."""

    text: str = ""
    type: str = "AVRO"
    """As it was sent: another one than AVRO, JSON and PROTOBUF is refused."""
    references: tuple[SchemaReference, ...] = ()
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None
    id: int | None = None
    """The id to register under. Allowed in mode IMPORT only; None or -1: the registry chooses."""
    version: int | None = None
    """The version to register as; None or 0: the next one; -1: the next one, which its metadata names
    (`confluent:version`)."""

    @classmethod
    def of(cls, schema: Schema) -> NewSchema:
        return cls(schema.text, schema.type.value, schema.references, schema.metadata, schema.rule_set)


class Registry(Protocol):
    """A registry. Used from one event loop."""

    # -- state of the process ------------------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether this process carries out writes."""
        ...

    @property
    def leader_url(self) -> str | None:
        """Where the leader listens, without a slash at the end; None if there is no leader now."""
        ...

    @property
    def problem(self) -> str | None:
        """What keeps this process from serving (it has not read the topic yet, the topic is gone), or None."""
        ...

    async def fresh(self) -> None:
        """Return when reads on this node see every write that was acknowledged before this call, on any node.

        At the leader it costs nothing; concurrent calls of other nodes share one request to the broker. If the brokers
        do not answer, it returns after a bounded time, and reads see what this node knows. Reads of what never changes
        (a schema by its id, if it is found) need no call.
        """
        ...

    # -- reads: schemas ------------------------------------------------------------------------------------------------

    def schema_types(self) -> list[str]:
        """AVRO, JSON, PROTOBUF (`GET /schemas/types`)."""
        ...

    def by_id(self, schema_id: int, subject: str | None = None) -> ListedSchema:
        """The schema of an id. A subject that has the schema, or names a context, says in which context to look.

        Subject and version are those of one registration of it. Refusal 40403.
        """
        ...

    def by_guid(self, guid: str) -> ListedSchema: ...

    def ids_of_guid(self, guid: str) -> list[tuple[str, int]]:
        """Contexts and ids under which the content is registered."""
        ...

    def max_id(self, subject: str | None = None) -> int:
        """The largest id that was given in the context of the subject (`fetchMaxId`)."""
        ...

    def subjects_of_id(self, schema_id: int, subject: str | None = None, *, deleted: bool = False) -> list[str]:
        """Subjects that have the schema. Refusal 40403."""
        ...

    def versions_of_id(
        self, schema_id: int, subject: str | None = None, *, deleted: bool = False
    ) -> list[SubjectVersion]: ...

    def schemas(
        self,
        prefix: str | None = None,
        *,
        deleted: bool = False,
        latest_only: bool = False,
        aliases: bool = False,
        rule_type: str | None = None,
    ) -> Sequence[ListedSchema]:
        """All versions of subjects that begin with the prefix, by subject and version (`GET /schemas`).

        `prefix` None or `:*:`: all contexts; "": the default context; `:.context:` that context.
        """
        ...

    # -- reads: subjects -----------------------------------------------------------------------------------------------

    def subjects(
        self, prefix: str | None = None, *, deleted: bool = False, deleted_only: bool = False
    ) -> list[str]: ...

    def versions(self, subject: str, *, deleted: bool = False, deleted_only: bool = False) -> list[int]:
        """Refusal 40401."""
        ...

    def version(self, subject: str, version: int | str, *, deleted: bool = False) -> ListedSchema:
        """Refusals 40401, 40402, 42202."""
        ...

    def latest_with_metadata(
        self, subject: str, properties: Mapping[str, str], *, deleted: bool = False
    ) -> ListedSchema:
        """The newest version whose metadata has these properties. Refusals 40401, 40403."""
        ...

    def lookup(
        self, subject: str, schema: NewSchema, *, normalize: bool = False, deleted: bool = False
    ) -> ListedSchema:
        """The version of the subject with this schema (`POST /subjects/SUBJECT`). Refusals 40401, 40403, 42201."""
        ...

    def referenced_by(self, subject: str, version: int | str, *, deleted: bool = False) -> list[int]:
        """Ids of schemas that refer to this version. Refusals 40401, 40402, 42202."""
        ...

    def check(
        self, subject: str, schema: NewSchema, version: int | str | None = None, *, normalize: bool = False
    ) -> list[str]:
        """Why the schema may not be registered after this version (None: after those that the level names).

        Empty: it is compatible. Refusals 40402 (the version does not exist), 42201, 42202.
        """
        ...

    def resolved(self, schema: Schema, subject: str = "") -> dict[str, str]:
        """The texts of all references, also indirect ones, by name, dependencies first (see `schemas.parse`).

        References are looked up in the context of `subject`. Refusal 42201.
        """
        ...

    def contexts(self) -> list[str]:
        """Names of contexts, with "." for the default one."""
        ...

    # -- reads: configs and modes --------------------------------------------------------------------------------------

    def config(self, subject: str | None = None, *, default_to_global: bool = False) -> dict[str, Any]:
        """The config as the REST API shows it: `compatibilityLevel`, and further fields that are set. Refusal 40408."""
        ...

    def mode(self, subject: str | None = None, *, default_to_global: bool = False) -> str:
        """READWRITE, READONLY, READONLY_OVERRIDE, IMPORT or FORWARD. Refusal 40409."""
        ...

    # -- writes --------------------------------------------------------------------------------------------------------

    async def register(
        self, subject: str, schema: NewSchema, *, normalize: bool = False, force: bool = False
    ) -> ListedSchema:
        """Register a schema, or find it registered. `force`: without the check of compatibility.

        Refusals 409, 42201, 42205, 42208, 42209, 42210.
        """
        ...

    async def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int: ...

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]: ...

    async def set_config(self, subject: str | None, update: Mapping[str, Any]) -> dict[str, Any]:
        """Change fields of a config, named as in the REST API (`compatibility`, `normalize`, `alias`,
        `compatibilityGroup`, `defaultMetadata` …); a field of None is removed. Returns the whole config, with its
        level as `compatibility`.

        Refusal 42203.
        """
        ...

    async def delete_config(self, subject: str | None) -> dict[str, Any]:
        """Returns the config that was deleted. Refusal 40401 if the subject has none."""
        ...

    async def set_mode(self, subject: str | None, mode: str, *, force: bool = False) -> str:
        """Refusals 42204, 42205 (IMPORT with schemas and without `force`)."""
        ...

    async def delete_mode(self, subject: str | None, *, recursive: bool = False) -> str | None:
        """Returns the mode that was deleted. With `recursive`, modes of all subjects of a context too.

        Refusal 40401 if there is none, unless `recursive`.
        """
        ...

    async def delete_context(self, context: str) -> None:
        """Refusal 42211 if subjects are in it."""
        ...
