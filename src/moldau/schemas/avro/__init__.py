"""Avro schemas: types, parser, text forms, and the rules of schema resolution of Avro 1.12."""
