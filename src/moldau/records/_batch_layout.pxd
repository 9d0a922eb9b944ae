# cython: language_level=3
"""Layout of a batch header for the native modules: the constants of batch_layout.py, with the same names and values."""

cdef enum:
    LENGTH_AT = 8
    LENGTH_END = 12
    LEADER_EPOCH_AT = 12
    MAGIC_AT = 16
    CRC_AT = 17
    CRC_FROM = 21
    ATTRIBUTES_AT = 21
    LAST_OFFSET_DELTA_AT = 23
    BASE_TIMESTAMP_AT = 27
    MAX_TIMESTAMP_AT = 35
    PRODUCER_AT = 43
    PRODUCER_EPOCH_AT = 51
    BASE_SEQUENCE_AT = 53
    COUNT_AT = 57
    HEADER_SIZE = 61

    MAGIC = 2

    CODEC_MASK = 0x07
    LOG_APPEND_TIME_BIT = 0x08
    TRANSACTIONAL_BIT = 0x10
    CONTROL_BIT = 0x20
