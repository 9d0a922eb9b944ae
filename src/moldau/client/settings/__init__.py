"""The settings of producer, consumer and admin: Kafka's names, types, bounds and defaults, and how values are given."""

from moldau.client.settings.admin import ADMIN
from moldau.client.settings.client import Address, ClientSettings, ClientTable
from moldau.client.settings.consumer import CONSUMER
from moldau.client.settings.producer import PRODUCER

__all__ = ["ADMIN", "CONSUMER", "PRODUCER", "Address", "ClientSettings", "ClientTable"]
