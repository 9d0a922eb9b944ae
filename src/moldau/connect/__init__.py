"""Connect: source and sink connectors with Kafka Connect's REST API, whose work runs as Spark micro-batches.

Nothing is imported here: a Spark task imports only the modules that it needs.
"""
