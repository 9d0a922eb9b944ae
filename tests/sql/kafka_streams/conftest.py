"""The fixtures of continuous queries, for tests with Kafka Streams as the judge."""

from tests.sql.continuous.conftest import catalogue, declare, planned, relations

__all__ = ["catalogue", "declare", "planned", "relations"]
