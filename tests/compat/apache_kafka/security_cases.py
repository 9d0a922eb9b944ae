"""Requests about rules, users and quotas, as one line each, and what of their answers is compared.

Answers are compared without texts of errors, and without the order of lists that Kafka takes from a hash table.
"""

from __future__ import annotations

from typing import Any

from moldau.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntity,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasRequestOp,
)
from moldau.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestDeletion,
    AlterUserScramCredentialsRequestUpsertion,
)
from moldau.wire.messages.create_acls import CreateAclsRequest, CreateAclsRequestCreation
from moldau.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestFilter
from moldau.wire.messages.describe_acls import DescribeAclsRequest
from moldau.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponent,
)
from moldau.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequestUser,
)
from tests.compat.wire import ask
from tests.support.raw import ConnectionClosedError, RawConnection

CLOSED = "the connection was closed"

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, CLUSTER = 2, 3, 4
READ, WRITE, ALTER, ALLOW, DENY = 3, 4, 7, 3, 2

Rule = tuple[int, str, int, str, str, int, int]
Wanted = tuple[int, str | None, int, str | None, str | None, int, int]
EVERYTHING: Wanted = (ANY, None, ANY, None, None, ANY, ANY)


class SecurityAdmin:
    """A connection that asks, and returns what is compared. It connects again when the server has closed it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.raw = RawConnection(bootstrap)

    def ask(self, request: Any, version: int | None = None) -> Any:
        try:
            return ask(self.raw, request, version)
        except ConnectionClosedError:
            self.raw.close()
            self.raw = RawConnection(self.bootstrap)
            return None

    def close(self) -> None:
        self.raw.close()

    # -- rules -----------------------------------------------------------------------------------------------------

    def create(self, *rules: Rule, version: int | None = None) -> Any:
        creations = [
            CreateAclsRequestCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=pattern,
                principal=principal,
                host=host,
                operation=operation,
                permission_type=permission,
            )
            for kind, name, pattern, principal, host, operation, permission in rules
        ]
        answer = self.ask(CreateAclsRequest(creations=creations), version)
        return CLOSED if answer is None else [result.error_code for result in answer.results]

    def describe(self, wanted: Wanted = EVERYTHING, version: int | None = None) -> Any:
        kind, name, pattern, principal, host, operation, permission = wanted
        request = DescribeAclsRequest(
            resource_type_filter=kind,
            resource_name_filter=name,
            pattern_type_filter=pattern,
            principal_filter=principal,
            host_filter=host,
            operation=operation,
            permission_type=permission,
        )
        answer = self.ask(request, version)
        if answer is None:
            return CLOSED
        rules = [
            (
                *(at.resource_type, at.resource_name, at.pattern_type),
                *(acl.principal, acl.host, acl.operation, acl.permission_type),
            )
            for at in answer.resources
            for acl in at.acls
        ]
        return answer.error_code, sorted(rules)

    def delete(self, *filters: Wanted, version: int | None = None) -> Any:
        wanted = [
            DeleteAclsRequestFilter(
                resource_type_filter=kind,
                resource_name_filter=name,
                pattern_type_filter=pattern,
                principal_filter=principal,
                host_filter=host,
                operation=operation,
                permission_type=permission,
            )
            for kind, name, pattern, principal, host, operation, permission in filters
        ]
        answer = self.ask(DeleteAclsRequest(filters=wanted), version)
        if answer is None:
            return CLOSED
        return [
            (
                one.error_code,
                sorted((acl.error_code, acl.resource_name, acl.principal, acl.operation) for acl in one.matching_acls),
            )
            for one in answer.filter_results
        ]

    # -- users -----------------------------------------------------------------------------------------------------

    def upsert(self, *users: tuple[str, int, int], delete: tuple[tuple[str, int], ...] = ()) -> Any:
        request = AlterUserScramCredentialsRequest(
            deletions=[
                AlterUserScramCredentialsRequestDeletion(name=name, mechanism=mechanism) for name, mechanism in delete
            ],
            upsertions=[
                AlterUserScramCredentialsRequestUpsertion(
                    name=name,
                    mechanism=mechanism,
                    iterations=iterations,
                    salt=b"salt",
                    salted_password=b"salted password",
                )
                for name, mechanism, iterations in users
            ],
        )
        return sorted((result.user, result.error_code) for result in self.ask(request).results)

    def users(self, *names: str, everyone: bool = False) -> Any:
        named = None if everyone else [DescribeUserScramCredentialsRequestUser(name=name) for name in names]
        answer = self.ask(DescribeUserScramCredentialsRequest(users=named))
        results = [
            (one.user, one.error_code, sorted((info.mechanism, info.iterations) for info in one.credential_infos))
            for one in answer.results
        ]
        return answer.error_code, sorted(results)

    # -- quotas ----------------------------------------------------------------------------------------------------

    def alter_quotas(
        self,
        *entries: tuple[dict[str, str | None], dict[str, float | None]],
        validate_only: bool = False,
        version: int | None = None,
    ) -> Any:
        request = AlterClientQuotasRequest(
            validate_only=validate_only,
            entries=[
                AlterClientQuotasRequestEntry(
                    entity=[
                        AlterClientQuotasRequestEntity(entity_type=kind, entity_name=name)
                        for kind, name in entity.items()
                    ],
                    ops=[
                        AlterClientQuotasRequestOp(key=key, value=value or 0.0, remove=value is None)
                        for key, value in operations.items()
                    ],
                )
                for entity, operations in entries
            ],
        )
        answer = self.ask(request, version)
        return sorted((_entity(entry.entity), entry.error_code) for entry in answer.entries)

    def quotas(self, *components: tuple[str, int, str | None], strict: bool = False, version: int | None = None) -> Any:
        request = DescribeClientQuotasRequest(
            strict=strict,
            components=[
                DescribeClientQuotasRequestComponent(entity_type=kind, match_type=match_type, match=match)
                for kind, match_type, match in components
            ],
        )
        answer = self.ask(request, version)
        entries = answer.entries
        return answer.error_code, entries and sorted(
            (_entity(entry.entity), sorted((one.key, one.value) for one in entry.values)) for entry in entries
        )


def _entity(parts: Any) -> list[tuple[str, str]]:
    """Nothing is less than nothing: a default is written out, to be sorted."""
    return sorted((part.entity_type, "the default" if part.entity_name is None else part.entity_name) for part in parts)
