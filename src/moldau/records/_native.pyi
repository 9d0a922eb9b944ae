"""Types of the native record codec: those of the reference."""

from moldau.records.reference import RecordsBuilder as RecordsBuilder
from moldau.records.reference import check_batch as check_batch
from moldau.records.reference import decode_batch as decode_batch
from moldau.records.reference import walk as walk
