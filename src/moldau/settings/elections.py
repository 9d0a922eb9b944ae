"""The settings of elections and of leaving the cluster, as Kafka names them. A part of the broker's table."""

from __future__ import annotations

from moldau.settings.setting import Setting, SettingType

BOOLEAN, INT, LONG = SettingType.BOOLEAN, SettingType.INT, SettingType.LONG

ELECTIONS = (
    Setting(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        "Whether the controller moves leaders to their preferred brokers: at intervals, and soon after a broker that "
        "was gone is in sync again.",
    ),
    Setting(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        "How often the controller looks for leaders that are not on their preferred brokers.",
        low=1,
    ),
    Setting(
        "leader.imbalance.per.broker.percentage",
        INT,
        10,
        "How many percent of the partitions that prefer a broker may be led elsewhere before the leaders move.",
        low=0,
        high=100,
    ),
    Setting(
        "controlled.shutdown.enable",
        BOOLEAN,
        True,
        "Whether a broker that stops hands its leaderships to others first, so that no client has to wait for the end "
        "of its session.",
    ),
)
