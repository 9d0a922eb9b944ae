"""Protobuf schemas: parser of .proto texts, linker, printer and compatibility rules."""
