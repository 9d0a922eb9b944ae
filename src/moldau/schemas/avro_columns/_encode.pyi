"""Types of the native encoder: those of the reference."""

from moldau.schemas.avro_columns.encode_reference import encode as encode
