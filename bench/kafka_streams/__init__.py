"""Counts by Kafka Streams 4.3, for `sql_beside_kafka_streams.py`."""
