"""Types of the native JSON decoder: those of the reference."""

from moldau.connect.json_reference import decode as decode
from moldau.connect.json_reference import decode_typed as decode_typed
from moldau.connect.json_reference import split_envelopes as split_envelopes
