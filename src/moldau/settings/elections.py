"""Broker settings of leader election and controlled shutdown, with Kafka's names.

They are part of the table in `broker.py`.
"""

from __future__ import annotations

from moldau.settings.setting import Setting, SettingType

BOOLEAN, INT, LONG = SettingType.BOOLEAN, SettingType.INT, SettingType.LONG

ELECTIONS = (
    Setting(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        True,
        "Whether the controller moves leadership back to preferred leaders: periodically, and soon after a returned "
        "broker is in sync again.",
    ),
    Setting(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        "The time in seconds between two searches for partitions that are not led by their preferred leader.",
        low=1,
    ),
    Setting(
        "leader.imbalance.per.broker.percentage",
        INT,
        10,
        "The percentage of a broker's preferred partitions that other brokers may lead before the controller moves "
        "leadership back.",
        low=0,
        high=100,
    ),
    Setting(
        "controlled.shutdown.enable",
        BOOLEAN,
        True,
        "Whether a broker that stops first moves leadership to other brokers, so that clients need not wait for the "
        "end of its ZooKeeper session.",
    ),
)
