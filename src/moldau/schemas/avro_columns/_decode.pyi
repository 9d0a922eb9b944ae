"""Types of the native decoder: those of the reference."""

from moldau.schemas.avro_columns.decode_reference import Decoder as Decoder
