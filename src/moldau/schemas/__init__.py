"""Schemas: Avro, JSON Schema and Protobuf, the registry's client, and the serializers that use them.

    from moldau.schemas import AvroSerializer, RegistryClient
    registry = RegistryClient({"schema.registry.url": "http://127.0.0.1:8081"})
    producer = Producer(..., value_serializer=AvroSerializer(registry, schema=text))

Nothing heavy is imported here: fastavro, jsonschema, protobuf and httpx come with `pip install 'moldau[schemas]'`, and
a module that needs one of them imports it.
"""
