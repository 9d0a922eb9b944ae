"""Code generation: Python dataclasses from Avro, JSON Schema and Protobuf schemas."""
