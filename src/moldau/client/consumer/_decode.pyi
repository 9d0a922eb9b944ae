"""Types of the native record decoder: the names and types of the reference."""

from moldau.client.consumer.decode_reference import BatchRecords as BatchRecords
from moldau.client.consumer.decode_reference import Record as Record
