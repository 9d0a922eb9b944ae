"""What the broker counts. Plain integers on the hot path; prometheus-client sees them only when somebody scrapes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moldau.net.page import serve_page
from moldau.wire.api import APIS, ApiKey

if TYPE_CHECKING:
    from moldau.broker.broker import Broker

LATENCY_BUCKETS = 25
"""Powers of two of a microsecond: 1 µs to 16 s and beyond."""


class ApiMetrics:
    """One API's counters."""

    __slots__ = ("buckets", "reply_bytes", "request_bytes", "requests", "seconds")

    def __init__(self) -> None:
        self.requests = 0
        self.request_bytes = 0
        self.reply_bytes = 0
        self.seconds = 0.0
        self.buckets = [0] * LATENCY_BUCKETS

    def done(self, seconds: float) -> None:
        """A request was answered `seconds` after its last byte came in."""
        self.requests += 1
        self.seconds += seconds
        bucket = int(seconds * 1e6).bit_length()
        self.buckets[bucket if bucket < LATENCY_BUCKETS else LATENCY_BUCKETS - 1] += 1


class BrokerMetrics:
    """Counters of the whole broker.

    Each names a limit that was met or a thing that went wrong, or the data that passed.
    """

    __slots__ = (
        "apis",
        "bytes_in",
        "bytes_out",
        "cold_reads",
        "connections_accepted",
        "connections_idle_closed",
        "connections_refused",
        "handler_failures",
        "inflight_limit_hits",
        "malformed_requests",
        "messages_in",
        "unsupported_versions",
    )

    def __init__(self) -> None:
        self.apis = {api: ApiMetrics() for api in APIS}
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.cold_reads = 0
        self.connections_accepted = 0
        self.connections_idle_closed = 0
        self.connections_refused = 0
        self.handler_failures = 0
        self.inflight_limit_hits = 0
        self.malformed_requests = 0
        self.unsupported_versions = 0


_COUNTERS = {
    "bytes_in": "Record bytes appended",
    "bytes_out": "Record bytes sent to readers",
    "messages_in": "Records appended",
    "cold_reads": "Reads that the page cache could not answer and a thread did",
    "connections_accepted": "Connections accepted",
    "connections_refused": "Connections refused by max.connections or max.connections.per.ip",
    "connections_idle_closed": "Connections closed by connections.max.idle.ms",
    "handler_failures": "Requests that failed inside the broker, a bug each",
    "inflight_limit_hits": "Times a connection reached moldau.max.inflight.requests.per.connection",
    "malformed_requests": "Connections closed for bytes that are not a request",
    "unsupported_versions": "ApiVersions requests of a version we do not know",
}

_CLEANER_COUNTERS = {
    "cleanings": "Logs compacted",
    "failures": "Compactions that came to nothing",
    "segments_replaced": "Compacted segments taken in",
    "bytes_read": "Bytes read by compaction",
    "bytes_written": "Bytes written by compaction",
}


class Collector:
    """Turns the counters into prometheus-client's families at scrape time."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        metrics = self.broker.metrics
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
        in_sync = self.broker.replicas.in_sync
        yield CounterMetricFamily("moldau_isr_shrinks", "Replicas left an in-sync set led here", value=in_sync.shrinks)
        yield CounterMetricFamily("moldau_isr_expansions", "Replicas came into one", value=in_sync.expansions)
        evicted = "Fetch sessions that made room for others (max.incremental.fetch.session.cache.slots)"
        yield CounterMetricFamily("moldau_fetch_sessions_evicted", evicted, value=self.broker.fetch_sessions.evicted)
        for field, (text, value) in self._gauges().items():
            yield GaugeMetricFamily(f"moldau_{field}", text, value=value)

        for field, text in _CLEANER_COUNTERS.items():
            yield CounterMetricFamily(
                f"moldau_cleaner_{field}", text, value=getattr(self.broker.cleaning.counts, field)
            )

    def _gauges(self) -> dict[str, tuple[str, float]]:
        broker = self.broker
        return {
            "connections": ("Open connections", len(broker.connections)),
            "request_memory_bytes": ("Bytes of requests being received or waiting", broker.frame_memory.in_use),
            "request_memory_limit_bytes": ("queued.max.request.bytes", broker.frame_memory.limit),
            "request_memory_refusals": ("Times a connection waited for request memory", broker.frame_memory.refused),
            "fetches_waiting": ("Fetch requests waiting for data", broker.delayed_fetches.waiting),
            "fetch_sessions": ("Fetch sessions", len(broker.fetch_sessions)),
            "partitions": ("Partitions hosted", len(broker.replicas)),
            "partitions_led": ("Partitions that this broker leads", sum(one.leads for one in broker.replicas)),
            "partitions_under_replicated": (
                "Partitions led here whose replicas are not all in sync",
                sum(one.lacks_replicas for one in broker.replicas),
            ),
            "partitions_under_min_isr": (
                "Partitions led here with fewer in sync than min.insync.replicas",
                sum(one.leads and one.in_sync_count < one.log.config.min_insync_replicas for one in broker.replicas),
            ),
            "leaders_copied_from": ("Brokers that partitions are copied from", broker.replicas.fetcher_count),
            "partitions_offline": ("Partitions whose directory has failed", broker.replicas.offline_count),
            "thread_jobs_waiting": ("Jobs waiting for a thread", broker.threads.waiting),
        }


def _api_name(api: ApiKey) -> str:
    return APIS[api].name


async def serve_metrics(broker: Broker, host: str, port: int) -> asyncio.Server:
    """A page for Prometheus; any path gives it."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(Collector(broker))
    return await serve_page(host, port, "text/plain; version=0.0.4; charset=utf-8", lambda: generate_latest(registry))
