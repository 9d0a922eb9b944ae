"""The native twin has the reference's names and types."""

from moldau.client.consumer.decode_reference import BatchRecords as BatchRecords
from moldau.client.consumer.decode_reference import Record as Record
