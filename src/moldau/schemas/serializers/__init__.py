"""Serializers and deserializers that use a schema registry: Avro, JSON Schema and Protobuf."""
