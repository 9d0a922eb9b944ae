"""Broker errors about permissions, limits, versions and failures of the broker."""

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
    BrokerError, code=Code.TOPIC_AUTHORIZATION_FAILED, says="no permission for this topic; ask for an ACL"
): ...


class GroupAuthorizationFailed(
    BrokerError, code=Code.GROUP_AUTHORIZATION_FAILED, says="no permission for this group; ask for an ACL"
): ...


class ClusterAuthorizationFailed(
    BrokerError, code=Code.CLUSTER_AUTHORIZATION_FAILED, says="no permission on this cluster; ask for an ACL"
): ...


class TransactionalIdAuthorizationFailed(
    BrokerError,
    code=Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    says="no permission for this transactional.id; ask for an ACL",
): ...


class ThrottlingQuotaExceeded(
    BrokerError, code=Code.THROTTLING_QUOTA_EXCEEDED, says="a quota is exceeded; try again later"
): ...


class RequestTimedOut(
    BrokerError, code=Code.REQUEST_TIMED_OUT, says="the broker could not complete the request in time; try again"
): ...


class UnsupportedVersion(
    BrokerError, code=Code.UNSUPPORTED_VERSION, says="the broker does not support this version of the request"
): ...


class UnknownServerError(
    BrokerError, code=Code.UNKNOWN_SERVER_ERROR, says="the broker failed unexpectedly; look at its log"
): ...
