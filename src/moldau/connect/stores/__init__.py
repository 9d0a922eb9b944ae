"""Stores of Connect: configurations, states and source offsets in compacted topics, in Kafka Connect's formats."""
