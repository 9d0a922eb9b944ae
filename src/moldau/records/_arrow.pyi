"""Types of the native Arrow decoder: those of the reference."""

from moldau.records.arrow_reference import BatchCursor as BatchCursor
from moldau.records.arrow_reference import RowCollector as RowCollector
