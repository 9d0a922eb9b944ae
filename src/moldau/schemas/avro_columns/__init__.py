"""Avro values to Arrow columns and back, for whole columns: no Python object per record.

A pair of schemas is compiled once to a small program (`decode_program.py`); native code runs it over a binary column.
Each native module has a readable twin with the same results (`decode_reference.py`, `encode_reference.py`).
`columns.py` has the functions to call; `registry_columns.py` finds the schemas in a registry.
"""
