"""Refusals of the registry: an HTTP status, the code of Confluent's API, and a message.

Codes and statuses are those of Confluent's registry: its clients decide by them.
"""

from __future__ import annotations


class RegistryRefusal(Exception):
    """A request that the registry does not carry out, with what its answer says."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class NotLeader(Exception):
    """A write that only the leader may carry out. `url` is where it listens; None if there is no leader now."""

    def __init__(self, url: str | None) -> None:
        super().__init__(f"the leader is {url}" if url else "the registries have no leader at this moment")
        self.url = url


def subject_not_found(subject: str) -> RegistryRefusal:
    return RegistryRefusal(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryRefusal:
    return RegistryRefusal(404, 40402, f"Version {version} not found.")


def schema_not_found(schema_id: int | str | None = None) -> RegistryRefusal:
    return RegistryRefusal(404, 40403, "Schema not found" if schema_id is None else f"Schema {schema_id} not found")


def subject_soft_deleted(subject: str) -> RegistryRefusal:
    return RegistryRefusal(
        404, 40404, f"Subject '{subject}' is deleted already. Use permanent=true to remove it from the registry."
    )


def subject_not_soft_deleted(subject: str) -> RegistryRefusal:
    return RegistryRefusal(404, 40405, f"Subject '{subject}' must be deleted without permanent=true first.")


def version_soft_deleted(subject: str, version: int) -> RegistryRefusal:
    return RegistryRefusal(
        404,
        40406,
        f"Version {version} of subject '{subject}' is deleted already. Use permanent=true to remove it from the "
        "registry.",
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryRefusal:
    return RegistryRefusal(
        404, 40407, f"Version {version} of subject '{subject}' must be deleted without permanent=true first."
    )


def config_not_found(subject: str) -> RegistryRefusal:
    return RegistryRefusal(404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def mode_not_found(subject: str) -> RegistryRefusal:
    return RegistryRefusal(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(messages: str) -> RegistryRefusal:
    return RegistryRefusal(409, 409, messages)


def invalid_schema(message: str) -> RegistryRefusal:
    return RegistryRefusal(422, 42201, message)


def invalid_version(version: object) -> RegistryRefusal:
    return RegistryRefusal(
        422,
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] and the "
        'string "latest"',
    )


def invalid_level(level: object) -> RegistryRefusal:
    return RegistryRefusal(
        422,
        42203,
        f"Invalid compatibility level {level!r}. Valid values are none, backward, forward, full, backward_transitive, "
        "forward_transitive, and full_transitive",
    )


def invalid_mode(mode: object) -> RegistryRefusal:
    return RegistryRefusal(
        422,
        42204,
        f"Invalid mode {mode!r}. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, IMPORT and FORWARD",
    )


def not_permitted(message: str) -> RegistryRefusal:
    return RegistryRefusal(422, 42205, message)


def reference_exists(subject: str, version: int) -> RegistryRefusal:
    return RegistryRefusal(
        422, 42206, f"One or more references exist to the schema with subject '{subject}', version {version}"
    )


def id_does_not_match(schema_id: int) -> RegistryRefusal:
    return RegistryRefusal(422, 42207, f"Schema id {schema_id} is in use for another schema.")


def invalid_subject(subject: str) -> RegistryRefusal:
    return RegistryRefusal(422, 42208, f"The specified subject '{subject}' is not a valid subject.")


def schema_too_large(size: int, limit: int) -> RegistryRefusal:
    return RegistryRefusal(422, 42209, f"The schema has {size} bytes in the topic, more than the limit of {limit}.")


def invalid_rule_set(message: str) -> RegistryRefusal:
    return RegistryRefusal(422, 42210, message)


def context_not_empty(context: str) -> RegistryRefusal:
    return RegistryRefusal(422, 42211, f"The context '{context}' is not empty.")


def store_failed(message: str) -> RegistryRefusal:
    return RegistryRefusal(500, 50001, message)


def store_timed_out(message: str) -> RegistryRefusal:
    return RegistryRefusal(500, 50002, message)


def forwarding_failed(message: str) -> RegistryRefusal:
    return RegistryRefusal(500, 50003, message)


def no_leader() -> RegistryRefusal:
    return RegistryRefusal(500, 50004, "The registries have no leader at this moment; try again.")
