"""Broker settings of Apache Kafka 4.3 that have no effect in Moldau, and settings that are unknown to both.

Kafka accepts both, in a file and at run time, because plugins read settings with unknown names. Files and tools written
for Kafka rely on that. So Moldau accepts them too, checks the type of those that Kafka declares, stores them, describes
them, and logs a warning. Settings whose silent loss would remove a protection are refused: a broker that does not start
is better than one that ignores its policies.

The table is parsed on first use, because most processes never need it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache

from moldau.settings.listener_overrides import declared_override
from moldau.settings.setting import Scope, Setting, SettingError, SettingType
from moldau.settings.table import SettingTable

NO_EFFECT = "Moldau does not have this feature"
UNKNOWN = "neither Kafka nor Moldau has a setting with this name"
NEVER_IGNORED = {
    "alter.config.policy.class.name": "Moldau cannot load policies, so changes would be unchecked; remove it",
    "ssl.engine.factory.class": "Moldau cannot load Java classes; remove it, and set ssl.keystore.location",
    "create.topic.policy.class.name": "Moldau cannot load policies, so new topics would be unchecked; remove it",
}
_SECURITY_OF_LISTENER = re.compile(r"listener\.name\..+?\.((?:ssl|sasl)\..*)")
MISSPELT = 0.9
"""The similarity to a known name (1.0 is equal) from which an unknown name in a file counts as a misspelling of it."""


@cache
def kafka_only() -> Mapping[str, Setting]:
    """Kafka's declarations by name, with type, scope and default."""
    settings = {}
    for row in _ROWS.strip().splitlines():
        name, kind, scope, default = row.split()
        setting = Setting(
            name,
            SettingType[kind.upper()],
            None,
            "A setting of Apache Kafka.",
            scope=Scope(scope),
            no_effect=NO_EFFECT,
        )
        if default != "-":
            setting.default = setting.parse(default.strip('"'))
        settings[name] = setting
    return settings


def foreign(name: str) -> Setting:
    """The declaration of a setting that Moldau does not have: Kafka's, or a generic one for an unknown name.

    Kafka hides the value of an unknown setting, because it may be a password.
    """
    known = kafka_only().get(name) or declared_override(name)
    return known or Setting(name, SettingType.UNKNOWN, None, "", no_effect=UNKNOWN)


def check_ignored(name: str, text: str) -> None:
    """SettingError if a setting that Moldau does not have has an invalid value, or must not be ignored."""
    if text.strip() and name in NEVER_IGNORED:
        raise SettingError(name, NEVER_IGNORED[name])
    foreign(name).parse(text)


def check_spelling(name: str, table: SettingTable) -> None:
    """SettingError for an unknown name in a file that is almost a known one: with `log.drs`, data would go to the
    default directory."""
    if name in kafka_only() or declared_override(name) is not None:
        return
    setting = _SECURITY_OF_LISTENER.match(name)
    if setting is not None and setting[1] not in kafka_only():
        raise SettingError(name, "unknown setting of a listener; a listener without its protection is not opened")
    if get_close_matches(name, [one.name for one in table], n=1, cutoff=MISSPELT):
        raise table.unknown(name)


_ROWS = """
alter.config.policy.class.name class read-only -
alter.log.dirs.replication.quota.window.num int read-only 11
alter.log.dirs.replication.quota.window.size.seconds int read-only 1
broker.heartbeat.interval.ms int read-only 2000
broker.session.timeout.ms int read-only 9000
client.quota.callback.class class read-only -
config.providers list dynamic ""
controller.quorum.append.linger.ms int read-only 25
controller.quorum.auto.join.enable boolean read-only false
controller.quorum.election.backoff.max.ms int read-only 1000
controller.quorum.election.timeout.ms int read-only 1000
controller.quorum.fetch.max.bytes int read-only 1048576
controller.quorum.fetch.snapshot.max.bytes int read-only 1048576
controller.quorum.fetch.timeout.ms int read-only 2000
controller.quorum.request.timeout.ms int read-only 2000
controller.quorum.retry.backoff.ms int read-only 20
controller.socket.timeout.ms int read-only 30000
cordoned.log.dirs list dynamic ""
create.topic.policy.class.name class read-only -
early.start.listeners list read-only -
follower.fetch.last.tiered.offset.enable boolean dynamic false
group.consumer.assignment.interval.ms int dynamic 1000
group.consumer.max.assignment.interval.ms int read-only 15000
group.consumer.min.assignment.interval.ms int read-only 0
group.coordinator.append.linger.ms int read-only -1
group.coordinator.background.threads int read-only 2
group.coordinator.cached.buffer.max.bytes int dynamic 1048588
group.coordinator.rebalance.protocols list read-only classic,consumer,streams
group.coordinator.threads int read-only 4
group.share.assignment.interval.ms int dynamic 1000
group.share.assignors list read-only simple
group.share.delivery.count.limit int read-only 5
group.share.heartbeat.interval.ms int read-only 5000
group.share.max.assignment.interval.ms int read-only 15000
group.share.max.delivery.count.limit int read-only 10
group.share.max.heartbeat.interval.ms int read-only 15000
group.share.max.partition.max.record.locks int read-only 4000
group.share.max.record.lock.duration.ms int read-only 60000
group.share.max.session.timeout.ms int read-only 60000
group.share.max.share.sessions int read-only 2000
group.share.max.size int read-only 200
group.share.min.assignment.interval.ms int read-only 0
group.share.min.delivery.count.limit int read-only 2
group.share.min.heartbeat.interval.ms int read-only 5000
group.share.min.partition.max.record.locks int read-only 100
group.share.min.record.lock.duration.ms int read-only 15000
group.share.min.session.timeout.ms int read-only 45000
group.share.partition.max.record.locks int read-only 2000
group.share.record.lock.duration.ms int read-only 30000
group.share.session.timeout.ms int read-only 45000
group.streams.assignment.interval.ms int dynamic 1000
group.streams.heartbeat.interval.ms int read-only 5000
group.streams.initial.rebalance.delay.ms int read-only 3000
group.streams.max.assignment.interval.ms int read-only 15000
group.streams.max.heartbeat.interval.ms int read-only 15000
group.streams.max.session.timeout.ms int read-only 60000
group.streams.max.size int read-only 2147483647
group.streams.max.standby.replicas int read-only 2
group.streams.min.assignment.interval.ms int read-only 0
group.streams.min.heartbeat.interval.ms int read-only 5000
group.streams.min.session.timeout.ms int read-only 45000
group.streams.num.standby.replicas int read-only 0
group.streams.session.timeout.ms int read-only 45000
initial.broker.registration.timeout.ms int read-only 60000
kafka.metrics.polling.interval.secs int read-only 10
kafka.metrics.reporters list read-only ""
log.dir.failure.timeout.ms long read-only 30000
log.local.retention.bytes long dynamic -2
log.local.retention.ms long dynamic -2
metadata.log.dir string read-only -
metadata.log.max.record.bytes.between.snapshots long read-only 20971520
metadata.log.max.snapshot.interval.ms long read-only 3600000
metadata.log.segment.bytes int read-only 1073741824
metadata.log.segment.ms long read-only 604800000
metadata.max.idle.interval.ms int read-only 500
metadata.max.retention.bytes long read-only 104857600
metadata.max.retention.ms long read-only 604800000
metric.reporters list dynamic org.apache.kafka.common.metrics.JmxReporter
metrics.num.samples int read-only 2
metrics.recording.level string read-only INFO
metrics.sample.window.ms long read-only 30000
num.replica.alter.log.dirs.threads int read-only -
offsets.load.buffer.size int read-only 5242880
offsets.topic.compression.codec int read-only 0
principal.builder.class class dynamic org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
remote.fetch.max.wait.ms int dynamic 500
remote.list.offsets.request.timeout.ms long dynamic 30000
remote.log.index.file.cache.total.size.bytes long dynamic 1073741824
remote.log.manager.copier.thread.pool.size int dynamic 10
remote.log.manager.copy.max.bytes.per.second long dynamic 9223372036854775807
remote.log.manager.copy.quota.window.num int read-only 11
remote.log.manager.copy.quota.window.size.seconds int read-only 1
remote.log.manager.expiration.thread.pool.size int dynamic 10
remote.log.manager.fetch.max.bytes.per.second long dynamic 9223372036854775807
remote.log.manager.fetch.quota.window.num int read-only 11
remote.log.manager.fetch.quota.window.size.seconds int read-only 1
remote.log.manager.follower.thread.pool.size int dynamic 2
remote.log.manager.task.interval.ms long read-only 30000
remote.log.manager.thread.pool.size int read-only 2
remote.log.metadata.custom.metadata.max.bytes int read-only 128
remote.log.metadata.manager.class.name string read-only \
org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.class.path string read-only -
remote.log.metadata.manager.impl.prefix string read-only rlmm.config.
remote.log.metadata.manager.listener.name string read-only -
remote.log.reader.max.pending.tasks int read-only 100
remote.log.reader.threads int dynamic 10
remote.log.storage.manager.class.name string read-only -
remote.log.storage.manager.class.path string read-only -
remote.log.storage.manager.impl.prefix string read-only rsm.config.
remote.log.storage.system.enable boolean read-only false
replica.socket.receive.buffer.bytes int read-only 65536
replica.socket.timeout.ms int read-only 30000
replication.quota.window.num int read-only 11
replication.quota.window.size.seconds int read-only 1
request.timeout.ms int read-only 30000
sasl.client.callback.handler.class class read-only -
sasl.kerberos.kinit.cmd string dynamic /usr/bin/kinit
sasl.kerberos.min.time.before.relogin long dynamic 60000
sasl.kerberos.principal.to.local.rules list dynamic DEFAULT
sasl.kerberos.service.name string dynamic -
sasl.kerberos.ticket.renew.jitter double dynamic 0.05
sasl.kerberos.ticket.renew.window.factor double dynamic 0.8
sasl.login.callback.handler.class class read-only -
sasl.login.class class read-only -
sasl.login.connect.timeout.ms int read-only -
sasl.login.read.timeout.ms int read-only -
sasl.login.refresh.buffer.seconds short dynamic 300
sasl.login.refresh.min.period.seconds short dynamic 60
sasl.login.refresh.window.factor double dynamic 0.8
sasl.login.refresh.window.jitter double dynamic 0.05
sasl.login.retry.backoff.max.ms long read-only 10000
sasl.login.retry.backoff.ms long read-only 100
sasl.mechanism.controller.protocol string read-only GSSAPI
sasl.oauthbearer.assertion.algorithm string read-only RS256
sasl.oauthbearer.assertion.claim.aud string read-only -
sasl.oauthbearer.assertion.claim.exp.seconds int read-only 300
sasl.oauthbearer.assertion.claim.iss string read-only -
sasl.oauthbearer.assertion.claim.jti.include boolean read-only false
sasl.oauthbearer.assertion.claim.nbf.seconds int read-only 60
sasl.oauthbearer.assertion.claim.sub string read-only -
sasl.oauthbearer.assertion.file string read-only -
sasl.oauthbearer.assertion.private.key.file string read-only -
sasl.oauthbearer.assertion.private.key.passphrase password read-only -
sasl.oauthbearer.assertion.template.file string read-only -
sasl.oauthbearer.client.credentials.client.id string read-only -
sasl.oauthbearer.client.credentials.client.secret password read-only -
sasl.oauthbearer.jwt.retriever.class class read-only org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class class read-only org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope string read-only -
security.providers string read-only -
share.coordinator.append.linger.ms int read-only -1
share.coordinator.cached.buffer.max.bytes int dynamic 1048588
share.coordinator.load.buffer.size int read-only 5242880
share.coordinator.snapshot.update.records.per.snapshot int read-only 500
share.coordinator.state.topic.compression.codec int read-only 0
share.coordinator.state.topic.num.partitions int read-only 50
share.coordinator.state.topic.segment.bytes int read-only 104857600
share.coordinator.threads int read-only 1
share.coordinator.write.timeout.ms int read-only 5000
share.fetch.purgatory.purge.interval.requests int read-only 1000
socket.connection.setup.timeout.max.ms long read-only 30000
socket.connection.setup.timeout.ms long read-only 10000
ssl.allow.dn.changes boolean read-only false
ssl.allow.san.changes boolean read-only false
ssl.engine.factory.class class dynamic -
ssl.keymanager.algorithm string dynamic SunX509
ssl.protocol string dynamic TLSv1.3
ssl.provider string dynamic -
ssl.secure.random.implementation string dynamic -
ssl.trustmanager.algorithm string dynamic PKIX
telemetry.max.bytes int read-only 1048576
"""
