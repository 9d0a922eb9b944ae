"""Kafka's wire protocol: bytes to messages and back.

Sans-IO: nothing here knows a socket, a clock or a file. `messages/` and `stored/` hold one generated module an API or
stored record, written by `tools/generate.py` from `definitions/`; import the one you need: none imports another.
What is inside a `records` field is not looked at here: that is `moldau.records`.
"""
