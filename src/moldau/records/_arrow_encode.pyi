"""Types of the native Arrow encoder: those of the reference."""

from moldau.records.arrow_encode_reference import RowEncoder as RowEncoder
from moldau.records.arrow_encode_reference import check_rows as check_rows
from moldau.records.arrow_encode_reference import choose_partitions as choose_partitions
