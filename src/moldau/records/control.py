"""Control batches: the commit and abort markers that a transaction writes to each of its partitions."""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from moldau.records.batch_layout import NO_LEADER_EPOCH, BatchRecord, Bytes
from moldau.records.encode import encode_batch
from moldau.records.engine import decode_batch
from moldau.records.errors import InvalidBatch

_KEY: Final = Struct(">hh")  # version, type
_VALUE: Final = Struct(">hi")  # version, coordinator epoch
_VERSION: Final = 0


class ControlType(IntEnum):
    """The type of a control record. Later versions of Kafka may write others: those are UNKNOWN."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2


class Marker(NamedTuple):
    """One control record; the coordinator epoch is -1 if its type has none."""

    offset: int
    timestamp: int
    type: ControlType
    coordinator_epoch: int


def encode_marker(
    type_: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """The batch that ends a transaction of this producer: COMMIT or ABORT."""
    if type_ not in (ControlType.COMMIT, ControlType.ABORT):
        raise ValueError(f"{type_.name} does not end a transaction")
    record = BatchRecord(base_offset, timestamp, _KEY.pack(_VERSION, type_), _VALUE.pack(_VERSION, coordinator_epoch))
    return encode_batch(
        [record],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        leader_epoch=leader_epoch,
    )


def parse_marker(buf: Bytes, pos: int = 0) -> Marker:
    """Decode the marker in a control batch; InvalidBatch if it is malformed.

    Later versions add fields at the end, so only the beginning of key and value is read.
    """
    records = decode_batch(buf, pos)
    if len(records) != 1:
        raise InvalidBatch(f"a control batch of {len(records)} records")
    offset, timestamp, key, value, _ = records[0]
    if key is None or len(key) < _KEY.size:
        raise InvalidBatch("a control record without a type", 0)
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidBatch(f"a control record of version {version}", 0)
    try:
        type_ = ControlType(number)
    except ValueError:
        type_ = ControlType.UNKNOWN
    coordinator_epoch = -1
    if type_ in (ControlType.ABORT, ControlType.COMMIT):
        if value is None or len(value) < _VALUE.size:
            raise InvalidBatch("an end of transaction without its coordinator's epoch", 0)
        version, coordinator_epoch = _VALUE.unpack_from(value)
        if version < 0:
            raise InvalidBatch(f"an end of transaction of version {version}", 0)
    return Marker(offset, timestamp, type_, coordinator_epoch)
