"""Batch errors, with the same messages from the reference and the native code.

The native code walks records in C and can report only a number. `refusal` turns the number and its details into the
exception, for both, so that each message exists once.
"""

from typing import Final


class BatchError(Exception):
    """A batch that is refused. `record_index` is the index of the invalid record, if the error is in a record."""

    def __init__(self, message: str, record_index: int | None = None) -> None:
        super().__init__(message)
        self.record_index = record_index


class CorruptBatch(BatchError):
    """Bytes that differ from what was sent: incomplete, or with a wrong checksum (CORRUPT_MESSAGE)."""


class InvalidBatch(BatchError):
    """The bytes arrived as sent, but break the rules of the format (INVALID_RECORD)."""


class MissingKey(InvalidBatch):
    """A record has no key where keys are required. Later records of the batch were not looked at."""


class BatchTooLarge(InvalidBatch):
    """The decompressed records would exceed the caller's limit."""


class UnsupportedCodec(BatchError):
    """The attributes name a codec that does not exist (UNSUPPORTED_COMPRESSION_TYPE)."""


# Faults of a walk over records. The native code has the same numbers; a parity test checks that they match.
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

_MESSAGES: Final = {
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
_BATCH_FAULTS: Final = frozenset({TOO_FEW_RECORDS, BATCH_TRAILING})


def refusal(fault: int, record_index: int, found: int = 0, expected: int = 0) -> InvalidBatch:
    """The exception for one fault of a walk."""
    message = _MESSAGES[fault].format(found=found, expected=expected)
    if fault in _BATCH_FAULTS:
        return InvalidBatch(message)
    kind = MissingKey if fault == NO_KEY else InvalidBatch
    return kind(f"record {record_index}: {message}", record_index)
