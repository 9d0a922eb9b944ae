"""Broker settings of client quotas, with Kafka 4's names.

They are part of the table in `broker.py`. The quotas themselves are no settings: AlterClientQuotas stores them.
"""

from __future__ import annotations

from typing import Final

from moldau.settings.setting import INT_MAX, Scope, Setting, SettingType

INT = SettingType.INT

CONNECTION_RATE: Final = "max.connection.creation.rate"

QUOTAS = (
    Setting(
        "quota.window.num",
        INT,
        11,
        "The samples of the window over which the rates of clients hold. The last sample is incomplete, so the window "
        "is one sample shorter. A client is throttled at once for at most this time.",
        low=1,
    ),
    Setting("quota.window.size.seconds", INT, 1, "The length of one sample of that window, in seconds.", low=1),
    Setting(
        "controller.quota.window.num",
        INT,
        11,
        "The samples of the window of `controller_mutation_rate`: a client may save up its rate for this time.",
        low=1,
    ),
    Setting(
        "controller.quota.window.size.seconds", INT, 1, "The length of one sample of that window, in seconds.", low=1
    ),
    Setting(
        CONNECTION_RATE,
        INT,
        INT_MAX,
        "The limit of new connections per second of this broker. Further connections wait in the backlog of the "
        "listener. The listener for other brokers is not limited by it.",
        scope=Scope.BROKER_DYNAMIC,
        low=0,
    ),
)
