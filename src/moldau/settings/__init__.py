"""Declarations of all settings: name, type, bounds, default, scope and one sentence of documentation.

Validation, DescribeConfigs, the help of the command line and docs/configuration.md all use these declarations. The
package is pure: it reads no file, no environment variable and no clock. Callers pass the texts in.
"""

from moldau.settings.broker import BROKER, connection_overrides
from moldau.settings.effective import BrokerSettings, Description, SettingSource, Synonym, declared
from moldau.settings.group_configs import GROUP
from moldau.settings.listeners import ListenerAddress, ListenerPlan
from moldau.settings.setting import Scope, Setting, SettingError, SettingType, Value
from moldau.settings.sources import gather, read_properties
from moldau.settings.table import SettingTable
from moldau.settings.topic import TOPIC

__all__ = [
    "BROKER",
    "GROUP",
    "TOPIC",
    "BrokerSettings",
    "Description",
    "ListenerAddress",
    "ListenerPlan",
    "Scope",
    "Setting",
    "SettingError",
    "SettingSource",
    "SettingTable",
    "SettingType",
    "Synonym",
    "Value",
    "connection_overrides",
    "declared",
    "gather",
    "read_properties",
]
