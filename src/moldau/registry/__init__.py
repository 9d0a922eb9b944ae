"""Schema registry: schemas with versions and compatibility rules, stored in a compacted topic, with a REST API.

    moldau registry -b 127.0.0.1:9092

`registry.py` is the interface that the REST API uses. `operations.py` decides, `schema_store.py` is the state,
`registry_service.py` writes to the topic. Nothing heavy is imported here.
"""
