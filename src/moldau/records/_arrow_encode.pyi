"""The native twin has the reference's names and types."""

from moldau.records.arrow_encode_reference import RowEncoder as RowEncoder
from moldau.records.arrow_encode_reference import check_rows as check_rows
from moldau.records.arrow_encode_reference import choose_partitions as choose_partitions
