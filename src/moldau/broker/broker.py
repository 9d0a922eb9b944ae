"""The broker: assembly of its parts, start, periodic work, and stop.

Everything here runs on one event loop. Blocking work runs in `threads`, and its result returns to the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine, Iterator, Sequence
from typing import Any, NamedTuple

from moldau.broker import handlers  # noqa: F401  (registers them)
from moldau.broker.audit_log import AuditLog
from moldau.broker.configs import authorizer_of, log_config, metadata_rules, token_rules
from moldau.broker.connection.connection_limits import IDLE_SWEEPS, Connections
from moldau.broker.connection.initial_users import read_initial_users
from moldau.broker.connection.listener import Listener
from moldau.broker.connection.listener_logins import Accounts
from moldau.broker.connection.listener_security import SecurityHost
from moldau.broker.connection.reply_memory import ReplyMemory
from moldau.broker.connection.session import LoginHost, Route, SessionHost, build_routes
from moldau.broker.coordinators.group_coordinator import GroupCoordinator
from moldau.broker.coordinators.txn_coordinator import TxnCoordinator
from moldau.broker.handlers.api_versions import unsupported_version
from moldau.broker.log_cleaner import LogCleaner
from moldau.broker.log_dir_moves import LogDirMoves
from moldau.broker.metrics import BrokerMetrics, MetricsSources, serve_metrics
from moldau.broker.peer_security import PeerSecurity
from moldau.broker.peers import Peers
from moldau.broker.quotas.client_quotas import ClientQuotas, QuotaWindows
from moldau.broker.quotas.connection_rates import ConnectionRates
from moldau.broker.replication_wiring import cluster_access
from moldau.broker.requests.delayed_requests import DelayedFetches
from moldau.broker.requests.deleted_topics import DeletedTopics
from moldau.broker.requests.fetch_sessions import FetchSessions
from moldau.broker.requests.handler_registry import Handler
from moldau.broker.schema_ids.schema_validation import SchemaValidation, registered_schemas
from moldau.broker.txn.txn_verification import ProduceVerifier
from moldau.cluster.configs import Alteration
from moldau.cluster.errors import Refusal
from moldau.cluster.image import ALL_BROKERS, BrokerImage, ClusterImage, Endpoint, TopicImage
from moldau.cluster.image_publisher import TooBusy
from moldau.cluster.membership import EVERYTHING
from moldau.cluster.metadata import Metadata
from moldau.cluster.store import OpenStore, StoreError
from moldau.cluster.topics import MorePartitions, TopicCreation, TopicRef
from moldau.coordinator.runtime import CoordinatorHost
from moldau.host.clock import Clock, Randomness
from moldau.host.event_log import event_logger
from moldau.host.threads import Threads
from moldau.log.config import LogConfig
from moldau.log.dirs import LogDirs
from moldau.net.framing import FrameMemory
from moldau.replication.manager import ReplicaManager
from moldau.settings import BrokerSettings, SettingError
from moldau.settings.replication import RACK_AWARE
from moldau.wire.api import ApiKey

log = event_logger(__name__)

UNLIMITED = 1 << 62
LOGIN_APIS = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
"""Served before a client has logged in."""
PRODUCER_EXPIRY_CHECK_MS = 600_000
HAND_OVER_S = 5.0
"""How long a stopping broker tries to hand over its leaderships."""
DRAIN_S = 5.0
"""How long a stopping broker waits for clients to read their last responses."""


class Host(NamedTuple):
    """The services of the machine, or of a simulation."""

    clock: Clock
    randomness: Randomness
    threads: Threads
    boot_id: str
    """Id of this boot of the machine. Data that was not synced to disk may be lost when it changes."""


class Broker:
    schema_validation: SchemaValidation | None = None
    """None until a topic asks for it."""

    def __init__(self, settings: BrokerSettings, host: Host, dirs: LogDirs, open_store: OpenStore) -> None:
        self.settings = settings
        """The current settings. The object is replaced when a setting is changed at run time."""
        self.threads = host.threads
        self.clock = host.clock
        self.now_ms = host.clock.now_ms
        self.log_dirs = dirs
        self.boot_id = host.boot_id
        self.node_id: int = settings["node.id"]
        self.loop = asyncio.get_running_loop()
        self.stopping = False
        self.metrics = BrokerMetrics()
        self.authorizer = authorizer_of(settings)
        self.audit_log = AuditLog(self.loop)
        self.token_rules = token_rules(settings)

        self.fetch_max_bytes: int = settings["fetch.max.bytes"]
        self.reads_by_rack: bool = settings["replica.selector.class"] == RACK_AWARE
        queued: int = settings["queued.max.request.bytes"]
        self.frame_memory = FrameMemory(queued if queued > 0 else UNLIMITED)
        unsent: int = settings["moldau.queued.max.response.bytes"]
        self.reply_memory = ReplyMemory(unsent if unsent > 0 else UNLIMITED)
        plan = settings.listener_plan()
        windows = QuotaWindows.of(settings)
        self.quotas = ClientQuotas(windows, self.loop.time, self._quotas_changed)
        protected = plan.inter_broker if len(plan.bound) > 1 else None
        self.connection_rates = ConnectionRates(windows.client, lambda: self.settings, self.loop.time, protected)
        self.connections = Connections(
            lambda: self.settings, self.metrics, self.loop.time, self.quotas, self.connection_rates
        )
        self.delayed_fetches = DelayedFetches()
        self.fetch_sessions = FetchSessions(settings["max.incremental.fetch.session.cache.slots"], host.randomness)
        self.routes = build_routes(self.metrics.apis)
        fallback = Handler(ApiKey.API_VERSIONS, unsupported_version, 0, 0, raw=True)
        self.api_versions_fallback = Route(fallback, 0, self.metrics.apis[ApiKey.API_VERSIONS])

        self.login_memory = FrameMemory(settings["moldau.unauthenticated.request.bytes"])

        self._tasks: dict[asyncio.Task[None], None] = {}
        self._periodic: list[asyncio.Task[None]] = []
        self._default_log_config: LogConfig | None = None
        self._registered_schemas = registered_schemas(settings, host.threads, self.loop.time)
        rules = metadata_rules(lambda: self.settings)
        self.metadata = Metadata(self.node_id, open_store, host.randomness, rules)
        self.metadata.listen(self._follow_rules)
        self.metadata.listen(self._image_changed)
        self.deleted_topics = DeletedTopics()
        self.metadata.listen(self.deleted_topics.follow)
        self.metadata.on_registration(self._registration_changed)
        self.peer_security = PeerSecurity(lambda: self.settings, host.threads, host.clock, host.randomness)
        self.peers = Peers(self.node_id, self.peer_security, lambda: self.image)
        self.metadata.listen(self.peers.follow)
        self.replicas = ReplicaManager(
            self.node_id,
            dirs,
            host.threads,
            host.clock,
            self.log_config,
            self.spawn,
            cluster_access(self.node_id, self.metadata, lambda: self.settings, self.peer_security),
        )
        self.cleaning = LogCleaner(
            lambda: self.settings, self.replicas, dirs, host.threads, host.clock, host.randomness
        )
        self.moves = LogDirMoves(dirs, host.threads, host.clock, host.randomness, self.spawn, lambda: self.stopping)
        coordinator_host = CoordinatorHost(
            self.loop,
            host.clock,
            host.threads,
            self.replicas,
            lambda: self.image,
            lambda: self.metadata.in_touch,
            lambda: self.stopping,
            self.create_topics,
            self.spawn,
            settings["offsets.commit.timeout.ms"] / 1000,
        )
        self.groups = GroupCoordinator(coordinator_host, lambda: self.settings, self.metadata.listen, host.randomness)
        self.transactions = TxnCoordinator(
            coordinator_host,
            lambda: self.settings,
            lambda: self.metadata.store,
            self.peers,
            self.groups.runtime.shard_at,
        )
        self.produce_verifier = ProduceVerifier(self.transactions, self.replicas, lambda: self.settings)
        advertised = {address.name: address for address in plan.advertised}
        self.listeners = [Listener(bound, advertised.get(bound.name, bound)) for bound in plan.bound]
        self._metrics_server: asyncio.Server | None = None
        secret_key = settings["delegation.token.secret.key"] or None
        accounts = Accounts(lambda: self.image.security, host.clock, host.randomness, secret_key)
        self._security_host = SecurityHost(host.threads, host.clock, accounts)

    @property
    def image(self) -> ClusterImage:
        return self.metadata.image

    # -- lifecycle -------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Bind first, so that a port in use is reported before any data is touched. Accept connections last."""
        session_host = self._session_host()
        if self.settings["zookeeper.connect"]:
            self.peer_security.check()
        for listener in self.listeners:
            await listener.security.open(self.settings, self._security_host)
            await listener.bind(session_host, self.settings)
        metrics_port: int = self.settings["moldau.metrics.port"]
        if metrics_port >= 0:
            self._metrics_server = await serve_metrics(
                self._metrics_sources(), self.settings["moldau.metrics.host"], metrics_port
            )
            log.info("metrics", extra={"address": "{}:{}".format(*self._metrics_server.sockets[0].getsockname()[:2])})
        endpoints = tuple(listener.endpoint() for listener in self.listeners)
        image = await self.metadata.open(self.log_dirs.cluster_id)
        self.log_dirs.remember_cluster(image.cluster_id)
        self._take_dynamic_settings()
        await self._refresh_security()
        await self.log_dirs.load(
            self.threads, self._log_config_by_name, self.settings["num.recovery.threads.per.data.dir"]
        )
        await self._register(endpoints)
        await self._store_initial_users()
        image = self.image
        await self.replicas.start(image)
        await self.cleaning.start()
        self.groups.runtime.start()
        self.transactions.start()
        for listener in self.listeners:
            await listener.serve()
        self._warn_of_no_effect(())
        if self.settings["connections.max.idle.ms"] >= 0:
            self._every(self.settings["connections.max.idle.ms"] / IDLE_SWEEPS, self._close_idle)
        if any(listener.security.needs_handshake for listener in self.listeners):
            self._every(self.settings["moldau.security.refresh.interval.ms"], self._refresh_security)
        self._every(self.settings["log.retention.check.interval.ms"], self._apply_retention)
        self._every(PRODUCER_EXPIRY_CHECK_MS, self._expire_producers)
        if self.token_rules.secret_key is not None:
            self._every(self.settings["delegation.token.expiry.check.interval.ms"], self._remove_expired_tokens)
        self._every(self.settings["log.flush.offset.checkpoint.interval.ms"], self._write_checkpoints)
        self._every(self.settings["replica.high.watermark.checkpoint.interval.ms"], self._write_high_watermarks)
        log.info(
            "ready",
            extra={
                "node": self.node_id,
                "cluster": image.cluster_id,
                "listeners": ",".join(f"{e.listener}://{e.host}:{e.port}" for e in endpoints),
                "topics": len(image.topics),
                "partitions": len(self.replicas),
            },
        )

    def _session_host(self) -> SessionHost:
        return SessionHost(
            self.loop,
            self.frame_memory,
            self.reply_memory,
            self.settings["socket.request.max.bytes"],
            self.settings["moldau.max.inflight.requests.per.connection"],
            self.routes,
            self.api_versions_fallback,
            self.connections,
            self.metrics,
            self.quotas,
            LoginHost(
                {key: route for key, route in self.routes.items() if key >> 16 in LOGIN_APIS},
                self.login_memory,
                self.threads,
                self.now_ms,
                self.settings["moldau.authentication.timeout.ms"] / 1000,
                self.settings["connection.failed.authentication.delay.ms"] / 1000,
            ),
            self,
        )

    def _metrics_sources(self) -> MetricsSources:
        return MetricsSources(
            self.metrics,
            self.connections,
            self.frame_memory,
            self.reply_memory,
            self.delayed_fetches,
            self.fetch_sessions,
            self.replicas,
            self.cleaning,
            self.threads,
            self.quotas,
        )

    async def _register(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Register in the cluster, after the logs were loaded. If the ends of logs may be lost, this broker leaves the
        ISRs of their partitions."""
        rack, directory_id = self.settings["broker.rack"], self.log_dirs.directory_id
        broker = BrokerImage(self.node_id, endpoints, rack, directory_id=directory_id)
        if not self.metadata.store.shared:
            await self.metadata.register(broker)
            return
        lost = self.log_dirs.lost_ends(self.boot_id, _hosted(self.image, self.node_id))
        if lost:
            log.warning(
                "the ends of logs may be lost, leaving their ISRs", extra={"node": self.node_id, "logs": len(lost)}
            )
        await self.metadata.register(broker, lost)
        await self.log_dirs.remember_boot(self.threads, self.boot_id)

    async def _store_initial_users(self) -> None:
        """Store the users of `moldau.initial.users.file` in a cluster that has none."""
        path: str | None = self.settings["moldau.initial.users.file"]
        if not path or self.image.security.scram_credentials:
            return
        users = await self.threads.run("users", read_initial_users, path)
        for refusal in await self.metadata.security.store_initial_users(users):
            if refusal is not None:
                raise SettingError("moldau.initial.users.file", f"a user was not stored: {refusal.message}")
        log.info("users stored", extra={"count": len(users)})

    def _registration_changed(self, registered: bool) -> None:
        if not registered:
            self.replicas.stop_leading()

    async def _hand_over(self) -> None:
        """Hand over all leaderships, so that no client has to wait for the session timeout of this broker."""
        if not self.settings["controlled.shutdown.enable"] or not self.metadata.registered:
            return
        if len(self.image.brokers) < 2:
            return
        # If this broker still fetched, the new leaders would add it to the ISRs again.
        self.replicas.stop_copying()
        try:
            async with asyncio.timeout(HAND_OVER_S):
                await self._resign()
            await self.replicas.settled()
        except (StoreError, TimeoutError) as error:
            log.warning("leaderships were not handed over", extra={"node": self.node_id, "reason": repr(error)})

    async def _resign(self) -> None:
        while True:
            try:
                return await self.metadata.resign(EVERYTHING)
            except TooBusy:
                continue  # other brokers stop at the same time and change the same topics

    async def stop(self) -> None:
        """Hand over leaderships, answer waiting requests, close connections, flush, and mark the directories as
        clean."""
        await self._hand_over()
        self.stopping = True
        for listener in self.listeners:
            listener.stop()
        if self._metrics_server is not None:
            self._metrics_server.close()
        self.delayed_fetches.complete_all()
        self.groups.runtime.stop()  # waiting members get NOT_COORDINATOR and look for the new coordinator
        self.connections.close_all()
        await self._connections_closed()
        if self._registered_schemas is not None:
            await self._registered_schemas.close()
        self.transactions.stop()
        self.peers.close()
        await self.metadata.stop()
        await self.cleaning.stop()
        self.replicas.stop()
        for task in self._periodic:
            task.cancel()
        # Wait for tasks and do not cancel them: their work in threads would continue while the logs are closed.
        while self._tasks:
            await asyncio.wait(list(self._tasks))
        await self.log_dirs.close(self.threads, self.replicas.high_watermarks())
        await self.metadata.close()
        await self.threads.close()
        log.info("stopped", extra={"node": self.node_id})

    async def abandon(self) -> None:
        """Release everything without writing: after a failed start, or for a crash in a test."""
        self.stopping = True
        for listener in self.listeners:
            listener.stop()
        if self._metrics_server is not None:
            self._metrics_server.close()
        self.connections.abort_all()
        if self._registered_schemas is not None:
            await self._registered_schemas.close()
        self.peers.close()
        await self.cleaning.stop()
        self.replicas.stop()
        tasks = [*self._periodic, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.metadata.close()
        await self.threads.close()
        self.log_dirs.release()

    async def _connections_closed(self) -> None:
        try:
            async with asyncio.timeout(DRAIN_S):
                await self.connections.none_left()
        except TimeoutError:
            log.warning(
                "clients did not read their last responses, connections aborted",
                extra={"connections": len(self.connections)},
            )
            self.connections.abort_all()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine in the background. A failure is a bug and is logged."""
        task = self.loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self.metrics.handler_failures += 1
            log.error("background task failed", exc_info=error)

    # -- periodic work ---------------------------------------------------------------------------------------------

    def _every(self, milliseconds: float, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run an action periodically. A failure is logged, and the action runs again after the interval."""

        async def repeat() -> None:
            while True:
                await asyncio.sleep(milliseconds / 1000)
                await asyncio.wait([self.spawn(action())])

        self._periodic.append(self.loop.create_task(repeat()))

    async def _close_idle(self) -> None:
        self.connections.close_idle(self.loop.time())

    async def _refresh_security(self) -> None:
        """Use changed certificates and login settings for new connections."""
        for listener in self.listeners:
            await listener.security.refresh(self.settings)

    async def _write_checkpoints(self) -> None:
        await self.log_dirs.write_checkpoints(self.threads)

    async def _write_high_watermarks(self) -> None:
        await self.log_dirs.write_high_watermarks(self.threads, self.replicas.high_watermarks())

    async def _expire_producers(self) -> None:
        await self.replicas.expire_producers(self.now_ms(), self.settings["producer.id.expiration.ms"])

    async def _remove_expired_tokens(self) -> None:
        if self.metadata.leads_cluster:
            await self.metadata.security.remove_expired_tokens(self.now_ms())

    async def _apply_retention(self) -> None:
        await self.replicas.apply_retention(self.now_ms())

    # -- topics ----------------------------------------------------------------------------------------------------

    def log_config(self, topic: TopicImage) -> LogConfig:
        if topic.configs:
            config = log_config(self.settings, topic.configs)
            if self.schema_validation is None and config.validates_schemas:
                self.schema_validation = SchemaValidation(self._registered_schemas)
            return config
        if self._default_log_config is None:
            self._default_log_config = log_config(self.settings, {})
        return self._default_log_config

    def _log_config_by_name(self, topic: str) -> LogConfig:
        """The settings of a log that was found on disk. Its topic may be deleted."""
        return self.log_config(self.image.topics.get(topic) or TopicImage(topic, b"", ()))

    def _follow_rules(self, old: ClusterImage, new: ClusterImage) -> None:
        """Apply changed access rules and quotas. This comes first: whatever else the image brings is done under its
        rules."""
        if new.security.acls is not old.security.acls:
            self.authorizer.follow(new.security.acls)
        self.quotas.follow(new.security)
        self.connection_rates.follow(new.security)

    def _quotas_changed(self) -> None:
        """End all throttles: the next request of each connection is measured by the new quotas."""
        for session in self.connections:
            session.quota.unmute()

    def _image_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        """Apply a new image of the cluster. This does not depend on the request that has caused the change."""
        if not self.replicas.started:
            return
        if old.broker_configs != new.broker_configs:
            self._take_dynamic_settings()
            self.replicas.reconfigure_all()
            self.spawn(self._refresh_security())
        self.spawn(self.replicas.follow(new))

    def _take_dynamic_settings(self) -> None:
        """Apply the settings that were changed at run time, now or before a restart."""
        image, before = self.image, self.settings
        self.settings = before.with_dynamic(image.broker_config(str(self.node_id)), image.broker_config(ALL_BROKERS))
        self._default_log_config = None
        if self.replicas.started:
            self._warn_of_no_effect([setting.name for setting in before.without_effect()])

    def _warn_of_no_effect(self, known: Container[str]) -> None:
        """Log each configured setting that has no effect, except for those in `known`, which were logged before."""
        for setting in self.settings.without_effect():
            if setting.name not in known:
                log.warning("setting has no effect", extra={"setting": setting.name, "reason": setting.no_effect})

    async def create_topics(
        self, topics: Sequence[TopicCreation], *, validate_only: bool = False
    ) -> list[TopicImage | Refusal]:
        """Create topics. Each answer is the topic, which now accepts records, or the refusal."""
        answers = await self.metadata.create_topics(topics, validate_only=validate_only)
        await self.replicas.settled()
        return answers

    async def delete_topics(self, refs: Sequence[TopicRef]) -> list[TopicImage | Refusal]:
        answers = await self.metadata.delete_topics(refs)
        await self.replicas.settled()
        return answers

    async def create_partitions(
        self, requests: Sequence[MorePartitions], *, validate_only: bool = False
    ) -> list[TopicImage | Refusal]:
        answers = await self.metadata.create_partitions(requests, validate_only=validate_only)
        await self.replicas.settled()
        return answers

    async def alter_configs(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False
    ) -> list[Refusal | None]:
        answers = await self.metadata.alter_configs(alterations, validate_only=validate_only)
        await self.replicas.settled()
        return answers


def _hosted(image: ClusterImage, node_id: int) -> Iterator[tuple[str, int, bytes]]:
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            if node_id in state.replicas:
                yield topic.name, index, topic.id
