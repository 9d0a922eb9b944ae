"""Settings: each declared once, with its type, bounds, default, scope and a sentence.

Validation, DescribeConfigs, the command line's help and docs/configuration.md all come from these declarations. The
package is pure: it reads no file, no environment and no clock; callers pass texts in.
"""

from moldau.settings.broker import BROKER, connection_overrides
from moldau.settings.effective import BrokerSettings, Description, Source, Synonym
from moldau.settings.listeners import ListenerAddress, ListenerPlan
from moldau.settings.setting import Scope, Setting, SettingError, SettingType, Value
from moldau.settings.sources import gather, read_properties
from moldau.settings.table import SettingTable
from moldau.settings.topic import TOPIC

__all__ = [
    "BROKER",
    "TOPIC",
    "BrokerSettings",
    "Description",
    "ListenerAddress",
    "ListenerPlan",
    "Scope",
    "Setting",
    "SettingError",
    "SettingTable",
    "SettingType",
    "Source",
    "Synonym",
    "Value",
    "connection_overrides",
    "gather",
    "read_properties",
]
