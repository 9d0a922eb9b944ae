"""Client settings: tables with Kafka's names, types, limits and defaults, and the parsing of values."""

from moldau.client.settings.admin import ADMIN
from moldau.client.settings.client import Address, ClientSettings, ClientTable
from moldau.client.settings.consumer import CONSUMER
from moldau.client.settings.producer import PRODUCER

__all__ = ["ADMIN", "CONSUMER", "PRODUCER", "Address", "ClientSettings", "ClientTable"]
