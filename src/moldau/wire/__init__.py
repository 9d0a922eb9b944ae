"""Kafka's wire protocol: encoding and decoding of messages.

Sans-IO: nothing here uses a socket, a clock or a file. `messages/` and `stored/` hold one generated module per API or
stored record type, written by `tools/generate.py` from `definitions/`. No module imports another: import only the ones
you need. The content of a `records` field is not decoded here but in `moldau.records`.
"""
