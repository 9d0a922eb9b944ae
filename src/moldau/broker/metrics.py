"""Metrics of the broker, and the Prometheus page that shows them.

The hot path counts in plain integers. prometheus-client reads them only when the page is requested.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.net.http_page import serve_page
from moldau.wire.api import APIS, ApiKey

if TYPE_CHECKING:
    from moldau.broker.connection.connection_limits import Connections
    from moldau.broker.connection.reply_memory import ReplyMemory
    from moldau.broker.log_cleaner import LogCleaner
    from moldau.broker.quotas.client_quotas import ClientQuotas
    from moldau.broker.requests.delayed_requests import DelayedFetches
    from moldau.broker.requests.fetch_sessions import FetchSessions
    from moldau.host.threads import Threads
    from moldau.net.framing import FrameMemory
    from moldau.replication.manager import ReplicaManager

LATENCY_BUCKETS = 25
"""One bucket per power of two, in microseconds: 1 µs to 16 s, and one for everything longer."""


class ApiMetrics:
    """One API's counters."""

    __slots__ = ("api", "buckets", "reply_bytes", "request_bytes", "requests", "seconds")

    def __init__(self, api: ApiKey) -> None:
        self.api = api
        self.requests = 0
        self.request_bytes = 0
        self.reply_bytes = 0
        self.seconds = 0.0
        self.buckets = [0] * LATENCY_BUCKETS

    def done(self, seconds: float) -> None:
        """Count a request that was answered `seconds` after its last byte was received."""
        self.requests += 1
        self.seconds += seconds
        bucket = int(seconds * 1e6).bit_length()
        self.buckets[bucket if bucket < LATENCY_BUCKETS else LATENCY_BUCKETS - 1] += 1


class BrokerMetrics:
    """Counters of the whole broker: limits that were reached, failures, and the data that went through."""

    __slots__ = (
        "accept_pauses",
        "apis",
        "authorization_denied",
        "bytes_in",
        "bytes_out",
        "cold_reads",
        "connections_accepted",
        "connections_idle_closed",
        "connections_refused",
        "failed_authentications",
        "handler_failures",
        "inflight_limit_hits",
        "malformed_requests",
        "messages_in",
        "sessions_expired",
        "unsupported_versions",
    )

    def __init__(self) -> None:
        self.apis = {api: ApiMetrics(api) for api in APIS}
        self.authorization_denied = 0
        self.accept_pauses = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.cold_reads = 0
        self.connections_accepted = 0
        self.connections_idle_closed = 0
        self.connections_refused = 0
        self.failed_authentications = 0
        self.handler_failures = 0
        self.inflight_limit_hits = 0
        self.malformed_requests = 0
        self.sessions_expired = 0
        self.unsupported_versions = 0


_COUNTERS = {
    "accept_pauses": "Times a listener accepted nothing for a while because of max.connection.creation.rate",
    "authorization_denied": "Operations that the authorizer denied",
    "bytes_in": "Record bytes appended",
    "bytes_out": "Record bytes sent to readers",
    "messages_in": "Records appended",
    "cold_reads": "Reads that were not in the page cache and needed a thread",
    "connections_accepted": "Connections accepted",
    "connections_refused": "Connections refused by max.connections or max.connections.per.ip",
    "connections_idle_closed": "Connections closed by connections.max.idle.ms",
    "failed_authentications": "Logins and TLS handshakes that failed",
    "sessions_expired": "Connections closed because their login had ended",
    "handler_failures": "Requests and background tasks that failed because of a bug in the broker",
    "inflight_limit_hits": "Times a connection reached moldau.max.inflight.requests.per.connection",
    "malformed_requests": "Connections closed for bytes that are not a request",
    "unsupported_versions": "Requests of an API or version that is not served",
}

_CLEANER_COUNTERS = {
    "cleanings": "Logs compacted",
    "failures": "Compactions that failed",
    "segments_replaced": "Compacted segments that replaced others",
    "bytes_read": "Bytes read by compaction",
    "bytes_written": "Bytes written by compaction",
}


class MetricsSources(NamedTuple):
    """The parts of the broker that the metrics page reads."""

    counters: BrokerMetrics
    connections: Connections
    frame_memory: FrameMemory
    reply_memory: ReplyMemory
    delayed_fetches: DelayedFetches
    fetch_sessions: FetchSessions
    replicas: ReplicaManager
    cleaner: LogCleaner
    threads: Threads
    quotas: ClientQuotas


class Collector:
    """Converts the counters into prometheus-client's metric families when the page is requested."""

    def __init__(self, sources: MetricsSources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        sources = self._sources
        metrics = sources.counters
        requests = CounterMetricFamily("moldau_requests", "Requests answered", labels=["api"])
        received = CounterMetricFamily("moldau_request_bytes", "Bytes of requests", labels=["api"])
        sent = CounterMetricFamily("moldau_reply_bytes", "Bytes of replies", labels=["api"])
        latency = HistogramMetricFamily(
            "moldau_request_seconds", "From a request's last byte to its reply", labels=["api"]
        )
        for api, counts in metrics.apis.items():
            if not counts.request_bytes:
                continue
            name = [_api_name(api)]
            requests.add_metric(name, counts.requests)
            received.add_metric(name, counts.request_bytes)
            sent.add_metric(name, counts.reply_bytes)
            total = 0
            buckets = []
            for power, count in enumerate(counts.buckets[:-1]):
                total += count
                buckets.append((str(2**power / 1e6), total))
            buckets.append(("+Inf", total + counts.buckets[-1]))
            latency.add_metric(name, buckets, counts.seconds)
        yield from (requests, received, sent, latency)
        for field, text in _COUNTERS.items():
            yield CounterMetricFamily(f"moldau_{field}", text, value=getattr(metrics, field))
        in_sync = sources.replicas.in_sync
        yield CounterMetricFamily(
            "moldau_isr_shrinks", "Replicas that left the ISR of a partition led here", value=in_sync.shrinks
        )
        yield CounterMetricFamily(
            "moldau_isr_expansions", "Replicas that joined the ISR of a partition led here", value=in_sync.expansions
        )
        yield from self._throttles()
        evicted = "Fetch sessions evicted for others (max.incremental.fetch.session.cache.slots)"
        yield CounterMetricFamily("moldau_fetch_sessions_evicted", evicted, value=sources.fetch_sessions.evicted)
        for field, (text, value) in self._gauges().items():
            yield GaugeMetricFamily(f"moldau_{field}", text, value=value)

        for field, text in _CLEANER_COUNTERS.items():
            yield CounterMetricFamily(f"moldau_cleaner_{field}", text, value=getattr(sources.cleaner.counts, field))

    def _throttles(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily

        requests = CounterMetricFamily("moldau_throttled_requests", "Requests above a client quota", labels=["quota"])
        seconds = CounterMetricFamily("moldau_throttle_seconds", "Time that clients were throttled", labels=["quota"])
        for quota, counted in self._sources.quotas.throttled.items():
            requests.add_metric([quota], counted.requests)
            seconds.add_metric([quota], counted.seconds)
        yield from (requests, seconds)

    def _gauges(self) -> dict[str, tuple[str, float]]:
        sources = self._sources
        return {
            "connections": ("Open connections", len(sources.connections)),
            "connections_throttled": ("Connections that are throttled by a quota now", sources.quotas.muted),
            "quota_clients": ("Clients whose use of a quota is measured", len(sources.quotas)),
            "request_memory_bytes": ("Bytes of requests being received or waiting", sources.frame_memory.in_use),
            "request_memory_limit_bytes": ("queued.max.request.bytes", sources.frame_memory.limit),
            "request_memory_refusals": ("Times a connection waited for request memory", sources.frame_memory.refused),
            "reply_memory_bytes": ("Bytes of responses that were not sent yet", sources.reply_memory.in_use),
            "reply_memory_limit_bytes": ("moldau.queued.max.response.bytes", sources.reply_memory.limit),
            "reply_memory_waits": ("Times a fetch waited until unsent responses were sent", sources.reply_memory.waits),
            "fetches_waiting": ("Fetch requests waiting for data", sources.delayed_fetches.waiting),
            "fetch_sessions": ("Fetch sessions", len(sources.fetch_sessions)),
            "partitions": ("Partitions hosted", len(sources.replicas)),
            "partitions_led": ("Partitions that this broker leads", sum(one.leads for one in sources.replicas)),
            "partitions_under_replicated": (
                "Partitions led here whose replicas are not all in sync",
                sum(one.lacks_replicas for one in sources.replicas),
            ),
            "partitions_under_min_isr": (
                "Partitions led here with fewer in-sync replicas than min.insync.replicas",
                sum(one.leads and one.under_min_isr for one in sources.replicas),
            ),
            "leaders_copied_from": (
                "Leaders that this broker fetches from as a follower",
                sources.replicas.fetcher_count,
            ),
            "partitions_offline": ("Partitions whose directory has failed", sources.replicas.offline_count),
            "thread_jobs_waiting": ("Jobs waiting for a thread", sources.threads.waiting),
        }


def _api_name(api: ApiKey) -> str:
    return APIS[api].name


async def serve_metrics(sources: MetricsSources, host: str, port: int) -> asyncio.Server:
    """Serve the page for Prometheus, at every path."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(Collector(sources))
    return await serve_page(host, port, "text/plain; version=0.0.4; charset=utf-8", lambda: generate_latest(registry))
