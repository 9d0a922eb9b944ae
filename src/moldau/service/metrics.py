"""Metrics of HTTP services: requests by endpoint and status, and the page in Prometheus' format."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

BUCKETS: Final = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)


class HttpMetrics:
    """The metrics of one service. Its own registry: two services in one process (tests) do not collide."""

    def __init__(self, service: str, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        prefix = f"moldau_{service}_http"
        self._requests = Counter(
            f"{prefix}_requests", "Requests", ["method", "endpoint", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            f"{prefix}_request_seconds", "Time of requests", ["endpoint"], buckets=BUCKETS, registry=self.registry
        )
        self.in_flight = Gauge(f"{prefix}_requests_in_flight", "Requests that run now", registry=self.registry)
        self.refused = Counter(
            f"{prefix}_requests_refused",
            "Requests refused before they reached the service: host, origin, login, size, time",
            ["reason"],
            registry=self.registry,
        )

    def done(self, method: str, endpoint: str, status: int, seconds: float) -> None:
        self._requests.labels(method, endpoint, str(status)).inc()
        self._seconds.labels(endpoint).observe(seconds)

    def page(self) -> tuple[bytes, str]:
        """The metrics page and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST
