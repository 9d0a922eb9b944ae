# cython: language_level=3
"""Finished buffers: see _arrow_memory.pyx."""

from libc.stdint cimport uint8_t

from moldau.schemas.avro_columns._growing_columns cimport Col, Growing


cdef class Memory:
    cdef uint8_t *data
    cdef Py_ssize_t size


cdef object taken(Growing *buffer)
cdef object packed(Growing *flags)
cdef object ends_taken(Col *col)
