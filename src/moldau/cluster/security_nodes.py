"""Security nodes of the metadata tree: one class per kind, with its path and its JSON encoding.

    /security/acls/TYPE:PATTERN:NAME     the rules of one resource pattern, such as `topic:prefixed:orders-`
    /security/users/NAME                 the SCRAM credentials of one user
    /security/tokens/ID                  one delegation token; its secret is derived from the brokers' key, not stored
    /security/quotas/ENTITY              the client quotas of one entity, such as `user=alice,client-id=%3Cdefault%3E`

Names are percent-encoded. A key without a value has no node. Each class is a `SecurityNode`: `tree` reads and writes
all of them in the same way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar

from moldau.cluster.node_encoding import (
    BadNode,
    base64_field,
    decode_fields,
    decode_name,
    encode_base64,
    encode_fields,
    encode_name,
    float_field,
    number_field,
    text_field,
)
from moldau.cluster.nodes import BrokerConfigNode
from moldau.cluster.security_image import UserCredentials
from moldau.security.acls import AclEntry, PatternType, Permission, ResourcePattern
from moldau.security.credentials import DelegationToken, ScramCredential, ScramMechanism
from moldau.security.quota_entities import QuotaEntity
from moldau.security.resources import Operation, Principal, ResourceType

K = TypeVar("K")
V = TypeVar("V")

MECHANISMS: Final = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}


class SecurityNode(ABC, Generic[K, V]):
    """A kind of node: one for each key of a part of the security image."""

    folder: ClassVar[str]
    secret: ClassVar[bool]
    """Whether the value, or the name, must not be read by others than the brokers."""
    part: ClassVar[str]
    """The attribute of `SecurityImage` that the nodes of this kind store."""

    @classmethod
    def path(cls, key: K) -> str:
        return f"{cls.folder}/{cls.name(key)}"

    @classmethod
    def key_of(cls, name: str) -> K:
        """The key of a node; `BadNode` if this program never gives a node that name."""
        try:
            return cls.key(name)
        except (ValueError, KeyError) as error:
            raise BadNode(f"the metadata store: {cls.folder}/{name} has a name that cannot be understood") from error

    @classmethod
    def value_of(cls, name: str, value: bytes) -> V:
        return decode_fields(f"{cls.folder}/{name}", value, lambda fields: cls.value(cls.key_of(name), fields))

    @classmethod
    def encode(cls, value: V) -> bytes:
        return encode_fields(cls.fields(value))

    @staticmethod
    @abstractmethod
    def name(key: K) -> str: ...

    @staticmethod
    @abstractmethod
    def key(name: str) -> K: ...

    @staticmethod
    @abstractmethod
    def fields(value: V) -> Mapping[str, Any]: ...

    @staticmethod
    @abstractmethod
    def value(key: K, fields: Mapping[str, Any]) -> V: ...


class AclNode(SecurityNode[ResourcePattern, tuple[AclEntry, ...]]):
    """The rules of one resource pattern, each as [principal, host, operation, permission]."""

    folder = "/security/acls"
    secret = False
    part = "acls"

    @staticmethod
    def name(key: ResourcePattern) -> str:
        return f"{key.resource_type.name.lower()}:{key.pattern_type.name.lower()}:{encode_name(key.name)}"

    @staticmethod
    def key(name: str) -> ResourcePattern:
        resource_type, pattern_type, resource = name.split(":")
        return ResourcePattern(
            ResourceType[resource_type.upper()], decode_name(resource), PatternType[pattern_type.upper()]
        )

    @staticmethod
    def fields(value: tuple[AclEntry, ...]) -> Mapping[str, Any]:
        return {
            "rules": [
                [entry.principal, entry.host, entry.operation.name.lower(), entry.permission.name.lower()]
                for entry in value
            ]
        }

    @staticmethod
    def value(key: ResourcePattern, fields: Mapping[str, Any]) -> tuple[AclEntry, ...]:
        return tuple(
            AclEntry(
                text_field(principal),
                text_field(host),
                Operation[text_field(operation).upper()],
                Permission[text_field(permission).upper()],
            )
            for principal, host, operation, permission in fields["rules"]
        )


class UserCredentialsNode(SecurityNode[str, UserCredentials]):
    """The SCRAM credentials of one user, by mechanism."""

    folder = "/security/users"
    secret = True
    part = "scram_credentials"

    @staticmethod
    def name(key: str) -> str:
        return encode_name(key)

    @staticmethod
    def key(name: str) -> str:
        return decode_name(name)

    @staticmethod
    def fields(value: UserCredentials) -> Mapping[str, Any]:
        return {
            "credentials": {
                mechanism.sasl_name: {
                    "iterations": credential.iterations,
                    "salt": encode_base64(credential.salt),
                    "stored_key": encode_base64(credential.stored_key),
                    "server_key": encode_base64(credential.server_key),
                }
                for mechanism, credential in value.items()
            }
        }

    @staticmethod
    def value(key: str, fields: Mapping[str, Any]) -> UserCredentials:
        return {
            MECHANISMS[name]: ScramCredential(
                number_field(one["iterations"]),
                base64_field(one["salt"]),
                base64_field(one["stored_key"]),
                base64_field(one["server_key"]),
            )
            for name, one in fields["credentials"].items()
        }


class DelegationTokenNode(SecurityNode[str, DelegationToken]):
    """One delegation token, without its secret."""

    folder = "/security/tokens"
    secret = True
    part = "delegation_tokens"

    @staticmethod
    def name(key: str) -> str:
        return encode_name(key)

    @staticmethod
    def key(name: str) -> str:
        return decode_name(name)

    @staticmethod
    def fields(value: DelegationToken) -> Mapping[str, Any]:
        return {
            "owner": list(value.owner),
            "requester": list(value.requester),
            "renewers": [list(renewer) for renewer in value.renewers],
            "issued_ms": value.issued_ms,
            "expires_ms": value.expires_ms,
            "max_ms": value.max_ms,
        }

    @staticmethod
    def value(key: str, fields: Mapping[str, Any]) -> DelegationToken:
        return DelegationToken(
            key,
            _principal(fields["owner"]),
            _principal(fields["requester"]),
            tuple(map(_principal, fields["renewers"])),
            number_field(fields["issued_ms"]),
            number_field(fields["expires_ms"]),
            number_field(fields["max_ms"]),
        )


class ClientQuotasNode(SecurityNode[QuotaEntity, Mapping[str, float]]):
    """The client quotas of one entity."""

    folder = "/security/quotas"
    secret = False
    part = "client_quotas"

    types: ClassVar = {"user": "user", "client-id": "client_id", "ip": "ip"}
    """Kafka's entity types, and the fields of `QuotaEntity`."""

    @staticmethod
    def name(key: QuotaEntity) -> str:
        named = [(kind, getattr(key, field)) for kind, field in ClientQuotasNode.types.items()]
        return ",".join(f"{kind}={encode_name(name)}" for kind, name in named if name is not None)

    @staticmethod
    def key(name: str) -> QuotaEntity:
        parts = [part.split("=") for part in name.split(",")]
        return QuotaEntity(**{ClientQuotasNode.types[kind]: decode_name(one) for kind, one in parts})

    @staticmethod
    def fields(value: Mapping[str, float]) -> Mapping[str, Any]:
        return {"quotas": dict(sorted(value.items()))}

    @staticmethod
    def value(key: QuotaEntity, fields: Mapping[str, Any]) -> Mapping[str, float]:
        return {text_field(name): float_field(one) for name, one in fields["quotas"].items()}


SECURITY_NODES: Final[tuple[type[SecurityNode[Any, Any]], ...]] = (
    AclNode,
    UserCredentialsNode,
    DelegationTokenNode,
    ClientQuotasNode,
)

SECRET_FOLDERS: Final = (
    *(kind.folder for kind in SECURITY_NODES if kind.secret),
    BrokerConfigNode.folder,  # dynamic settings may be passwords of key stores
)
"""Folders whose nodes only the brokers may read."""


def _principal(value: Any) -> Principal:
    kind, name = value
    return Principal(text_field(kind), text_field(name))
