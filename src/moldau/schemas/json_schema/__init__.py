"""JSON Schema: parser, validation and compatibility rules, draft 4 to 2020-12."""
