"""The native twin has the reference's names and types."""

from moldau.records.arrow_reference import BatchCursor as BatchCursor
from moldau.records.arrow_reference import RowCollector as RowCollector
