"""Types of the native JSON encoder: those of the reference."""

from moldau.connect.json_reference import encode as encode
