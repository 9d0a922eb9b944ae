"""Moldau: a Kafka-compatible event streaming platform in Python.

This package holds nothing but the version. Importing it costs nothing, so every process
(broker, client, command line) pays only for the packages that it uses.
"""

__version__ = "0.1.0"
