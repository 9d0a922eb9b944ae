"""Errors of the REST API: Confluent's codes for what the brokers and the clients report.

A body is `{"error_code": 40403, "message": "…"}`. The code begins with the HTTP status; 50003 (try again) is the
exception: it is sent with status 503.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moldau.client.admin.outcome import SomeFailed
from moldau.client.errors import (
    ArgumentError,
    AuthenticationError,
    BrokerError,
    ConfigurationError,
    ErrorCode,
    IllegalStateError,
    MoldauError,
    SerializationError,
)
from moldau.service.errors import HttpError

AUTHENTICATE: Final = {"WWW-Authenticate": 'Basic realm="moldau"'}
RETRY_AFTER: Final = {"Retry-After": "1"}

BAD_REQUEST, KAFKA_REFUSED = 400, 40002
LOGIN_FAILED, DENIED = 40101, 40301
UNPROCESSABLE = 422
V2_NO_TOPIC, V2_NO_PARTITION, NO_CONSUMER = 40401, 40402, 40403
V3_NO_TOPIC = 40403
CONSUMER_EXISTS, ILLEGAL_STATE, CONSUMER_FORMAT = 40902, 40903, 40601
KEY_SCHEMA_MISSING, VALUE_SCHEMA_MISSING, CONVERSION, BAD_CONSUMER_CONFIG, BAD_SCHEMA = (
    42201,
    42202,
    42203,
    42204,
    42205,
)
SCHEMA_ERROR: Final = 40801
KAFKA_ERROR, TRY_AGAIN = 50002, 50003

DENIED_CODES: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
MISSING_CODES: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
MISSING_GROUP: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.RESOURCE_NOT_FOUND})
REFUSED_CODES: Final = frozenset(
    {
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.SECURITY_DISABLED,
        ErrorCode.TOPIC_DELETION_DISABLED,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.INVALID_PRINCIPAL_TYPE,
    }
)


class ProxyError(HttpError):
    """An error that is answered with this status, Confluent's code and the message."""

    def __init__(self, status: int, code: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, message, headers)
        self.code = code

    @property
    def body(self) -> dict[str, Any]:
        return {"error_code": self.code, "message": self.message}


def bad_request(message: str) -> ProxyError:
    return ProxyError(400, BAD_REQUEST, message)


def unprocessable(message: str, code: int = UNPROCESSABLE) -> ProxyError:
    return ProxyError(422, code, message)


def not_found(message: str, code: int = 404) -> ProxyError:
    return ProxyError(404, code, message)


def login_needed() -> ProxyError:
    return ProxyError(401, LOGIN_FAILED, "User and password are needed (HTTP Basic).", AUTHENTICATE)


def rest_error(error: MoldauError, *, v2: bool = False) -> ProxyError:
    """The answer to a request that failed with an error of a client. Messages of clients have no secrets."""
    if isinstance(error, SomeFailed) and error.errors:
        return rest_error(next(iter(error.errors.values())), v2=v2)
    if isinstance(error, AuthenticationError):
        return ProxyError(401, LOGIN_FAILED, "The brokers refused the login.", AUTHENTICATE)
    if isinstance(error, BrokerError):
        return _of_broker(error, v2)
    if isinstance(error, SerializationError):
        return unprocessable(str(error))
    if isinstance(error, ArgumentError | ConfigurationError):
        return unprocessable(str(error)) if v2 else bad_request(str(error))
    if isinstance(error, IllegalStateError):
        return ProxyError(409, ILLEGAL_STATE, str(error))
    if error.retriable:
        return ProxyError(503, TRY_AGAIN, str(error), RETRY_AFTER)
    return ProxyError(500, KAFKA_ERROR, str(error))


def _of_broker(error: BrokerError, v2: bool) -> ProxyError:
    message = str(error)
    if error.code in DENIED_CODES:
        return ProxyError(403, DENIED, message)
    if error.code in MISSING_CODES:
        return not_found(message, V2_NO_TOPIC if v2 else V3_NO_TOPIC)
    if error.code in MISSING_GROUP:
        return not_found(message)
    if error.code is ErrorCode.MESSAGE_TOO_LARGE or error.code is ErrorCode.RECORD_LIST_TOO_LARGE:
        return ProxyError(413, 413, message)
    if error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
        return ProxyError(429, 429, message, RETRY_AFTER)
    if error.code in REFUSED_CODES:
        return ProxyError(400, KAFKA_REFUSED, message)
    if error.retriable:
        return ProxyError(503, TRY_AGAIN, message, RETRY_AFTER)
    return ProxyError(500, KAFKA_ERROR, message)
