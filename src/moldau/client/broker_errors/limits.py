"""Errors of brokers about permissions, limits, and what fits nowhere else: what each means, and what to do."""

from __future__ import annotations

from moldau.client.broker_errors.base import BrokerError
from moldau.wire.errors import ErrorCode as Code

__all__ = [
    "ClusterAuthorizationFailed",
    "GroupAuthorizationFailed",
    "RequestTimedOut",
    "ThrottlingQuotaExceeded",
    "TopicAuthorizationFailed",
    "TransactionalIdAuthorizationFailed",
    "UnknownServerError",
    "UnsupportedVersion",
]


class TopicAuthorizationFailed(
    BrokerError, code=Code.TOPIC_AUTHORIZATION_FAILED, says="not allowed for this topic; ask for the permission"
): ...


class GroupAuthorizationFailed(
    BrokerError, code=Code.GROUP_AUTHORIZATION_FAILED, says="not allowed for this group; ask for the permission"
): ...


class ClusterAuthorizationFailed(
    BrokerError, code=Code.CLUSTER_AUTHORIZATION_FAILED, says="not allowed on this cluster; ask for the permission"
): ...


class TransactionalIdAuthorizationFailed(
    BrokerError,
    code=Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    says="not allowed for this transactional.id; ask for the permission",
): ...


class ThrottlingQuotaExceeded(
    BrokerError, code=Code.THROTTLING_QUOTA_EXCEEDED, says="a quota is used up; try again later"
): ...


class RequestTimedOut(
    BrokerError, code=Code.REQUEST_TIMED_OUT, says="the broker could not do it in time; try again"
): ...


class UnsupportedVersion(
    BrokerError, code=Code.UNSUPPORTED_VERSION, says="the broker is too old, or too new, for this request"
): ...


class UnknownServerError(
    BrokerError, code=Code.UNKNOWN_SERVER_ERROR, says="the broker failed and did not say why; its log will"
): ...
