"""Errors of the herder, each with the HTTP status that Kafka Connect answers for it."""

from __future__ import annotations

from moldau.client.errors import MoldauError


class HerderError(MoldauError):
    """A request that failed; the message is what the REST API shows."""

    status: int = 500


class BadRequestError(HerderError):
    """A request that makes no sense, or that the connector's state does not allow."""

    status = 400


class BadConfigError(BadRequestError):
    """A connector configuration with mistakes; the message lists them."""


class NotFoundError(HerderError):
    """No such connector, task or logger."""

    status = 404


class AlreadyExistsError(HerderError):
    """A connector of this name exists already."""

    status = 409


class RebalancingError(HerderError):
    """A request that has to wait for the end of a rebalance: the client asks again."""

    status = 409
    retriable = True


class RequestTimedOutError(HerderError):
    """A request that was not completed in time; it may still take effect."""

    status = 500
    retriable = True


class OtherWorkerError(HerderError):
    """A request that another worker has to answer: the REST server forwards it to `url`."""

    status = 409

    def __init__(self, message: str, url: str | None) -> None:
        super().__init__(message)
        self.url = url
        """The address of the other worker without a slash at its end; None: it is not known at the moment."""


class NotLeaderError(OtherWorkerError):
    """A request that only the leader of the workers may answer, such as a new configuration."""


class NotAssignedError(OtherWorkerError):
    """A request for a connector or task that another worker runs."""
