"""Why a batch was refused. Reference and native twin raise the same exception with the same words.

The twin walks records in C and can only report a number; `refusal` turns number and details into the exception for
both, so the words exist once.
"""

from typing import Final


class BatchError(Exception):
    """A batch that cannot be taken. `record_index` says which record is at fault, where one is."""

    def __init__(self, message: str, record_index: int | None = None) -> None:
        super().__init__(message)
        self.record_index = record_index


class CorruptBatch(BatchError):
    """These are not the bytes somebody meant: cut off, or the checksum differs (CORRUPT_MESSAGE)."""


class InvalidBatch(BatchError):
    """The bytes arrived as sent, and break the format's rules (INVALID_RECORD)."""


class BatchTooLarge(InvalidBatch):
    """Decompressed, the records would take more room than the caller grants."""


class UnsupportedCodec(BatchError):
    """The attributes name a codec that does not exist (UNSUPPORTED_COMPRESSION_TYPE)."""


# Faults of a walk over records. The native twin has the same numbers; a parity test would notice a slip.
VARINT_PAST_END: Final = 1
VARINT_TOO_LONG: Final = 2
RECORD_LENGTH: Final = 3
RECORD_PAST_END: Final = 4
FIELD_PAST_RECORD: Final = 5
RECORD_TRAILING: Final = 6
KEY_LENGTH: Final = 7
VALUE_LENGTH: Final = 8
HEADER_COUNT: Final = 9
HEADER_KEY_LENGTH: Final = 10
HEADER_VALUE_LENGTH: Final = 11
OFFSET_DELTA: Final = 12
OFFSET_ORDER: Final = 13
TIMESTAMP_RANGE: Final = 14
NO_KEY: Final = 15
TOO_FEW_RECORDS: Final = 16
BATCH_TRAILING: Final = 17

_WORDS: Final = {
    VARINT_PAST_END: "a varint is cut off by the end of the record",
    VARINT_TOO_LONG: "a varint is longer than its type allows",
    RECORD_LENGTH: "its length is {found}",
    RECORD_PAST_END: "its length is {found}, but only {expected} bytes are left in the batch",
    FIELD_PAST_RECORD: "a field of {found} bytes does not fit the {expected} left in the record",
    RECORD_TRAILING: "{found} bytes are left after its last field",
    KEY_LENGTH: "its key's length is {found}",
    VALUE_LENGTH: "its value's length is {found}",
    HEADER_COUNT: "its number of headers is {found}, in {expected} bytes",
    HEADER_KEY_LENGTH: "a header key's length is {found}; header keys cannot be null",
    HEADER_VALUE_LENGTH: "a header value's length is {found}",
    OFFSET_DELTA: "its offset delta is {found} and should be {expected}",
    OFFSET_ORDER: "its offset delta is {found}, which is not between its neighbour's and the batch's last, {expected}",
    TIMESTAMP_RANGE: "its timestamp, {found} from the batch's {expected}, is beyond 64 bits",
    NO_KEY: "it has no key, and a compacted topic takes only records with one",
    TOO_FEW_RECORDS: "the records end after {found} of the {expected} that the header counts",
    BATCH_TRAILING: "{found} bytes are left after the {expected} records that the header counts",
}
_OF_THE_BATCH: Final = frozenset({TOO_FEW_RECORDS, BATCH_TRAILING})


def refusal(fault: int, record_index: int, found: int = 0, expected: int = 0) -> InvalidBatch:
    """The exception for one fault of a walk."""
    words = _WORDS[fault].format(found=found, expected=expected)
    if fault in _OF_THE_BATCH:
        return InvalidBatch(words)
    return InvalidBatch(f"record {record_index}: {words}", record_index)
