"""Broker settings of delegation tokens, with Kafka 4's names. They are part of the table in `broker.py`."""

from __future__ import annotations

from typing import Final

from moldau.settings.setting import Setting, SettingType

HOUR_MS: Final = 60 * 60 * 1000
DAY_MS: Final = 24 * HOUR_MS

DELEGATION_TOKENS: Final = (
    Setting(
        "delegation.token.secret.key",
        SettingType.PASSWORD,
        None,
        "The key from which the secrets of delegation tokens are derived, the same on all brokers. Without it there "
        "are no delegation tokens. With another key, tokens that exist stop working.",
    ),
    Setting(
        "delegation.token.max.lifetime.ms",
        SettingType.LONG,
        7 * DAY_MS,
        "The longest life of a token, however often it is renewed.",
        low=1,
    ),
    Setting(
        "delegation.token.expiry.time.ms",
        SettingType.LONG,
        DAY_MS,
        "How long a token is valid before it must be renewed.",
        low=1,
    ),
    Setting(
        "delegation.token.expiry.check.interval.ms",
        SettingType.LONG,
        HOUR_MS,
        "How often the controller removes expired tokens from the metadata. An expired token is refused at once.",
        low=1,
    ),
)
